//! Releases that a server has not confirmed yet, and the task that repeats them.
//!
//! A key that nobody releases ends after its TTL. But a server that was away for a moment comes back with the key, and until it ends, a
//! majority is harder to get.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::server::Server;
use crate::claim::{Claim, OwnerId};
use crate::clock::{BootClock, Clock, Moment, within};
use crate::mutex::lock;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long one attempt may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
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
struct Debt {
    name: Arc<str>,
    span: Span,
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
    fn and(self, other: Self) -> Self {
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
            debt.span = debt.span.and(span);
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

    /// Returns a debt that can still be settled. If there is none, the task is done.
    fn next(&self, now: Moment) -> Option<(OwnerId, Debt)> {
        let mut state = lock(&self.0);
        state.owed.retain(|_, debt| now < debt.over_at);
        let next = state.owed.iter().next();
        let next = next.map(|(owner, debt)| (*owner, debt.clone()));
        // Under the same mutex, so that a new debt never relies on a task that is already ending.
        state.is_collected = next.is_some();
        next
    }
}

/// Makes sure that a task repeats the releases that this server has not confirmed.
pub(super) fn collect(server: &Arc<Server>) {
    let mut state = lock(&server.debts.0);
    if state.owed.is_empty() || state.is_collected {
        return;
    }
    state.is_collected = true;
    tokio::spawn(collecting(Collector(Arc::downgrade(server))));
}

/// Clears the mark when the task ends, including when its runtime ends.
struct Collector(Weak<Server>);

impl Drop for Collector {
    fn drop(&mut self) {
        if let Some(server) = self.0.upgrade() {
            lock(&server.debts.0).is_collected = false;
        }
    }
}

async fn collecting(collector: Collector) {
    let mut pause = PAUSE;
    loop {
        BootClock.sleep_until(BootClock.now() + pause).await;
        let Some(server) = collector.0.upgrade() else {
            return;
        };
        let now = BootClock.now();
        let Some((owner, debt)) = server.debts.next(now) else {
            return;
        };
        let release = server.clone().release(debt.name, owner, debt.span, None);
        pause = match within(&BootClock, now + ANSWER_TIMEOUT, release).await {
            Some(Ok(_)) => {
                server.debts.paid(owner, debt.span);
                // The server is back, so send the others at once.
                Duration::ZERO
            }
            _ => (pause * 2).clamp(PAUSE, LONGEST_PAUSE),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SystemRandom;

    #[test]
    fn a_debt_does_not_shrink() {
        let (debts, long) = (Debts::default(), Duration::from_secs(60));
        let mut claim = Claim {
            name: "stock".try_into().expect("a name"),
            owner: OwnerId::random(&SystemRandom),
            ttl: long,
            label: "test".into(),
        };
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
