//! Releases that a server has not confirmed yet.
//!
//! A key that nobody releases ends after its TTL. But a server that was away for a moment comes back with the key, and until it ends, a
//! majority is harder to get.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::claim::{Claim, OwnerId};
use crate::clock::{BootClock, Clock, Moment};
use crate::mutex::lock;

/// The limit of debts. Further keys end after their TTL.
const MAX_DEBTS: usize = 10_000;

#[derive(Default)]
pub(super) struct Debts(Mutex<State>);

#[derive(Default)]
struct State {
    owed: HashMap<OwnerId, Debt>,
    /// Whether a task is repeating the releases.
    is_collected: bool,
}

#[derive(Clone)]
pub(super) struct Debt {
    pub(super) name: Arc<str>,
    pub(super) span: Span,
    /// When the TTL has ended the key.
    over_at: Moment,
}

/// The keys of an owner that a release concerns, by their stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// Only keys that were created later than this, by renewals in vain; `None` for all keys.
    pub(super) after: Option<u64>,
    /// Only keys that were created by then, because the owner may have acquired the lock again since.
    pub(super) up_to: u64,
}

impl Span {
    pub(super) fn up_to(stamp: u64) -> Self {
        Self {
            after: None,
            up_to: stamp,
        }
    }

    /// Returns a span that covers both and everything in between. An owner has one lease at a time, so the keys in between belong to leases
    /// that have ended.
    fn merged_with(self, other: Self) -> Self {
        Self {
            after: self.after.min(other.after),
            up_to: self.up_to.max(other.up_to),
        }
    }

    fn includes(self, other: Self) -> bool {
        self.after <= other.after && other.up_to <= self.up_to
    }
}

impl Debts {
    /// Records that a release of `claim` for these keys is about to be sent. Earlier debts remain.
    pub(super) fn owe(&self, claim: &Claim, span: Span) {
        let over_at = BootClock.now() + claim.ttl;
        let mut state = lock(&self.0);
        if let Some(debt) = state.owed.get_mut(&claim.owner) {
            debt.span = debt.span.merged_with(span);
            debt.over_at = debt.over_at.max(over_at);
            return;
        }
        if state.owed.len() < MAX_DEBTS {
            let name = claim.name.as_str().into();
            state.owed.insert(
                claim.owner,
                Debt {
                    name,
                    span,
                    over_at,
                },
            );
        }
    }

    /// Records that the server confirmed the release. A later release may not be confirmed yet.
    pub(super) fn paid(&self, owner: OwnerId, span: Span) {
        let mut state = lock(&self.0);
        let is_this = |debt: &Debt| span.includes(debt.span);
        if state.owed.get(&owner).is_some_and(is_this) {
            state.owed.remove(&owner);
        }
    }

    /// Returns the stamp up to which keys of this owner count as released although they may still exist. This includes keys that were not
    /// created in vain: an owner that asks has lost the lease to which they belonged.
    pub(super) fn owed_by(&self, owner: OwnerId) -> Option<u64> {
        lock(&self.0).owed.get(&owner).map(|debt| debt.span.up_to)
    }

    /// Returns whether the caller has to start a task that repeats the releases, and marks it as started.
    pub(super) fn begin_collecting(&self) -> bool {
        let mut state = lock(&self.0);
        let has_to = !state.owed.is_empty() && !state.is_collected;
        state.is_collected |= has_to;
        has_to
    }

    /// Records that the task has ended.
    pub(super) fn end_collecting(&self) {
        lock(&self.0).is_collected = false;
    }

    /// Returns a debt that can still be settled. If there is none, the task is done.
    pub(super) fn next(&self, now: Moment) -> Option<(OwnerId, Debt)> {
        let mut state = lock(&self.0);
        state.owed.retain(|_, debt| now < debt.over_at);
        let next = state.owed.iter().next();
        let next = next.map(|(owner, debt)| (*owner, debt.clone()));
        // Under the same mutex, so that a new debt never relies on a task that is already ending.
        state.is_collected = next.is_some();
        next
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::random::SystemRandom;

    #[test]
    fn a_debt_does_not_shrink() {
        let (debts, long) = (Debts::default(), Duration::from_secs(60));
        let mut claim = Claim::new(
            "stock".try_into().expect("a name"),
            OwnerId::random(&SystemRandom),
            long,
        )
        .with_label("test");
        debts.owe(&claim, Span::up_to(9));
        claim.ttl = Duration::ZERO;
        let smaller = Span {
            after: Some(3),
            up_to: 5,
        };
        debts.owe(&claim, smaller);
        assert_eq!(debts.owed_by(claim.owner), Some(9));
        let (_, debt) = debts.next(BootClock.now()).expect("still owed");
        assert_eq!(debt.span, Span::up_to(9));
        assert!(BootClock.now() + long / 2 < debt.over_at);
        debts.paid(claim.owner, smaller);
        assert!(debts.owed_by(claim.owner).is_some());
        debts.paid(claim.owner, Span::up_to(9));
        assert_eq!(debts.owed_by(claim.owner), None);
    }
}
