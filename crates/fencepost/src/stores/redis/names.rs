//! What the store remembers about each lock name that it was asked for, in order to choose the cheapest safe request.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use super::session::Session;
use crate::claim::{Claim, LockName, OwnerId};
use crate::clock::Moment;
use crate::mutex::lock;

/// How often a request lifts the epoch of a name in use to the server's time, and renews the life of its counter.
const LIFT_EVERY: Duration = Duration::from_secs(60);
/// How many names to remember. Beyond that, all names are forgotten, including the epochs that were seen, and are lifted again.
const MAX_NAMES: usize = 200_000;
/// After this many grants in a row without anybody else in between, the next one is expected to be the same.
const QUIET_GRANTS: u8 = 2;

#[derive(Default)]
pub(crate) struct Names(Mutex<HashMap<LockName, NameHistory>>);

struct NameHistory {
    /// The connection over which its epoch was lifted. A failover always means a new connection.
    lifted_over: u64,
    lifted_at: Moment,
    /// The last epoch that was granted here.
    epoch: u64,
    /// The highest epoch that we saw. The server's counter must not be behind it, whatever data the server has lost.
    highest: u64,
    /// How many grants in a row raised the epoch by one.
    in_a_row: u8,
    /// The owner of the last grant by plain commands.
    plain_owner: Option<OwnerId>,
}

/// How to ask for a lock, or to release it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestPlan {
    /// Whether to lift the epoch: in the first request over this connection, and from time to time to keep the fence alive.
    pub(crate) lift: bool,
    /// The expected next epoch, if nobody else seems to want the lock.
    pub(super) expect: Option<u64>,
    /// Whether the owner already has the lock, acquired with plain commands.
    pub(super) has_it: bool,
    /// The highest epoch of this name that we know, or 0.
    pub(super) floor: u64,
}

impl Names {
    pub(crate) fn plan(&self, claim: &Claim, session: &Session, now: Moment) -> RequestPlan {
        match lock(&self.0).get(&claim.name) {
            None => RequestPlan {
                lift: true,
                expect: None,
                has_it: false,
                floor: 0,
            },
            Some(known) => known.plan(claim.owner, session.generation, now),
        }
    }

    /// Records that a request sent at `now` has lifted the epoch of `name`.
    pub(crate) fn lifted(&self, name: &LockName, session: &Session, now: Moment) {
        let mut names = lock(&self.0);
        if names.len() >= MAX_NAMES {
            names.clear();
        }
        let known = names.entry(name.clone()).or_insert_with(NameHistory::new);
        known.lifted(session.generation, now);
    }

    /// Records that the server granted this epoch immediately.
    pub(super) fn granted(&self, name: &LockName, epoch: u64) {
        if let Some(known) = lock(&self.0).get_mut(name) {
            known.granted(epoch);
        }
    }

    /// Records that the server granted this epoch to plain commands.
    pub(super) fn granted_by_plain_commands(&self, claim: &Claim, epoch: u64) {
        if let Some(known) = lock(&self.0).get_mut(&claim.name) {
            known.granted(epoch);
            known.plain_owner = Some(claim.owner);
        }
    }

    /// Records that a grant with this epoch was seen.
    pub(super) fn saw(&self, name: &LockName, epoch: u64) {
        if let Some(known) = lock(&self.0).get_mut(name) {
            known.highest = known.highest.max(epoch);
        }
    }

    /// Returns whether we know a higher epoch: the server has lost its counter since, and a client that knew less asked first.
    pub(super) fn is_behind(&self, name: &LockName, epoch: u64) -> bool {
        let names = lock(&self.0);
        names.get(name).is_some_and(|known| epoch < known.highest)
    }

    /// Records that somebody else wants the lock, or had it.
    pub(super) fn record_contention(&self, name: &LockName) {
        if let Some(known) = lock(&self.0).get_mut(name) {
            known.in_a_row = 0;
        }
    }
}

impl NameHistory {
    fn new() -> Self {
        Self {
            lifted_over: 0,
            lifted_at: Moment::ZERO,
            epoch: 0,
            highest: 0,
            in_a_row: 0,
            plain_owner: None,
        }
    }

    fn plan(&self, owner: OwnerId, generation: u64, now: Moment) -> RequestPlan {
        let lift = self.lifted_over != generation
            || now.saturating_duration_since(self.lifted_at) >= LIFT_EVERY;
        let has_it = self.plain_owner == Some(owner);
        let is_quiet = !lift && !has_it && self.in_a_row >= QUIET_GRANTS;
        RequestPlan {
            lift,
            expect: is_quiet.then_some(self.epoch + 1),
            has_it,
            floor: self.highest,
        }
    }

    fn lifted(&mut self, generation: u64, now: Moment) {
        self.lifted_over = generation;
        self.lifted_at = now;
        self.in_a_row = 0;
    }

    fn granted(&mut self, epoch: u64) {
        self.in_a_row = if epoch == self.epoch + 1 {
            self.in_a_row.saturating_add(1)
        } else {
            0
        };
        self.epoch = epoch;
        self.highest = self.highest.max(epoch);
        self.plain_owner = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SystemRandom;

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn only_a_quiet_name_is_expected_to_stay_so() {
        let somebody = OwnerId::random(&SystemRandom);
        let mut known = NameHistory::new();
        let expected = |known: &NameHistory| known.plan(somebody, 1, at(2)).expect;
        assert!(known.plan(somebody, 1, at(1)).lift);
        known.lifted(1, at(1));
        known.granted(500);
        known.granted(501);
        assert_eq!(expected(&known), None);
        known.granted(502);
        assert_eq!(expected(&known), Some(503));
        known.granted(504);
        assert_eq!(expected(&known), None, "somebody else had 503");
        known.granted(505);
        known.granted(506);
        assert_eq!(expected(&known), Some(507));
        known.in_a_row = 0;
        assert_eq!(expected(&known), None);
        assert!(!known.plan(somebody, 1, at(60)).lift);
        assert!(known.plan(somebody, 1, at(61)).lift);
        assert!(known.plan(somebody, 2, at(2)).lift, "another connection");
    }

    #[test]
    fn the_highest_epoch_outlives_connections() {
        let somebody = OwnerId::random(&SystemRandom);
        let mut known = NameHistory::new();
        known.lifted(1, at(1));
        known.granted(500);
        known.highest = 700;
        known.granted(501);
        known.lifted(2, at(2));
        assert_eq!(known.plan(somebody, 2, at(2)).floor, 700);
    }
}
