//! Requirements on exclusion: one holder at a time, independent names, growing fences, and no request that touches what belongs to others.

use std::collections::BTreeSet;

use super::{
    ACROSS, ALWAYS, LABEL, LONG, Subject, claim, freed, fresh_name, granted, not_held, refused,
    table,
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

async fn a_free_lock_is_granted(subject: Subject) {
    let claim = claim(&fresh_name("free"), LONG);
    let before = subject.one.clock().now();
    let grant = subject.one.try_acquire(&claim).await.expect("an answer");
    let grant = grant.expect("a free lock");
    assert!(grant.epoch > 0);
    assert!(
        grant.asked_at >= before,
        "the grant was asked for after the call"
    );
    assert!(grant.asked_at <= subject.one.clock().now());
    assert!(grant.lease <= LONG);
    subject.one.release(&claim).await.expect("an answer");
}

async fn a_held_lock_is_refused(subject: Subject) {
    let name = fresh_name("held");
    let (holder, second) = (claim(&name, LONG), claim(&name, LONG));
    granted(&subject.one, &holder).await;
    refused(&subject.one, &second).await;
    subject.one.release(&holder).await.expect("an answer");
}

async fn a_held_lock_is_refused_on_another_connection(subject: Subject) {
    let name = fresh_name("held-elsewhere");
    let (holder, second) = (claim(&name, LONG), claim(&name, LONG));
    granted(&subject.one, &holder).await;
    refused(&subject.other, &second).await;
    subject.one.release(&holder).await.expect("an answer");
    granted(&subject.other, &second).await;
    refused(&subject.one, &holder).await;
    subject.other.release(&second).await.expect("an answer");
}

async fn a_refused_attempt_leaves_nothing_behind(subject: Subject) {
    let name = fresh_name("refused");
    let (holder, second) = (claim(&name, LONG), claim(&name, LONG));
    granted(&subject.one, &holder).await;
    refused(&subject.one, &second).await;
    let record = subject.one.inspect(&name).await.expect("an answer");
    assert!(record.expect("a held lock").waiting.is_empty());
    subject.one.release(&holder).await.expect("an answer");
    assert_eq!(subject.one.inspect(&name).await.expect("an answer"), None);
}

async fn a_released_lock_is_free(subject: Subject) {
    let name = fresh_name("released");
    for _ in 0..3 {
        let claim = claim(&name, LONG);
        granted(&subject.one, &claim).await;
        freed(&subject.one, &claim).await;
    }
}

async fn a_second_release_is_refused(subject: Subject) {
    let claim = claim(&fresh_name("twice"), LONG);
    granted(&subject.one, &claim).await;
    freed(&subject.one, &claim).await;
    not_held(&subject.one, &claim).await;
}

async fn a_late_release_does_not_touch_the_successor(subject: Subject) {
    let name = fresh_name("late");
    let (first, second, third) = (claim(&name, LONG), claim(&name, LONG), claim(&name, LONG));
    granted(&subject.one, &first).await;
    subject.one.release(&first).await.expect("an answer");
    granted(&subject.other, &second).await;
    not_held(&subject.one, &first).await;
    refused(&subject.one, &third).await;
    freed(&subject.other, &second).await;
}

async fn another_owner_cannot_release(subject: Subject) {
    let name = fresh_name("another-owner");
    let (holder, other) = (claim(&name, LONG), claim(&name, LONG));
    granted(&subject.one, &holder).await;
    not_held(&subject.one, &other).await;
    refused(&subject.one, &other).await;
    freed(&subject.one, &holder).await;
}

async fn names_are_apart(subject: Subject) {
    let (a, b) = (claim(&fresh_name("a"), LONG), claim(&fresh_name("b"), LONG));
    granted(&subject.one, &a).await;
    granted(&subject.one, &b).await;
    subject.one.release(&a).await.expect("an answer");
    subject.one.release(&b).await.expect("an answer");
}

async fn hostile_names_are_only_names(subject: Subject) {
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
        let grant = subject.one.try_acquire(claim).await.expect("an answer");
        assert!(
            grant.is_some(),
            "{}: mixed up with another name",
            claim.name
        );
    }
    for claim in &claims {
        let freed = subject.one.release(claim).await.expect("an answer");
        assert_eq!(freed, Release::Freed, "{}", claim.name);
    }
}

async fn the_longest_name_works(subject: Subject) {
    let base = fresh_name("long").to_string();
    let filler = "x".repeat(LockName::MAX_BYTES - base.len() - 1);
    let names = ["a", "b"].map(|end| format!("{base}{filler}{end}"));
    let claims = names.map(|name| claim(&LockName::new(&name).expect("a valid name"), LONG));
    for claim in &claims {
        assert!(
            subject
                .one
                .try_acquire(claim)
                .await
                .expect("an answer")
                .is_some()
        );
    }
    for claim in &claims {
        subject.one.release(claim).await.expect("an answer");
    }
}

async fn one_owner_never_gets_two_leases(subject: Subject) {
    let claim = claim(&fresh_name("again"), LONG);
    let first = subject
        .one
        .try_acquire(&claim)
        .await
        .expect("an answer")
        .expect("a free lock");
    let again = subject.one.try_acquire(&claim).await.expect("an answer");
    let again = again.expect("the same lease").epoch;
    assert_eq!(again, first.epoch, "asking again is not a new grant");
    freed(&subject.one, &claim).await;
    not_held(&subject.one, &claim).await;
}

async fn epochs_grow_with_every_grant(subject: Subject) {
    let name = fresh_name("epochs");
    let mut last = 0;
    for _ in 0..10 {
        let claim = claim(&name, LONG);
        let grant = subject
            .one
            .try_acquire(&claim)
            .await
            .expect("an answer")
            .expect("a free lock");
        assert!(grant.epoch > last, "{} after {last}", grant.epoch);
        last = grant.epoch;
        subject.one.release(&claim).await.expect("an answer");
    }
}

async fn epochs_grow_across_connections(subject: Subject) {
    let name = fresh_name("epochs-across");
    let mut seen = BTreeSet::new();
    for turn in 0..10 {
        let backend = if turn % 2 == 0 {
            &subject.one
        } else {
            &subject.other
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

async fn inspect_shows_the_holder(subject: Subject) {
    let name = fresh_name("inspect");
    let claim = claim(&name, LONG);
    let grant = subject
        .one
        .try_acquire(&claim)
        .await
        .expect("an answer")
        .expect("a free lock");
    let record = subject
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
    assert!(left.is_some() || !subject.capabilities().leases);
    assert!(left.is_none_or(|left| left <= LONG && left > LONG / 2));
    assert!(holder.ttl.is_none_or(|ttl| ttl == LONG), "{:?}", holder.ttl);
    subject.one.release(&claim).await.expect("an answer");
}

async fn inspect_of_a_free_lock_is_none(subject: Subject) {
    let name = fresh_name("nothing");
    let record = subject.one.inspect(&name).await.expect("an answer");
    assert_eq!(record, None, "a free lock has no record");
}
