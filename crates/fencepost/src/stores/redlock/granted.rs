//! Remembers which lease was granted to which owner. An owner that asks again while it holds the lock gets its existing epoch; a renewal
//! creates missing keys only for leases that are held; and a lease that was found lost stays lost until it is released or acquired again.
//!
//! An owner that asks again keeps its epoch if a majority still has its keys with that epoch. The servers alone cannot tell: one that
//! answered late may have drawn a larger count for the same owner. If the owner asked again and got that answer first, it would arrive at a
//! larger epoch for the same lease.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::claim::{Claim, OwnerId};
use crate::clock::{BootClock, Clock, Moment};
use crate::mutex::lock;

/// When there are this many, leases that have ended are removed.
const SWEEP_FROM: usize = 64;

#[derive(Default)]
pub(super) struct Granted(Mutex<State>);

#[derive(Default)]
struct State {
    leases: HashMap<OwnerId, Entry>,
    /// How many were left after the last removal.
    kept: usize,
}

#[derive(Clone, Copy)]
struct Entry {
    lease: Lease,
    over_at: Moment,
    /// Whether a majority has answered that it does not have the lease.
    is_lost: bool,
}

/// The state of an owner's lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseState {
    /// The lease is held; a renewal creates its missing keys.
    Held(Lease),
    /// The lease was found lost, or its time is over. Nothing may revive it, and keys that were created for it in vain do not vote.
    Ended(Lease),
}

/// A lease as it is sent to the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) epoch: u64,
    /// The stamp of the last request that a majority confirmed. Keys of that stamp or an earlier one vote.
    pub(super) confirmed: u64,
}

impl Granted {
    /// Records that this owner has this lease for at least its TTL.
    pub(super) fn note(&self, claim: &Claim, lease: Lease) {
        let now = BootClock.now();
        let entry = Entry {
            lease,
            over_at: now + claim.ttl,
            is_lost: false,
        };
        let mut state = lock(&self.0);
        state.leases.insert(claim.owner, entry);
        if state.leases.len() > SWEEP_FROM + 2 * state.kept {
            state.leases.retain(|_, entry| now < entry.over_at);
            state.kept = state.leases.len();
        }
    }

    /// Records that the request with this stamp extended the lease. Returns `false` if the lease was found lost before; it then stays lost.
    pub(super) fn extended(&self, claim: &Claim, stamp: u64) -> bool {
        let mut state = lock(&self.0);
        let Some(entry) = state.leases.get_mut(&claim.owner) else {
            return true;
        };
        if !entry.is_lost {
            entry.extend(claim);
            entry.lease.confirmed = entry.lease.confirmed.max(stamp);
        }
        !entry.is_lost
    }

    /// Records that a majority answered the request with this stamp that it does not have the lease. Returns the lease, or `None` if there
    /// is no record of it or only of a newer one.
    pub(super) fn lose(&self, claim: &Claim, stamp: u64) -> Option<Lease> {
        let mut state = lock(&self.0);
        let entry = state.leases.get_mut(&claim.owner)?;
        if entry.lease.confirmed > stamp {
            return None;
        }
        entry.is_lost = true;
        entry.extend(claim);
        Some(entry.lease)
    }

    pub(super) fn is_lost(&self, owner: OwnerId) -> bool {
        let state = lock(&self.0);
        state.leases.get(&owner).is_some_and(|entry| entry.is_lost)
    }

    /// Returns the state of this owner's lease, or `None` if it was released or never granted here.
    pub(super) fn state_of(&self, owner: OwnerId) -> Option<LeaseState> {
        let now = BootClock.now();
        let entry = lock(&self.0).leases.get(&owner).copied()?;
        Some(if entry.is_lost || entry.over_at <= now {
            LeaseState::Ended(entry.lease)
        } else {
            LeaseState::Held(entry.lease)
        })
    }

    /// Removes and returns the epoch of this owner's lease, unless the lease was lost. The caller then finds out whether the lease is still
    /// held.
    pub(super) fn take(&self, owner: OwnerId) -> Option<u64> {
        let entry = lock(&self.0).leases.remove(&owner)?;
        (!entry.is_lost).then_some(entry.lease.epoch)
    }

    /// Removes the record, because this owner releases its lease. Returns whether the lease had been lost.
    pub(super) fn forget(&self, owner: OwnerId) -> bool {
        let entry = lock(&self.0).leases.remove(&owner);
        entry.is_some_and(|entry| entry.is_lost)
    }
}

impl Entry {
    /// Extends the record to a TTL from now, unless it already lasts longer.
    fn extend(&mut self, claim: &Claim) {
        self.over_at = self.over_at.max(BootClock.now() + claim.ttl);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::random::SystemRandom;

    fn claim(ttl: Duration) -> Claim {
        Claim::new(
            "stock".try_into().expect("a name"),
            OwnerId::random(&SystemRandom),
            ttl,
        )
        .with_label("test")
    }

    fn lease(epoch: u64) -> Lease {
        Lease {
            epoch,
            confirmed: 1,
        }
    }

    #[test]
    fn an_epoch_is_known_until_it_is_asked_for() {
        let (granted, claim) = (Granted::default(), claim(Duration::from_secs(9)));
        granted.note(&claim, lease(7));
        assert_eq!(granted.take(claim.owner), Some(7));
        assert_eq!(granted.take(claim.owner), None);
    }

    #[test]
    fn a_lease_that_is_over_is_not_held() {
        let granted = Granted::default();
        let [lasting, over] = [Duration::from_secs(60), Duration::ZERO].map(claim);
        granted.note(&lasting, lease(7));
        granted.note(&over, lease(8));
        assert_eq!(
            granted.state_of(lasting.owner),
            Some(LeaseState::Held(lease(7)))
        );
        assert_eq!(
            granted.state_of(over.owner),
            Some(LeaseState::Ended(lease(8)))
        );
    }

    #[test]
    fn a_shorter_extension_does_not_shorten_a_lease() {
        let (granted, mut claim) = (Granted::default(), claim(Duration::from_secs(60)));
        granted.note(&claim, lease(7));
        claim.ttl = Duration::ZERO;
        assert!(granted.extended(&claim, 2));
        let extended = Lease {
            epoch: 7,
            confirmed: 2,
        };
        assert_eq!(
            granted.state_of(claim.owner),
            Some(LeaseState::Held(extended))
        );
    }

    #[test]
    fn what_is_lost_stays_lost_until_it_is_given_back_or_taken_anew() {
        let (granted, claim) = (Granted::default(), claim(Duration::from_secs(60)));
        granted.note(&claim, lease(7));
        assert_eq!(granted.lose(&claim, 0), None, "an answer from before");
        assert_eq!(granted.lose(&claim, 2), Some(lease(7)));
        assert!(!granted.extended(&claim, 3));
        assert_eq!(
            granted.state_of(claim.owner),
            Some(LeaseState::Ended(lease(7)))
        );
        assert!(granted.forget(claim.owner));
        assert!(!granted.is_lost(claim.owner));
        granted.note(&claim, lease(8));
        assert_eq!(granted.lose(&claim, 4), Some(lease(8)));
        assert_eq!(granted.take(claim.owner), None);
        granted.note(&claim, lease(9));
        assert_eq!(
            granted.state_of(claim.owner),
            Some(LeaseState::Held(lease(9)))
        );
    }

    #[test]
    fn what_is_over_does_not_pile_up() {
        let granted = Granted::default();
        let lasting = claim(Duration::from_secs(60));
        granted.note(&lasting, lease(7));
        for _ in 0..10 * SWEEP_FROM {
            granted.note(&claim(Duration::ZERO), lease(8));
        }
        assert!(lock(&granted.0).leases.len() <= SWEEP_FROM + 2);
        assert_eq!(granted.take(lasting.owner), Some(7));
    }
}
