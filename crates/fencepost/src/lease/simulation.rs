//! Simulates a lease: whatever is renewed, fails or arrives late, belief ends before the store's lease does.

use std::time::Duration;

use proptest::prelude::*;

use super::{Lease, LostReason, margin};
use crate::claim::{Claim, Grant, LockName, OwnerId};
use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Operation};
use crate::random::SeededRandom;

/// One renewal: when it is sent, how long it takes to the store and back, and whether it fails.
#[derive(Debug, Clone, Copy)]
struct Renewal {
    pause_ms: u64,
    there_ms: u64,
    back_ms: u64,
    fails: bool,
}

fn renewal() -> impl Strategy<Value = Renewal> {
    let times = (0u64..300, 0u64..100, 0u64..100);
    (times, any::<bool>()).prop_map(|((pause_ms, there_ms, back_ms), fails)| Renewal {
        pause_ms,
        there_ms,
        back_ms,
        fails,
    })
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

proptest! {
    /// The store's clock runs up to one percent faster than ours: that is what the margin is for.
    #[test]
    fn belief_never_outlives_the_lease(
        ttl_ms in 20u64..1_000,
        there_ms in 0u64..100,
        fast_per_mille in 0u64..10,
        renewals in prop::collection::vec(renewal(), 0..20),
    ) {
        let ttl = ms(ttl_ms);
        // A fast store is through with a lease earlier.
        let store_lease = ttl - ttl * u32::try_from(fast_per_mille).expect("small") / 1_000;
        let mut now = Moment::ZERO + ms(10_000);
        let claim = Claim::new(LockName::new("simulated").expect("a valid name"), OwnerId::random(&SeededRandom::new(1)), ttl).with_label("simulated");
        let mut store_ends = now + ms(there_ms) + store_lease;
        let lease = Lease::new(claim, Grant { epoch: 1, asked_at: now, lease: ttl }, now);
        let mut was_lost = false;
        for renewal in renewals {
            now = now + ms(renewal.pause_ms);
            let asked_at = now;
            let handled_at = now + ms(renewal.there_ms);
            now = handled_at + ms(renewal.back_ms);
            let still_there = handled_at < store_ends;
            let was_over = now >= lease.valid_until();
            if still_there && !renewal.fails {
                store_ends = store_ends.max(handled_at + store_lease);
                let lives = lease.renewed(asked_at, ttl, now);
                prop_assert!(lives || lease.lost_at(now).is_some());
            } else {
                let error = Error::new(ErrorKind::Timeout, "simulated", Operation::Renew, "told to fail");
                lease.renewal_failed(error, now + ms(10));
            }
            prop_assert!(lease.valid_until() <= store_ends, "belief outlives the lease");
            let lost = lease.lost_at(now).is_some();
            prop_assert!(lost || !was_lost, "a lost lease came back");
            prop_assert!(lost || !was_over, "an answer that came too late revived a lease");
            prop_assert!(lost == lease.left(now).is_zero());
            was_lost = lost;
        }
    }

    #[test]
    fn a_renewal_is_due_before_the_end(ttl_ms in 20u64..100_000) {
        let asked_at = Moment::ZERO + ms(10_000);
        let claim = Claim::new(LockName::new("simulated").expect("a valid name"), OwnerId::random(&SeededRandom::new(1)), ms(ttl_ms)).with_label("simulated");
        let lease = Lease::new(claim, Grant { epoch: 1, asked_at, lease: ms(ttl_ms) }, asked_at);
        prop_assert!(lease.renew_at() < lease.valid_until());
        prop_assert!(lease.valid_until() <= (asked_at + ms(ttl_ms)).saturating_sub(margin(ms(ttl_ms))));
        prop_assert!(lease.lost_at(lease.valid_until().saturating_sub(Duration::from_nanos(1))).is_none());
        let lost = lease.lost_at(lease.valid_until()).map(|lost| lost.reason());
        prop_assert_eq!(lost, Some(LostReason::Expired));
    }
}
