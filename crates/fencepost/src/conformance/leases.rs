//! Requirements on leases: they end by themselves, but not too early, and a renewal does what it reports.

use super::{
    ALWAYS, LEASES, LONG, SHORT, StoreUnderTest, claim, eventually, freed, fresh_name, granted,
    not_held, refused, soon, table,
};
use crate::backend::{Holder, Release, Renewal};
use crate::claim::{Claim, Grant};

table! {
    a_lease_ends_after_its_ttl: LEASES,
    a_lease_does_not_end_before_its_time: LEASES,
    epochs_grow_across_an_expiry: LEASES,
    an_expired_owner_cannot_release_the_successor: LEASES,
    a_renewal_extends: LEASES,
    a_renewal_never_shortens: LEASES,
    a_renewal_does_not_revive: LEASES,
    asking_again_extends: LEASES,
    another_owner_cannot_renew: ALWAYS,
    a_released_lease_cannot_be_renewed: ALWAYS,
    a_batch_is_answered_in_order: ALWAYS,
    two_renewals_of_one_owner_at_the_same_time_both_extend: ALWAYS,
}

async fn renew(store: &StoreUnderTest, claim: &Claim) -> Renewal {
    let mut answers = store.one.renew(std::slice::from_ref(claim)).await;
    assert_eq!(answers.len(), 1);
    answers.remove(0).expect("an answer")
}

/// Returns what another connection sees of the holder of a lock that must be held.
async fn held(store: &StoreUnderTest, claim: &Claim) -> Holder {
    let record = store.other.inspect(&claim.name).await.expect("an answer");
    record.and_then(|record| record.holder).expect("a holder")
}

/// Tries with `claim` until the lock is granted.
async fn take_when_free(store: &StoreUnderTest, claim: &Claim) -> Grant {
    soon("the lease ends", async {
        loop {
            let grant = store.other.try_acquire(claim).await.expect("an answer");
            if let Some(grant) = grant {
                return grant;
            }
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    })
    .await
}

async fn a_lease_ends_after_its_ttl(store: StoreUnderTest) {
    let name = fresh_name("ends");
    granted(&store.one, &claim(&name, SHORT)).await;
    let next = claim(&name, LONG);
    eventually("the lease ends", || async {
        store
            .other
            .try_acquire(&next)
            .await
            .expect("an answer")
            .is_some()
    })
    .await;
    store.other.release(&next).await.expect("an answer");
}

async fn a_lease_does_not_end_before_its_time(store: StoreUnderTest) {
    let name = fresh_name("lasts");
    let grant = granted(&store.one, &claim(&name, SHORT)).await;
    let next = claim(&name, LONG);
    take_when_free(&store, &next).await;
    let now = store.one.clock().now();
    assert!(
        now >= grant.asked_at + grant.lease,
        "granted to another {:?} after it was asked for",
        now.saturating_duration_since(grant.asked_at)
    );
    store.other.release(&next).await.expect("an answer");
}

async fn epochs_grow_across_an_expiry(store: StoreUnderTest) {
    let name = fresh_name("epoch-expiry");
    let first = granted(&store.one, &claim(&name, SHORT)).await;
    let next = claim(&name, LONG);
    assert!(take_when_free(&store, &next).await.epoch > first.epoch);
    store.other.release(&next).await.expect("an answer");
}

async fn an_expired_owner_cannot_release_the_successor(store: StoreUnderTest) {
    let name = fresh_name("stale-release");
    let (stale, next) = (claim(&name, SHORT), claim(&name, LONG));
    granted(&store.one, &stale).await;
    take_when_free(&store, &next).await;
    not_held(&store.one, &stale).await;
    assert_eq!(renew(&store, &stale).await, Renewal::Lost);
    refused(&store.one, &stale).await;
    freed(&store.other, &next).await;
}

async fn a_renewal_extends(store: StoreUnderTest) {
    for _ in 0..10 {
        let claim = claim(&fresh_name("renewed"), SHORT);
        let grant = granted(&store.one, &claim).await;
        let longer = Claim {
            ttl: LONG,
            ..claim.clone()
        };
        if renew(&store, &longer).await == Renewal::Extended {
            let holder = held(&store, &claim).await;
            let left = holder.ttl_left;
            assert!(left > Some(LONG / 2), "not extended: {left:?}");
            assert_eq!(
                holder.epoch,
                Some(grant.epoch),
                "a renewal is not a new grant"
            );
            store.one.release(&claim).await.expect("an answer");
            return;
        }
        // On a slow machine the lease may end before the renewal, and the attempt proves nothing.
        let ended = store.one.clock().now() >= grant.asked_at + grant.lease;
        assert!(ended, "lost before its end");
    }
    panic!("lost its lease ten times in a row");
}

async fn a_renewal_never_shortens(store: StoreUnderTest) {
    let claim = claim(&fresh_name("not-shorter"), LONG);
    granted(&store.one, &claim).await;
    let shorter = Claim {
        ttl: SHORT,
        ..claim.clone()
    };
    assert_eq!(renew(&store, &shorter).await, Renewal::Extended);
    let left = held(&store, &claim).await.ttl_left;
    assert!(left > Some(LONG / 2), "shortened: {left:?}");
    store.one.release(&claim).await.expect("an answer");
}

async fn a_renewal_does_not_revive(store: StoreUnderTest) {
    let claim = claim(&fresh_name("no-revival"), SHORT);
    let grant = granted(&store.one, &claim).await;
    let clock = store.one.clock();
    clock.sleep_until(grant.asked_at + SHORT * 2).await;
    eventually("the lease is over", || async {
        store
            .one
            .inspect(&claim.name)
            .await
            .expect("an answer")
            .is_none()
    })
    .await;
    let renewal = renew(&store, &claim).await;
    assert_eq!(renewal, Renewal::Lost, "a lease that is over stays over");
    not_held(&store.one, &claim).await;
}

async fn asking_again_extends(store: StoreUnderTest) {
    for _ in 0..10 {
        let claim = claim(&fresh_name("again"), SHORT);
        let first = granted(&store.one, &claim).await;
        let longer = Claim {
            ttl: LONG,
            ..claim.clone()
        };
        let again = granted(&store.one, &longer).await;
        assert!(again.asked_at >= first.asked_at);
        if again.epoch == first.epoch {
            let left = held(&store, &claim).await.ttl_left;
            assert!(left > Some(LONG / 2), "not extended: {left:?}");
            store.one.release(&claim).await.expect("an answer");
            return;
        }
        // On a slow machine the lease may end before the second request, which then is a new grant and proves nothing.
        let ended = store.one.clock().now() >= first.asked_at + first.lease;
        assert!(ended, "asking again is not a new grant");
        store.one.release(&claim).await.expect("an answer");
    }
    panic!("lost its lease ten times in a row");
}

async fn another_owner_cannot_renew(store: StoreUnderTest) {
    let name = fresh_name("another-owner");
    let (holder, other) = (claim(&name, LONG), claim(&name, LONG));
    granted(&store.one, &holder).await;
    let renewal = renew(&store, &other).await;
    assert_eq!(renewal, Renewal::Lost, "only the holder renews");
    let renewal = renew(&store, &holder).await;
    assert_eq!(renewal, Renewal::Extended, "the holder renews");
    store.one.release(&holder).await.expect("an answer");
}

async fn a_released_lease_cannot_be_renewed(store: StoreUnderTest) {
    let claim = claim(&fresh_name("released"), LONG);
    granted(&store.one, &claim).await;
    store.one.release(&claim).await.expect("an answer");
    let renewal = renew(&store, &claim).await;
    assert_eq!(renewal, Renewal::Lost, "a released lease stays released");
    assert_eq!(
        store.one.inspect(&claim.name).await.expect("an answer"),
        None
    );
}

async fn a_batch_is_answered_in_order(store: StoreUnderTest) {
    let claims: Vec<Claim> = (0..20).map(|_| claim(&fresh_name("batch"), LONG)).collect();
    for held in claims.iter().step_by(3) {
        granted(&store.one, held).await;
    }
    let answers = store.one.renew(&claims).await;
    assert_eq!(answers.len(), claims.len());
    for (at, answer) in answers.into_iter().enumerate() {
        let expected = if at % 3 == 0 {
            Renewal::Extended
        } else {
            Renewal::Lost
        };
        assert_eq!(answer.expect("an answer"), expected, "claim {at}");
    }
    assert!(store.one.renew(&[]).await.is_empty());
    for claim in &claims {
        store.one.release(claim).await.expect("an answer");
    }
}

/// [`Guard::extend`](crate::Guard::extend) renews a lease that the keeper may be renewing.
async fn two_renewals_of_one_owner_at_the_same_time_both_extend(store: StoreUnderTest) {
    let name = fresh_name("twice");
    let held = claim(&name, LONG);
    granted(&store.one, &held).await;
    let both = futures_util::future::join(renew(&store, &held), renew(&store, &held));
    let extended = (Renewal::Extended, Renewal::Extended);
    assert_eq!(both.await, extended, "both renewals extend the lease");
    let freed = store.one.release(&held).await.expect("an answer");
    assert_eq!(freed, Release::Freed);
}
