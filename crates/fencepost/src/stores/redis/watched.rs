//! Keys whose next change the server announces to this connection: locks that plain clients hold, records that somebody waits for, and the
//! locks of Redlock. Whoever waits then asks.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::Value;

use super::scripts::ReadValue;
use crate::mutex::lock;

/// The keys that one connection watches.
#[derive(Default)]
pub(crate) struct Watched {
    /// The keys that we asked for and whose change was not announced yet.
    keys: Mutex<HashSet<String>>,
    /// Whether the server does not announce changes, or we may not ask for it; known after the first attempt.
    is_impossible: AtomicBool,
}

impl Watched {
    /// Returns those of `keys` that are not watched yet, and marks them as watched.
    pub(super) fn begin(&self, keys: impl IntoIterator<Item = String>) -> Vec<String> {
        let mut watched = lock(&self.keys);
        let is_new = |key: &String| watched.insert(key.clone());
        keys.into_iter().filter(is_new).collect()
    }

    /// Marks these keys as no longer watched.
    pub(super) fn end<'a>(&self, keys: impl IntoIterator<Item = &'a str>) {
        let mut watched = lock(&self.keys);
        for key in keys {
            watched.remove(key);
        }
    }

    /// Handles announced changes, which the server announces once; `None` means that all keys may have changed.
    pub(super) fn have_changed(&self, keys: Option<&[Value]>) {
        match keys {
            Some(keys) => self.end(keys.iter().filter_map(|key| key.text())),
            None => lock(&self.keys).clear(),
        }
    }

    pub(super) fn is_impossible(&self) -> bool {
        self.is_impossible.load(Ordering::Relaxed)
    }

    /// Records that the server cannot announce changes or will not do so for us.
    pub(super) fn give_up(&self) {
        self.is_impossible.store(true, Ordering::Relaxed);
    }
}

/// Returns what was read from the watched keys, or `None` if the server refused to track or to cache.
pub(super) fn read(answers: Vec<Value>) -> Option<Vec<Value>> {
    let is_refused = |answer: &Value| matches!(answer, Value::ServerError(_));
    let (tracking, keys) = answers.split_first()?;
    if is_refused(tracking) || keys.iter().step_by(2).any(is_refused) {
        return None;
    }
    Some(answers.into_iter().skip(2).step_by(2).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_watched_once_until_it_changes() {
        let watched = Watched::default();
        let begin = |keys: &[&str]| watched.begin(keys.iter().map(|key| (*key).to_owned()));
        assert_eq!(begin(&["a", "b"]), ["a", "b"]);
        assert_eq!(begin(&["a", "c"]), ["c"]);
        let changed = [Value::BulkString(b"a".into())];
        watched.have_changed(Some(&changed));
        assert_eq!(begin(&["a", "b", "c"]), ["a"]);
        watched.have_changed(None);
        assert_eq!(begin(&["b", "c"]), ["b", "c"]);
    }
}
