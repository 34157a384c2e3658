//! What each owner may have at the store: its leases, and requests of ours that may still arrive there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::claim::OwnerId;
use crate::clock::{BootClock, Clock, Moment};
use crate::mutex::lock;

/// How many owners are remembered before those with nothing left at the store are removed.
const SWEEP_FROM: usize = 256;
/// How long a request may stay in the queue of a stopped server. A server that is stopped for longer has lost its connections.
const LATE_REVOKE_WINDOW: Duration = Duration::from_secs(600);

#[derive(Default)]
pub(super) struct Owners(Mutex<HashMap<OwnerId, Arc<OwnerLeases>>>);

/// The leases of one owner. Whoever has the lock on them makes the next request for this owner.
pub(super) type OwnerLeases = tokio::sync::Mutex<Leases>;

/// The leases that an owner may have at the store.
#[derive(Debug, Default)]
pub(super) struct Leases {
    leases: Vec<HeldLease>,
    /// Until then, a lost request of ours may still arrive and revoke a lease.
    late_revoke_until: Option<Moment>,
}

#[derive(Debug, Clone, Copy)]
struct HeldLease {
    lease: i64,
    /// When the store has certainly forgotten the lease, unless it was kept alive.
    over_at: Moment,
}

impl Leases {
    /// Records a lease that is being requested or kept alive.
    pub(super) fn note(&mut self, lease: i64, over_at: Moment) {
        self.settle(lease);
        self.leases.push(HeldLease { lease, over_at });
    }

    /// Records that the store no longer has this lease.
    pub(super) fn settle(&mut self, lease: i64) {
        self.leases.retain(|held| held.lease != lease);
    }

    /// Returns whether a revocation was lost, so that lease numbers must not be used again.
    pub(super) fn may_revoke_late(&self) -> bool {
        self.late_revoke_until.is_some()
    }

    /// Records that a server did not answer a request to revoke a lease, and may execute it later.
    pub(super) fn record_unanswered_revoke(&mut self, now: Moment) {
        self.late_revoke_until = Some(now + LATE_REVOKE_WINDOW);
    }

    /// Returns the numbers of the leases that the store may still have, the latest last.
    pub(super) fn numbers(&self) -> Vec<i64> {
        self.leases.iter().map(|held| held.lease).collect()
    }

    fn are_over(&self, now: Moment) -> bool {
        let mut ends = self.leases.iter().map(|held| held.over_at);
        ends.all(|end| end <= now) && self.late_revoke_until.is_none_or(|end| end <= now)
    }

    fn are_settled(&self) -> bool {
        self.leases.is_empty() && self.late_revoke_until.is_none()
    }
}

impl Owners {
    pub(super) fn of(&self, owner: OwnerId) -> Arc<OwnerLeases> {
        let mut owners = lock(&self.0);
        if owners.len() >= SWEEP_FROM && owners.len().is_power_of_two() {
            let now = BootClock.now();
            owners.retain(|_, owner_leases| !is_over(owner_leases, now));
        }
        owners.entry(owner).or_default().clone()
    }

    /// Forgets this owner if nothing is left at the store and nobody else makes a request for it.
    pub(super) fn forget_settled(&self, owner: OwnerId, owner_leases: &Arc<OwnerLeases>) {
        let mut owners = lock(&self.0);
        // One reference belongs to the table, one to the caller.
        let is_idle = Arc::strong_count(owner_leases) == 2;
        if is_idle
            && owner_leases
                .try_lock()
                .is_ok_and(|leases| leases.are_settled())
        {
            owners.remove(&owner);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

fn is_over(owner_leases: &Arc<OwnerLeases>, now: Moment) -> bool {
    Arc::strong_count(owner_leases) == 1
        && owner_leases
            .try_lock()
            .is_ok_and(|leases| leases.are_over(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SystemRandom;

    #[test]
    fn what_is_over_is_not_remembered() {
        let owners = Owners::default();
        let add = |over_at| {
            let owner = OwnerId::random(&SystemRandom);
            let owner_leases = owners.of(owner);
            owner_leases.try_lock().unwrap().note(1, over_at);
        };
        (0..SWEEP_FROM).for_each(|_| add(Moment::ZERO));
        assert_eq!(owners.len(), SWEEP_FROM);
        add(Moment::FAR);
        assert_eq!(owners.len(), 1);
    }

    #[test]
    fn who_has_nothing_left_is_forgotten_and_who_may_have_is_not() {
        let owners = Owners::default();
        let owner = OwnerId::random(&SystemRandom);
        let owner_leases = owners.of(owner);
        owner_leases.try_lock().unwrap().note(7, Moment::FAR);
        owners.forget_settled(owner, &owner_leases);
        assert_eq!(owners.len(), 1);
        owner_leases.try_lock().unwrap().settle(7);
        let other = owners.of(owner);
        owners.forget_settled(owner, &owner_leases);
        assert_eq!(owners.len(), 1, "somebody else is about to ask");
        drop(other);
        owners.forget_settled(owner, &owner_leases);
        assert_eq!(owners.len(), 0);
    }
}
