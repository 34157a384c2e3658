//! What was granted to whom: an owner that asks again while it holds the lock gets the epoch it has, and an extension takes missing keys
//! for the leases that are known here.
//!
//! It does if a majority still has its keys, with that epoch. The servers alone cannot tell: one that answered late may have drawn a
//! larger count for the same owner, and who asks again and hears that one first would come to a larger epoch for the same lease.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::claim::{Claim, OwnerId};
use crate::clock::{BootClock, Clock, Moment};
use crate::lease::lock;

/// With so many, those whose leases are over are thrown out.
const MANY: usize = 64;

#[derive(Default)]
pub(super) struct Granted(Mutex<Book>);

#[derive(Default)]
struct Book {
    epochs: HashMap<OwnerId, Entry>,
    /// How many were left when they were last looked through.
    kept: usize,
}

#[derive(Clone, Copy)]
struct Entry {
    lease: Lease,
    over_at: Moment,
}

/// A lease as the servers are told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) epoch: u64,
    /// The stamp of the last request that a majority has answered with yes: keys from then or before vote.
    pub(super) confirmed: u64,
}

impl Granted {
    /// This owner has this lease for the length of its TTL at least.
    pub(super) fn note(&self, claim: &Claim, lease: Lease) {
        let now = BootClock.now();
        let over_at = now + claim.ttl;
        let mut book = lock(&self.0);
        book.epochs.insert(claim.owner, Entry { lease, over_at });
        if book.epochs.len() > MANY + 2 * book.kept {
            book.epochs.retain(|_, entry| now < entry.over_at);
            book.kept = book.epochs.len();
        }
    }

    /// Its lease was extended, by the request with this stamp.
    pub(super) fn extended(&self, claim: &Claim, stamp: u64) {
        if let Some(entry) = lock(&self.0).epochs.get_mut(&claim.owner) {
            entry.over_at = BootClock.now() + claim.ttl;
            entry.lease.confirmed = entry.lease.confirmed.max(stamp);
        }
    }

    /// The lease that this owner has; none when it is over, because nobody may revive it.
    pub(super) fn lease(&self, owner: OwnerId) -> Option<Lease> {
        let now = BootClock.now();
        let book = lock(&self.0);
        let entry = book.epochs.get(&owner).filter(|entry| now < entry.over_at);
        entry.map(|entry| entry.lease)
    }

    /// The epoch of this owner's lease. It is not known any more then: whoever asks again says whether it still holds.
    pub(super) fn take(&self, owner: OwnerId) -> Option<u64> {
        let entry = lock(&self.0).epochs.remove(&owner);
        entry.map(|entry| entry.lease.epoch)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::random::SystemRandom;

    fn claim(ttl: Duration) -> Claim {
        Claim {
            name: "stock".try_into().expect("a name"),
            owner: OwnerId::random(&SystemRandom),
            ttl,
            label: "test".into(),
        }
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
    fn a_lease_that_is_over_is_none() {
        let granted = Granted::default();
        let [lasting, over] = [Duration::from_secs(60), Duration::ZERO].map(claim);
        granted.note(&lasting, lease(7));
        granted.note(&over, lease(8));
        assert_eq!(granted.lease(lasting.owner), Some(lease(7)));
        assert_eq!(granted.lease(over.owner), None);
    }

    #[test]
    fn what_is_over_does_not_pile_up() {
        let granted = Granted::default();
        let lasting = claim(Duration::from_secs(60));
        granted.note(&lasting, lease(7));
        for _ in 0..10 * MANY {
            granted.note(&claim(Duration::ZERO), lease(8));
        }
        assert!(lock(&granted.0).epochs.len() <= MANY + 2);
        assert_eq!(granted.take(lasting.owner), Some(7));
    }
}
