//! Requirements on exclusion: one holder at a time, independent names, growing fences, and no request that touches what belongs to others.

use std::collections::BTreeSet;

use super::{
    ACROSS, ALWAYS, LABEL, LONG, StoreUnderTest, claim, freed, fresh_name, granted, not_held,
    refused, table,
};
use crate::backend::Release;
use crate::claim::LockName;

table! {
    a_free_lock_is_granted: ALWAYS,
    a_held_lock_is_refused: ALWAYS,
    a_held_lock_is_refused_on_another_connection: ACROSS,
    a_refused_attempt_leaves_nothing_behind: ALWAYS,
    a_released_lock_is_free: ALWAYS,
    a_second_release_is_refused: ALWAYS,
    a_late_release_does_not_touch_the_successor: ALWAYS,
    another_owner_cannot_release: ALWAYS,
    names_are_apart: ALWAYS,
    hostile_names_are_only_names: ALWAYS,
    the_longest_name_works: ALWAYS,
    one_owner_never_gets_two_leases: ALWAYS,
    epochs_grow_with_every_grant: ALWAYS,
    epochs_grow_across_connections: ACROSS,
    inspect_shows_the_holder: ALWAYS,
    inspect_of_a_free_lock_is_none: ALWAYS,
}

async fn a_free_lock_is_granted(store: StoreUnderTest) {
    let claim = claim(&fresh_name("free"), LONG);
    let before = store.one.clock().now();
    let grant = store.one.try_acquire(&claim).await.expect("an answer");
    let grant = grant.expect("a free lock");
    assert!(grant.epoch > 0);
    assert!(
        grant.asked_at >= before,
        "the grant was asked for after the call"
    );
    assert!(grant.asked_at <= store.one.clock().now());
    assert!(grant.lease <= LONG);
    store.one.release(&claim).await.expect("an answer");
}

async fn a_held_lock_is_refused(store: StoreUnderTest) {
    let name = fresh_name("held");
    let (holder, second) = (claim(&name, LONG), claim(&name, LONG));
    granted(&store.one, &holder).await;
    refused(&store.one, &second).await;
    store.one.release(&holder).await.expect("an answer");
}

async fn a_held_lock_is_refused_on_another_connection(store: StoreUnderTest) {
    let name = fresh_name("held-elsewhere");
    let (holder, second) = (claim(&name, LONG), claim(&name, LONG));
    granted(&store.one, &holder).await;
    refused(&store.other, &second).await;
    store.one.release(&holder).await.expect("an answer");
    granted(&store.other, &second).await;
    refused(&store.one, &holder).await;
    store.other.release(&second).await.expect("an answer");
}

async fn a_refused_attempt_leaves_nothing_behind(store: StoreUnderTest) {
    let name = fresh_name("refused");
    let (holder, second) = (claim(&name, LONG), claim(&name, LONG));
    granted(&store.one, &holder).await;
    refused(&store.one, &second).await;
    let record = store.one.inspect(&name).await.expect("an answer");
    assert!(record.expect("a held lock").waiting.is_empty());
    store.one.release(&holder).await.expect("an answer");
    assert_eq!(store.one.inspect(&name).await.expect("an answer"), None);
}

async fn a_released_lock_is_free(store: StoreUnderTest) {
    let name = fresh_name("released");
    for _ in 0..3 {
        let claim = claim(&name, LONG);
        granted(&store.one, &claim).await;
        freed(&store.one, &claim).await;
    }
}

async fn a_second_release_is_refused(store: StoreUnderTest) {
    let claim = claim(&fresh_name("twice"), LONG);
    granted(&store.one, &claim).await;
    freed(&store.one, &claim).await;
    not_held(&store.one, &claim).await;
}

async fn a_late_release_does_not_touch_the_successor(store: StoreUnderTest) {
    let name = fresh_name("late");
    let (first, second, third) = (claim(&name, LONG), claim(&name, LONG), claim(&name, LONG));
    granted(&store.one, &first).await;
    store.one.release(&first).await.expect("an answer");
    granted(&store.other, &second).await;
    not_held(&store.one, &first).await;
    refused(&store.one, &third).await;
    freed(&store.other, &second).await;
}

async fn another_owner_cannot_release(store: StoreUnderTest) {
    let name = fresh_name("another-owner");
    let (holder, other) = (claim(&name, LONG), claim(&name, LONG));
    granted(&store.one, &holder).await;
    not_held(&store.one, &other).await;
    refused(&store.one, &other).await;
    freed(&store.one, &holder).await;
}

async fn names_are_apart(store: StoreUnderTest) {
    let (a, b) = (claim(&fresh_name("a"), LONG), claim(&fresh_name("b"), LONG));
    granted(&store.one, &a).await;
    granted(&store.one, &b).await;
    store.one.release(&a).await.expect("an answer");
    store.one.release(&b).await.expect("an answer");
}

async fn hostile_names_are_only_names(store: StoreUnderTest) {
    let base = fresh_name("hostile");
    let hostile = [
        "'; DROP TABLE fencepost_lock; --",
        "\" OR 1=1",
        "../../etc/passwd",
        "{a}{b}",
        "%s%n",
        "*",
        "a b",
        "a  b",
        "A B",
        "ключ",
        "é",
        "e\u{301}",
        "🔒",
        "trailing ",
        "trailing",
    ];
    let names = hostile.map(|text| LockName::new(&format!("{base}:{text}")).expect("a valid name"));
    let claims: Vec<_> = names.iter().map(|name| claim(name, LONG)).collect();
    for claim in &claims {
        let grant = store.one.try_acquire(claim).await.expect("an answer");
        assert!(
            grant.is_some(),
            "{}: mixed up with another name",
            claim.name
        );
    }
    for claim in &claims {
        let freed = store.one.release(claim).await.expect("an answer");
        assert_eq!(freed, Release::Freed, "{}", claim.name);
    }
}

async fn the_longest_name_works(store: StoreUnderTest) {
    let base = fresh_name("long").to_string();
    let filler = "x".repeat(LockName::MAX_BYTES - base.len() - 1);
    let names = ["a", "b"].map(|end| format!("{base}{filler}{end}"));
    let claims = names.map(|name| claim(&LockName::new(&name).expect("a valid name"), LONG));
    for claim in &claims {
        assert!(
            store
                .one
                .try_acquire(claim)
                .await
                .expect("an answer")
                .is_some()
        );
    }
    for claim in &claims {
        store.one.release(claim).await.expect("an answer");
    }
}

async fn one_owner_never_gets_two_leases(store: StoreUnderTest) {
    let claim = claim(&fresh_name("again"), LONG);
    let first = store
        .one
        .try_acquire(&claim)
        .await
        .expect("an answer")
        .expect("a free lock");
    let again = store.one.try_acquire(&claim).await.expect("an answer");
    let again = again.expect("the same lease").epoch;
    assert_eq!(again, first.epoch, "asking again is not a new grant");
    freed(&store.one, &claim).await;
    not_held(&store.one, &claim).await;
}

async fn epochs_grow_with_every_grant(store: StoreUnderTest) {
    let name = fresh_name("epochs");
    let mut last = 0;
    for _ in 0..10 {
        let claim = claim(&name, LONG);
        let grant = store
            .one
            .try_acquire(&claim)
            .await
            .expect("an answer")
            .expect("a free lock");
        assert!(grant.epoch > last, "{} after {last}", grant.epoch);
        last = grant.epoch;
        store.one.release(&claim).await.expect("an answer");
    }
}

async fn epochs_grow_across_connections(store: StoreUnderTest) {
    let name = fresh_name("epochs-across");
    let mut seen = BTreeSet::new();
    for turn in 0..10 {
        let backend = if turn % 2 == 0 {
            &store.one
        } else {
            &store.other
        };
        let claim = claim(&name, LONG);
        let grant = backend
            .try_acquire(&claim)
            .await
            .expect("an answer")
            .expect("a free lock");
        assert!(
            seen.last().is_none_or(|last| grant.epoch > *last),
            "{} after {seen:?}",
            grant.epoch
        );
        seen.insert(grant.epoch);
        backend.release(&claim).await.expect("an answer");
    }
}

async fn inspect_shows_the_holder(store: StoreUnderTest) {
    let name = fresh_name("inspect");
    let claim = claim(&name, LONG);
    let grant = store
        .one
        .try_acquire(&claim)
        .await
        .expect("an answer")
        .expect("a free lock");
    let record = store
        .other
        .inspect(&name)
        .await
        .expect("an answer")
        .expect("a held lock");
    let holder = record.holder.expect("a holder");
    assert_eq!(holder.owner, Some(claim.owner), "the holder's owner");
    assert_eq!(holder.epoch, Some(grant.epoch), "the epoch of the grant");
    assert_eq!(&*holder.label, LABEL, "the holder's label");
    let left = holder.ttl_left;
    assert!(left.is_some() || !store.capabilities().leases);
    assert!(left.is_none_or(|left| left <= LONG && left > LONG / 2));
    assert!(holder.ttl.is_none_or(|ttl| ttl == LONG), "{:?}", holder.ttl);
    store.one.release(&claim).await.expect("an answer");
}

async fn inspect_of_a_free_lock_is_none(store: StoreUnderTest) {
    let name = fresh_name("nothing");
    let record = store.one.inspect(&name).await.expect("an answer");
    assert_eq!(record, None, "a free lock has no record");
}
