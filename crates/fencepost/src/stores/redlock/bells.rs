//! Bells that wake the waiters of this process when a server announces that a key has changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use redis::Value;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::mutex::lock;
use crate::stores::redis::for_redlock::ReadValue;

/// The names that this process waits for, each with its bell.
#[derive(Default)]
pub(super) struct Bells(Mutex<HashMap<Box<str>, Arc<Notify>>>);

/// Rings when a watched key of this name changes.
pub(super) struct Bell<'a> {
    bells: &'a Bells,
    name: &'a str,
    notify: Arc<Notify>,
}

impl Bells {
    /// Returns the bell of this name, which exists as long as somebody has it.
    pub(super) fn of<'a>(&'a self, name: &'a str) -> Bell<'a> {
        let mut bells = lock(&self.0);
        let notify = bells.entry(name.into()).or_default().clone();
        Bell {
            bells: self,
            name,
            notify,
        }
    }

    /// Wakes the waiters for these keys, or all waiters if `None`.
    pub(super) fn ring(&self, changed: Option<&[Value]>) {
        let bells = lock(&self.0);
        match changed {
            None => bells.values().for_each(|bell| bell.notify_waiters()),
            Some(keys) => keys
                .iter()
                .filter_map(|key| bells.get(key.text()?))
                .for_each(|bell| bell.notify_waiters()),
        }
    }
}

impl Bell<'_> {
    /// Returns a future that completes when the bell rings.
    pub(super) fn rung(&self) -> Notified<'_> {
        self.notify.notified()
    }
}

impl Drop for Bell<'_> {
    fn drop(&mut self) {
        let mut bells = lock(&self.bells.0);
        // Two references are left: ours, and the one in the table.
        if Arc::strong_count(&self.notify) == 2 {
            bells.remove(self.name);
        }
    }
}
