//! What a connection remembers of the names it was used for.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::claim::LockName;
use crate::clock::Moment;
use crate::lease::lock;

/// How often the epoch of a name in use is lifted to the server's time, and its retention renewed.
const LIFT_EVERY: Duration = Duration::from_secs(60);
/// Names to remember; beyond it all are forgotten, and lifted once more.
const MOST: usize = 200_000;
/// After so many grants in a row between which nobody else had one, the next is expected to be like them.
const QUIET: u8 = 2;

#[derive(Default)]
pub(super) struct Names(Mutex<HashMap<LockName, Known>>);

#[derive(Clone, Copy)]
struct Known {
    lifted_at: Moment,
    /// The last epoch that we saw.
    epoch: u64,
    /// How many grants in a row raised it by one.
    in_a_row: u8,
}

/// How to ask for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// The first request over this connection, and one in a while to keep the fence alive.
    Lift,
    Usual,
    /// Nobody else seems to want it, and this should be its next epoch.
    Expect(u64),
}

impl Names {
    pub(super) fn ask(&self, name: &LockName, now: Moment) -> Ask {
        match lock(&self.0).get(name) {
            Some(known) if now.since(known.lifted_at) >= LIFT_EVERY => Ask::Lift,
            None => Ask::Lift,
            Some(known) if known.in_a_row >= QUIET => Ask::Expect(known.epoch + 1),
            Some(_) => Ask::Usual,
        }
    }

    /// A request that was sent at `now` has lifted the epoch of `name`.
    pub(super) fn lifted(&self, name: &LockName, now: Moment) {
        let mut names = lock(&self.0);
        if names.len() >= MOST {
            names.clear();
        }
        let epoch = names.get(name).map_or(0, |known| known.epoch);
        let known = Known {
            lifted_at: now,
            epoch,
            in_a_row: 0,
        };
        names.insert(name.clone(), known);
    }

    /// The server granted this epoch at once.
    pub(super) fn granted(&self, name: &LockName, epoch: u64) {
        if let Some(known) = lock(&self.0).get_mut(name) {
            known.in_a_row = match epoch == known.epoch + 1 {
                true => known.in_a_row.saturating_add(1),
                false => 0,
            };
            known.epoch = epoch;
        }
    }

    /// Somebody else wants it, or had it.
    pub(super) fn is_wanted(&self, name: &LockName) {
        if let Some(known) = lock(&self.0).get_mut(name) {
            known.in_a_row = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn only_a_quiet_name_is_expected_to_stay_so() {
        let names = Names::default();
        let name: LockName = "stock".try_into().unwrap();
        assert_eq!(names.ask(&name, at(1)), Ask::Lift);
        names.lifted(&name, at(1));
        names.granted(&name, 500);
        names.granted(&name, 501);
        assert_eq!(names.ask(&name, at(2)), Ask::Usual);
        names.granted(&name, 502);
        assert_eq!(names.ask(&name, at(2)), Ask::Expect(503));
        names.granted(&name, 504);
        assert_eq!(names.ask(&name, at(2)), Ask::Usual, "somebody else had 503");
        names.granted(&name, 505);
        names.granted(&name, 506);
        assert_eq!(names.ask(&name, at(2)), Ask::Expect(507));
        names.is_wanted(&name);
        assert_eq!(names.ask(&name, at(2)), Ask::Usual);
        assert_eq!(names.ask(&name, at(61)), Ask::Lift);
    }
}
