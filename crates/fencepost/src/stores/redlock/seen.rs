//! The last epoch of each name that was granted to this process. It is sent to a server that has lost its counter, so that the server
//! continues from there even if its clock is behind.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::claim::LockName;
use crate::mutex::lock;

/// How many names to remember. Beyond that, all are forgotten.
const MAX_NAMES: usize = 20_000;

#[derive(Default)]
pub(super) struct SeenEpochs(Mutex<HashMap<LockName, u64>>);

impl SeenEpochs {
    /// Returns the last epoch of this name, or 0 if there is none.
    pub(super) fn of(&self, name: &LockName) -> u64 {
        lock(&self.0).get(name).copied().unwrap_or(0)
    }

    pub(super) fn note(&self, name: &LockName, epoch: u64) {
        let mut seen = lock(&self.0);
        if let Some(last) = seen.get_mut(name) {
            *last = epoch.max(*last);
            return;
        }
        if seen.len() >= MAX_NAMES {
            seen.clear();
        }
        seen.insert(name.clone(), epoch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_stays_and_memory_is_bounded() {
        let seen = SeenEpochs::default();
        let name = |text: &str| LockName::try_from(text).expect("a name");
        seen.note(&name("stock"), 7);
        seen.note(&name("stock"), 5);
        assert_eq!(seen.of(&name("stock")), 7);
        assert_eq!(seen.of(&name("other")), 0);
        for at in 0..MAX_NAMES {
            seen.note(&name(&format!("n{at}")), 1);
        }
        assert!(lock(&seen.0).len() <= MAX_NAMES);
    }
}
