//! Whether the lab itself stalled, so that its clock accuses nobody of being slow.

use super::{Checks, Overlap};
use crate::holds::facts::{Facts, Hold, Mark};

/// When the lab stalled.
#[derive(Debug)]
pub(super) struct Stalls {
    from_ns: Vec<u64>,
    /// For each stall, the end of the latest one up to there.
    until_ns: Vec<u64>,
}

impl Stalls {
    pub(super) fn of(facts: &Facts) -> Self {
        let spans = facts.stalls.iter();
        let mut spans: Vec<(u64, u64)> = spans
            .map(|stall| (stall.from_ns, stall.until.at_ns))
            .collect();
        spans.sort_unstable();
        let mut latest_ns = 0;
        let until_ns = spans.iter().map(|(_, until_ns)| {
            latest_ns = latest_ns.max(*until_ns);
            latest_ns
        });
        Self {
            until_ns: until_ns.collect(),
            from_ns: spans.iter().map(|(from_ns, _)| *from_ns).collect(),
        }
    }

    /// Returns whether one of them began before the end of this time, and ended after its beginning.
    pub(super) fn touch(&self, from_ns: u64, until_ns: u64) -> bool {
        let begun = self.from_ns.partition_point(|began| *began <= until_ns);
        let last = begun.checked_sub(1).map(|last| self.until_ns[last]);
        last.is_some_and(|ended_ns| ended_ns >= from_ns)
    }

    /// Returns for how long the lab stalled within this time.
    pub(super) fn total_ns(&self, from_ns: u64, until_ns: u64) -> u64 {
        let mut counted_until_ns = from_ns;
        let spans = self.from_ns.iter().zip(&self.until_ns);
        let new = spans.map(|(began_ns, ended_ns)| {
            let began_ns = counted_until_ns.max(*began_ns);
            counted_until_ns = counted_until_ns.max((*ended_ns).min(until_ns));
            counted_until_ns.saturating_sub(began_ns)
        });
        new.sum()
    }
}

impl Checks<'_> {
    /// Returns whether the lab stalled at any moment between these events. Then it may have read the second one late, and how
    /// long it took accuses nobody.
    pub fn has_stalled(&self, from: Mark, until: Mark) -> bool {
        self.stalls.touch(from.at_ns, until.at_ns)
    }

    /// Returns whether the lab stalled between the first holder's request and the second one's grant, or before, if the first holder's session
    /// may be older. Then the process that renews the first lease may have stalled, too.
    pub fn has_stalled_before(&self, overlap: &Overlap<'_>) -> bool {
        self.has_stalled_with(overlap.first, overlap.second.granted)
    }

    /// Returns whether the lab stalled since this lock was requested, or before, if it belongs to a session that may be older.
    pub fn has_stalled_with(&self, hold: &Hold, until: Mark) -> bool {
        self.stalls.touch(self.missed_since_ns(hold), until.at_ns)
    }
}
