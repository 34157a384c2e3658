//! Fences in a sale: those that buyers say they had must be numbers, and grow with every hold.

use std::cmp::Ordering;

use super::facts::{Attempt, Facts};
use crate::history::fence::compare;

/// Fences that break the promise to grow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum FenceFault<'a> {
    /// This one is no number.
    NotANumber(&'a Attempt),
    /// These two are the same.
    Repeated(&'a Attempt, &'a Attempt),
    /// The second was asked for after the first was done, and is lower.
    Lower(&'a Attempt, &'a Attempt),
}

impl<'a> FenceFault<'a> {
    /// Returns the purchases that show it.
    pub(super) fn purchases(self) -> Vec<&'a Attempt> {
        match self {
            Self::NotANumber(odd) => vec![odd],
            Self::Repeated(first, second) | Self::Lower(first, second) => vec![first, second],
        }
    }

    /// Returns the numbers of the events that show it.
    pub(super) fn events(self) -> Vec<u64> {
        self.purchases().iter().map(|one| one.event).collect()
    }
}

impl Attempt {
    /// Returns the fence that the buyer had, if it says so.
    pub(super) fn fence(&self) -> Option<&str> {
        self.purchase()?.fence.as_deref()
    }
}

/// Compares two fences that are both known to be numbers.
fn order(one: &Attempt, other: &Attempt) -> Ordering {
    let (one, other) = (
        one.fence().unwrap_or_default(),
        other.fence().unwrap_or_default(),
    );
    compare(one, other).unwrap_or(Ordering::Equal)
}

impl Facts {
    /// Returns how many buyers say which fence they had.
    pub(super) fn fenced(&self) -> usize {
        let fenced = self
            .attempts
            .iter()
            .filter(|attempt| attempt.fence().is_some());
        fenced.count()
    }

    /// Returns fences that do not grow, if there are any. A buyer that names no fence constrains nothing.
    pub(super) fn fence_fault(&self) -> Option<FenceFault<'_>> {
        let fenced = self
            .attempts
            .iter()
            .filter(|attempt| attempt.fence().is_some());
        let mut fenced: Vec<&Attempt> = fenced.collect();
        let odd = fenced.iter().find(|attempt| {
            let fence = attempt.fence().unwrap_or_default();
            compare(fence, fence).is_none()
        });
        if let Some(odd) = odd {
            return Some(FenceFault::NotANumber(odd));
        }
        fenced.sort_by(|one, other| order(one, other).then(one.event.cmp(&other.event)));
        let mut pairs = fenced.windows(2);
        if let Some(same) = pairs.find(|pair| order(pair[0], pair[1]) == Ordering::Equal) {
            return Some(FenceFault::Repeated(same[0], same[1]));
        }
        lower(&fenced)
    }
}

/// Returns a purchase that was over before one with a lower fence was asked. `fenced` is sorted by fence.
fn lower<'a>(fenced: &[&'a Attempt]) -> Option<FenceFault<'a>> {
    let mut earliest: Option<&Attempt> = None;
    for attempt in fenced.iter().rev() {
        if let Some(higher) = earliest
            && higher.answered_ns < attempt.asked_ns
        {
            return Some(FenceFault::Lower(higher, attempt));
        }
        if earliest.is_none_or(|other| attempt.answered_ns < other.answered_ns) {
            earliest = Some(attempt);
        }
    }
    None
}
