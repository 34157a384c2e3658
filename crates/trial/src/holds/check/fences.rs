//! Whether the fences of a lock increase from grant to grant.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Checks;
use crate::history::fence::{FenceNumber, fence_number};
use crate::holds::facts::Hold;
use crate::protocol::ReleaseResult;

impl<'a> Checks<'a> {
    /// Returns two grants of one lock, the earlier and the later, whose fences do not increase.
    pub fn fence_regression(&self) -> Option<(&'a Hold, &'a Hold)> {
        let mut seen: HashMap<&str, SeenFences<'_>> = HashMap::new();
        let holds = &self.facts.holds;
        holds.iter().enumerate().find_map(|(index, later)| {
            // A further hold of the same process belongs to the same grant.
            if self.claims.reentrant
                && holds[..index]
                    .iter()
                    .any(|hold| self.is_still_held(hold, later))
            {
                return None;
            }
            let new = Fence::of(later)?;
            let first_until_ns = self.cannot_be_first_before_ns(later);
            let seen = seen.entry(&later.key).or_default();
            if !seen.contradicts(later, first_until_ns, &new) {
                seen.add(later, new);
                return None;
            }
            let is_contradicted = |earlier: &&Hold| {
                let is_certain = earlier.granted.at_ns < later.asked.at_ns
                    || released_ns(earlier).is_some_and(|released_ns| released_ns < first_until_ns);
                let old = Fence::of(earlier);
                earlier.key == later.key && old.is_some_and(|old| new.contradicts(&old, is_certain))
            };
            Some((holds[..index].iter().find(is_contradicted)?, later))
        })
    }
}

impl Checks<'_> {
    /// Returns whether a hold is still there when its process asks again.
    fn is_still_held(&self, first: &Hold, second: &Hold) -> bool {
        self.is_reentry(first, second)
            && first.key == second.key
            && first.release.is_none_or(|release| release > second.asked)
    }

    /// Returns a time before which nobody else can have been granted this lock and have released it, had this hold been granted before that:
    /// its lease, which began at the request at the earliest, was still running. Whoever did so was granted the lock first.
    ///
    /// Returns zero if the hold may have ended early.
    pub(in crate::holds) fn cannot_be_first_before_ns(&self, hold: &Hold) -> u64 {
        let granted_ns = hold.granted.at_ns;
        let lease_ns = if self.lasts_until([hold, hold], granted_ns) {
            u64::MAX
        } else {
            hold.asked.at_ns.saturating_add(self.ttl_ns)
        };
        let valid_ns = hold.valid_until_ns.unwrap_or(u64::MAX);
        let until_ns = granted_ns.min(lease_ns).min(valid_ns);
        let may_have_ended = hold.learned_at.is_some()
            || self.had_server_failed(until_ns)
            || self.may_have_lost_session(hold, until_ns);
        if may_have_ended { 0 } else { until_ns }
    }
}

/// Returns when the lab knew that this hold was released.
fn released_ns(hold: &Hold) -> Option<u64> {
    let (mark, outcome) = hold.released?;
    (outcome == ReleaseResult::Released).then_some(mark.at_ns)
}

/// A fence by its order or, if it has none, by its text.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Fence<'a> {
    Number(FenceNumber),
    Text(&'a str),
}

impl<'a> Fence<'a> {
    fn of(hold: &'a Hold) -> Option<Self> {
        let text = hold.fence.as_deref()?;
        Some(fence_number(text).map_or(Self::Text(text), Self::Number))
    }

    /// Returns whether the grant of this fence, after the other one, is a violation. If their order is not certain, only a repeated fence is.
    fn contradicts(&self, old: &Self, is_certain: bool) -> bool {
        match (self, old) {
            (Self::Number(new), Self::Number(old)) => new == old || new < old && is_certain,
            (new, old) => new == old,
        }
    }
}

/// The fences of one lock so far.
#[derive(Default)]
struct SeenFences<'a> {
    all: HashSet<Fence<'a>>,
    granted: HighestSoFar,
    released: HighestSoFar,
}

impl<'a> SeenFences<'a> {
    fn contradicts(&self, later: &Hold, first_until_ns: u64, new: &Fence<'a>) -> bool {
        let Fence::Number(number) = new else {
            return self.all.contains(new);
        };
        let granted = self.granted.before(later.asked.at_ns);
        let released = self.released.before(first_until_ns);
        let highest = granted.max(released);
        self.all.contains(new) || highest.is_some_and(|highest| number < highest)
    }

    fn add(&mut self, hold: &Hold, fence: Fence<'a>) {
        if let Fence::Number(number) = fence {
            self.granted.raise(hold.granted.at_ns, number);
            if let Some(released_ns) = released_ns(hold) {
                self.released.raise(released_ns, number);
            }
        }
        self.all.insert(fence);
    }
}

/// The highest fence up to a time. Only the times at which it rises are kept.
#[derive(Default)]
struct HighestSoFar(BTreeMap<u64, FenceNumber>);

impl HighestSoFar {
    fn before(&self, at_ns: u64) -> Option<&FenceNumber> {
        self.0
            .range(..at_ns)
            .next_back()
            .map(|(_, highest)| highest)
    }

    fn raise(&mut self, at_ns: u64, number: FenceNumber) {
        let before = self.0.range(..=at_ns).next_back();
        if before.is_some_and(|(_, highest)| *highest >= number) {
            return;
        }
        let later = self.0.range(at_ns..);
        let lower = later.take_while(|(_, highest)| **highest <= number);
        let lower: Vec<u64> = lower.map(|(at_ns, _)| *at_ns).collect();
        for at_ns in lower {
            self.0.remove(&at_ns);
        }
        self.0.insert(at_ns, number);
    }
}
