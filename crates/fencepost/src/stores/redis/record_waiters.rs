//! The futures of this process that wait for a record to change, and what the server has announced to them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use redis::Value;
use tokio::sync::Notify;

use super::scripts::ReadValue;
use crate::mutex::lock;

/// One bell for each key that somebody here waits for.
#[derive(Default)]
pub(super) struct RecordWaiters(Mutex<HashMap<String, Arc<Notify>>>);

/// A future that waits for a change of a key. Dropping it ends the wait.
pub(super) struct Listener<'a> {
    waiters: &'a RecordWaiters,
    key: String,
    /// Rings if the key may have changed.
    pub(super) bell: Arc<Notify>,
}

impl RecordWaiters {
    pub(super) fn listen(&self, key: &str) -> Listener<'_> {
        let mut bells = lock(&self.0);
        let bell = bells.entry(key.to_owned()).or_default().clone();
        Listener {
            waiters: self,
            key: key.to_owned(),
            bell,
        }
    }

    /// Handles announced changes; `None` means that all keys may have changed.
    pub(super) fn have_changed(&self, keys: Option<&[Value]>) {
        let bells = lock(&self.0);
        match keys {
            Some(keys) => {
                let keys = keys.iter().filter_map(|key| key.text());
                let rung = keys.filter_map(|key| bells.get(key));
                rung.for_each(|bell| bell.notify_waiters());
            }
            None => bells.values().for_each(|bell| bell.notify_waiters()),
        }
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        let mut bells = lock(&self.waiters.0);
        // Copies are made only under this lock: the map has one, and this listener the other.
        if Arc::strong_count(&self.bell) == 2 {
            bells.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn those_who_wait_for_a_key_are_told_and_the_last_one_ends_it() {
        let waiters = RecordWaiters::default();
        let (one, two, other) = (
            waiters.listen("a"),
            waiters.listen("a"),
            waiters.listen("b"),
        );
        let mut waiting = [one.bell.notified(), two.bell.notified()].map(Box::pin);
        let mut apart = Box::pin(other.bell.notified());
        for waiting in &mut waiting {
            waiting.as_mut().enable();
        }
        apart.as_mut().enable();
        let changed = [Value::BulkString(b"a".into())];
        waiters.have_changed(Some(&changed));
        for waiting in waiting {
            assert!(waiting.now_or_never().is_some());
        }
        assert!(apart.as_mut().now_or_never().is_none());
        waiters.have_changed(None);
        assert!(apart.as_mut().now_or_never().is_some());
        drop(apart);
        drop(one);
        assert_eq!(lock(&waiters.0).len(), 2);
        drop((two, other));
        assert!(lock(&waiters.0).is_empty());
    }
}
