//! Requests to a SQLite file that are dropped at any moment leave nothing in the file.

use std::time::Duration;

use fencepost::backend::{Release, Wait};
use fencepost::random::{Random, SystemRandom};
use fencepost::{Backend, Claim, ErrorKind};

use crate::support::{LONG, Place, claim, poll_at_most, take, until, wait_for};

#[tokio::test]
async fn dropping_at_every_poll_and_releasing_leaves_nothing_behind() {
    let place = Place::new();
    let store = place.open().await;
    for polls in 0.. {
        let (one, two) = (claim("one", LONG), claim("two", LONG));
        let wait = Wait::default();
        let acquired = poll_at_most(polls, store.acquire(&one, &wait)).await;
        let tried = poll_at_most(polls, store.try_acquire(&two)).await;
        for claim in [&one, &two] {
            store.release(claim).await.unwrap();
        }
        assert_eq!(place.rows(), (0, 0), "after {polls} polls");
        if acquired.is_some() && tried.is_some() {
            assert!(polls > 0);
            return;
        }
    }
}

#[tokio::test]
async fn dropping_at_every_poll_while_others_hold_the_lock_leaves_nothing_behind() {
    let place = Place::new();
    let (a, b) = (place.open().await, place.open().await);
    // It is in line after the second poll, and gets the lock in the third.
    for polls in 0..=3 {
        let (held, waiter) = (claim("one", LONG), claim("one", LONG));
        take(&a, &held).await;
        let wait = Wait::default();
        let (got, freed) = tokio::join!(poll_at_most(polls, b.acquire(&waiter, &wait)), async {
            if polls == 3 {
                crate::support::until_waiting(&a, &waiter).await;
            }
            a.release(&held).await.unwrap()
        });
        assert_eq!(freed, Release::Freed);
        let released = b.release(&waiter).await.unwrap();
        assert_eq!(
            place.rows(),
            (0, 0),
            "after {polls} polls: {got:?}, {released:?}"
        );
        if let Some(grant) = got {
            grant.unwrap();
            assert_eq!(released, Release::Freed);
        }
    }
}

#[tokio::test]
async fn dropping_at_any_time_and_asking_again_never_gives_two_leases() {
    let place = Place::new();
    let (a, b) = (place.open().await, place.open().await);
    for _ in 0..100 {
        let mine = claim("one", LONG);
        let wait = Wait::default();
        let timeout = SystemRandom.up_to(Duration::from_micros(300));
        let _ = tokio::time::timeout(timeout, a.acquire(&mine, &wait)).await;
        let first = wait_for(&a, &mine).await;
        let second = take(&a, &mine).await;
        assert_eq!(first.epoch, second.epoch);
        assert_eq!(b.try_acquire(&claim("one", LONG)).await.unwrap(), None);
        assert_eq!(a.release(&mine).await.unwrap(), Release::Freed);
        assert_eq!(place.rows(), (0, 0));
    }
}

#[tokio::test]
async fn a_claim_released_or_asked_again_elsewhere_stops_waiting() {
    let place = Place::new();
    let store = place.open().await;
    let (held, waiter) = (claim("one", LONG), claim("one", LONG));
    take(&store, &held).await;
    let waits = [Wait::default(), Wait::default()];
    let (first, second, ()) = tokio::join!(
        store.acquire(&waiter, &waits[0]),
        async {
            until(async || waits[0].was_busy()).await;
            store.acquire(&waiter, &waits[1]).await
        },
        async {
            until(async || waits[1].was_busy()).await;
            assert_eq!(place.rows(), (1, 1), "one place for one owner");
            assert_eq!(store.release(&waiter).await.unwrap(), Release::NotHeld);
        }
    );
    assert_eq!(first.unwrap_err().kind(), ErrorKind::InvalidInput);
    let error = second.unwrap_err();
    assert_eq!(
        error.to_string(),
        "sqlite: acquire: the claim was released while it waited"
    );
    assert_eq!(place.rows(), (1, 0));
}

/// Contenders abandon their requests at random moments, for some time, on a few names.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_impatient_ones_leaves_nothing_behind() {
    let place = Place::new();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..4 {
        let store = place.open().await;
        tasks.spawn(async move {
            for round in 0..25 {
                let mine = claim(&format!("lock {}", (task + round) % 2), LONG);
                impatient(&store, &mine).await;
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(place.rows(), (0, 0));
}

async fn impatient(store: &dyn Backend, mine: &Claim) {
    let wait = Wait::default();
    let timeout = SystemRandom.up_to(Duration::from_millis(8));
    if let Ok(grant) = tokio::time::timeout(timeout, store.acquire(mine, &wait)).await {
        grant.unwrap();
        tokio::time::sleep(SystemRandom.up_to(Duration::from_millis(2))).await;
    }
    // Also dropped, but executed nevertheless.
    let _ = poll_at_most(1, store.release(mine)).await;
    store.release(mine).await.unwrap();
}
