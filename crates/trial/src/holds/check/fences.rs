//! Whether the fences of a lock increase from grant to grant.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Checks;
use crate::history::fence::{FenceNumber, fence_number};
use crate::holds::facts::Hold;

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
            let seen = seen.entry(&later.key).or_default();
            if !seen.contradicts(later, &new) {
                seen.add(later, new);
                return None;
            }
            let is_contradicted = |earlier: &&Hold| {
                let old = Fence::of(earlier);
                earlier.key == later.key
                    && old.is_some_and(|old| new.contradicts(later, &old, earlier))
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

    /// Returns whether the grant of this fence, after the other one, is a violation.
    fn contradicts(&self, later: &Hold, old: &Self, earlier: &Hold) -> bool {
        // If the first was granted before the other was requested, their order is certain. Otherwise only a repeated fence is a
        // violation.
        let is_certain = earlier.granted.at_ns < later.asked.at_ns;
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
    /// The highest fence granted up to a time. Only the times at which it rises are kept.
    highest: BTreeMap<u64, FenceNumber>,
}

impl<'a> SeenFences<'a> {
    fn contradicts(&self, later: &Hold, new: &Fence<'a>) -> bool {
        let Fence::Number(number) = new else {
            return self.all.contains(new);
        };
        let mut certain = self.highest.range(..later.asked.at_ns);
        let highest = certain.next_back();
        self.all.contains(new) || highest.is_some_and(|(_, highest)| number < highest)
    }

    fn add(&mut self, hold: &Hold, fence: Fence<'a>) {
        if let Fence::Number(number) = fence {
            self.raise(hold.granted.at_ns, number);
        }
        self.all.insert(fence);
    }

    fn raise(&mut self, granted_ns: u64, number: FenceNumber) {
        let before = self.highest.range(..=granted_ns).next_back();
        if before.is_some_and(|(_, highest)| *highest >= number) {
            return;
        }
        let later = self.highest.range(granted_ns..);
        let lower = later.take_while(|(_, highest)| **highest <= number);
        let lower: Vec<u64> = lower.map(|(at_ns, _)| *at_ns).collect();
        for at_ns in lower {
            self.highest.remove(&at_ns);
        }
        self.highest.insert(granted_ns, number);
    }
}
