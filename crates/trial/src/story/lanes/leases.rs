//! Entries for expired leases, placed before the events that the expiry made possible.
//!
//! The lab only knows the latest time at which a lease ended: one TTL after it read the grant, or after it saw the holder stop.
//! In the store the lease ended slightly earlier, and another process may have been granted the lock in between. Such a grant
//! also proves that the lease is over.

use super::super::phrases;
use super::LaneStory;
use crate::history::{Event, Fault};
use crate::holds::facts::Hold;
use crate::holds::{NAMES, Scenario};

impl LaneStory<'_> {
    /// Adds an entry at the latest time at which a lease ended.
    pub(super) fn lease_over(&mut self, lane: usize, at_ns: u64, hold: u64) {
        if self.has_two_locks() || !self.shown_over.insert((lane, hold)) {
            return;
        }
        let mut phrase = phrases::lease_over(NAMES[lane], None);
        if matches!(
            self.scenario,
            Scenario::StaleRelease | Scenario::Pause | Scenario::Cut | Scenario::SlowReplies
        ) {
            // A paused process cannot know, and one that is cut off may know by its own clock.
            phrase.brief = "lease over by now".into();
        }
        self.say(lane, at_ns, phrase);
    }

    /// Before a grant, adds entries for the leases on that lock that have ended in the meantime.
    pub(super) fn leases_over_before(&mut self, lane: usize, grant: &Event, key: &str) {
        let over = |hold: &&Hold| {
            hold.key == key && hold.who != NAMES[lane] && self.may_be_over(hold, grant.at_ns)
        };
        let over = self.open_holds().filter(over);
        let over: Vec<(usize, u64)> = over
            .filter_map(|hold| {
                let lane = NAMES.iter().position(|name| *name == hold.who)?;
                Some((lane, hold.hold))
            })
            .collect();
        for (lane, hold) in over {
            self.lease_over(lane, grant.at_ns, hold);
        }
    }

    /// Returns whether this hold is still open and its lease may have expired: one TTL after its request, unless it is renewed.
    fn may_be_over(&self, hold: &Hold, at_ns: u64) -> bool {
        let began_ns = match (self.claims.untimed, self.claims.keep_alive) {
            (true, _) => return false,
            // It was renewed until its process was stopped, and the last renewal was less than half a TTL before.
            (false, true) => match self.stopped_at_ns(&hold.who) {
                Some(stopped_ns) => stopped_ns.saturating_sub(self.ttl_ns / 2),
                None => return false,
            },
            (false, false) => hold.asked.at_ns,
        };
        let is_earlier = hold.granted.at_ns < at_ns;
        is_earlier && hold.unquestioned_until_ns() > at_ns && began_ns + self.ttl_ns <= at_ns
    }

    fn stopped_at_ns(&self, who: &str) -> Option<u64> {
        let mut faults = self.facts.faults.iter();
        let stop = faults.find(|(_, whom, fault)| whom == who && *fault == Fault::Stopped);
        stop.map(|(mark, ..)| mark.at_ns)
    }
}
