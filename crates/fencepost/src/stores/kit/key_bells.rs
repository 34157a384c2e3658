//! [`KeyBells`]: tells the futures of this process that wait for a record what the server has announced about its key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::mutex::lock;

/// One bell for each key that somebody here waits for.
#[derive(Default)]
pub(crate) struct KeyBells(Mutex<HashMap<String, Arc<Notify>>>);

/// A future that waits for a change of a key. Dropping it ends the wait.
pub(crate) struct Listener<'a> {
    bells: &'a KeyBells,
    key: String,
    /// Rings if the key may have changed.
    pub(crate) bell: Arc<Notify>,
}

impl KeyBells {
    pub(crate) fn listen(&self, key: &str) -> Listener<'_> {
        let mut bells = lock(&self.0);
        let bell = bells.entry(key.to_owned()).or_default().clone();
        Listener {
            bells: self,
            key: key.to_owned(),
            bell,
        }
    }

    /// Tells everybody who waits for this key.
    pub(crate) fn ring(&self, key: &str) {
        if let Some(bell) = lock(&self.0).get(key) {
            bell.notify_waiters();
        }
    }

    /// Tells everybody, because all keys may have changed.
    pub(crate) fn ring_all(&self) {
        for bell in lock(&self.0).values() {
            bell.notify_waiters();
        }
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        let mut bells = lock(&self.bells.0);
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
        let bells = KeyBells::default();
        let (one, two, other) = (bells.listen("a"), bells.listen("a"), bells.listen("b"));
        let mut waiting = [one.bell.notified(), two.bell.notified()].map(Box::pin);
        let mut apart = Box::pin(other.bell.notified());
        for waiting in &mut waiting {
            waiting.as_mut().enable();
        }
        apart.as_mut().enable();
        bells.ring("a");
        bells.ring("c");
        for waiting in waiting {
            assert!(waiting.now_or_never().is_some());
        }
        assert!(apart.as_mut().now_or_never().is_none());
        bells.ring_all();
        assert!(apart.as_mut().now_or_never().is_some());
        drop(apart);
        drop(one);
        assert_eq!(lock(&bells.0).len(), 2);
        drop((two, other));
        assert!(lock(&bells.0).is_empty());
    }
}
