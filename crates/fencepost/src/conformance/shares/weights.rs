//! Requirements on claims of several permits, and on a number of permits that changes.

use super::{NOT_LONG, Stage, got, take};
use crate::conformance::{LONG, SHARES, StoreUnderTest, eventually, soon, table};
use crate::error::ErrorKind;
use crate::kinds::{Permit, Semaphore};

table! {
    nobody_overtakes_whoever_wants_more: SHARES,
    many_permits_are_had_although_others_want_few: SHARES,
    more_permits_let_waiters_in: SHARES,
    fewer_permits_take_nothing_away: SHARES,
    whoever_wants_more_than_there_are_then_is_told: SHARES,
    the_number_in_the_store_counts: SHARES,
}

fn waiting(semaphore: &Semaphore, count: u32) -> tokio::task::JoinHandle<crate::Result<Permit>> {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { semaphore.acquire(count).await })
}

async fn served(task: tokio::task::JoinHandle<crate::Result<Permit>>) -> Permit {
    let permit = soon("a waiter is served", task).await.expect("no panic");
    permit.expect("an answer")
}

async fn nobody_overtakes_whoever_wants_more(store: StoreUnderTest) {
    let stage = Stage::new(&store, "overtake");
    let [one, other] = stage.semaphores(3);
    let held = take(&one, 2).await;
    let large = waiting(&other, 3);
    stage.until_waiting(1).await;
    assert!(
        got(one.try_acquire(1).await).is_none(),
        "a try overtook a waiter"
    );
    let small = waiting(&one, 1);
    stage.until_waiting(2).await;
    assert!(got(other.acquire_within(1, NOT_LONG).await).is_none());
    stage.until_waiting(2).await;
    assert!(!large.is_finished() && !small.is_finished());
    drop(held);
    let large = served(large).await;
    assert!(!small.is_finished(), "all permits are out");
    let fence = large.fence();
    drop(large);
    assert!(served(small).await.fence() > fence);
}

async fn many_permits_are_had_although_others_want_few(store: StoreUnderTest) {
    let stage = Stage::new(&store, "weights");
    let [one, other] = stage.semaphores(3);
    let busy = (0..4).map(|_| {
        let semaphore = one.clone();
        tokio::spawn(async move {
            loop {
                let permit = take(&semaphore, 1).await;
                tokio::task::yield_now().await;
                drop(permit);
            }
        })
    });
    let busy: Vec<_> = busy.collect();
    for _ in 0..3 {
        eventually("all permits are out", || async {
            let record = stage.record().await;
            record.is_some_and(|record| record.holders().count() == 3)
        })
        .await;
        let all = take(&other, 3).await;
        assert_eq!(all.count(), 3);
        assert!(all.release().await.is_released());
    }
    for task in busy {
        task.abort();
        assert!(task.await.is_err_and(|error| error.is_cancelled()));
    }
    stage.until_nothing_is_left().await;
}

async fn more_permits_let_waiters_in(store: StoreUnderTest) {
    let stage = Stage::new(&store, "more");
    let [one, other] = stage.semaphores(1);
    let held = take(&one, 1).await;
    let waiters = [waiting(&one, 1), waiting(&other, 1)];
    stage.until_waiting(2).await;
    other.resize(3).await.expect("an answer");
    let permits = futures_util::future::join_all(waiters.map(served)).await;
    let mut slots: Vec<u32> = permits.iter().flat_map(Permit::slots).collect();
    slots.sort_unstable();
    assert_eq!(slots, [1, 2]);
    drop(held);
}

async fn fewer_permits_take_nothing_away(store: StoreUnderTest) {
    let stage = Stage::new(&store, "fewer");
    let [one, other] = stage.semaphores(3);
    let [first, second, third] = [
        take(&one, 1).await,
        take(&other, 1).await,
        take(&one, 1).await,
    ];
    other.resize(1).await.expect("an answer");
    for permit in [&first, &second, &third] {
        permit.extend(LONG).await.expect("it is still held");
    }
    for permit in [first, second] {
        assert!(permit.release().await.is_released());
        assert!(
            got(one.try_acquire(1).await).is_none(),
            "more are out than there are"
        );
    }
    assert!(third.release().await.is_released());
    let last = got(one.try_acquire(1).await).expect("the only one is free");
    assert!(last.slots().eq([0]));
}

async fn whoever_wants_more_than_there_are_then_is_told(store: StoreUnderTest) {
    let stage = Stage::new(&store, "told");
    let [one, other] = stage.semaphores(3);
    let held = take(&one, 3).await;
    let (large, small) = (waiting(&other, 2), waiting(&one, 1));
    stage.until_waiting(2).await;
    one.resize(1).await.expect("an answer");
    let told = soon("it is told", large).await.expect("no panic");
    let error = told.expect_err("two of one");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(!small.is_finished());
    drop(held);
    drop(served(small).await);
    stage.until_nothing_is_left().await;
}

async fn the_number_in_the_store_counts(store: StoreUnderTest) {
    let stage = Stage::new(&store, "number");
    let [one, _] = stage.semaphores(2);
    assert_eq!(
        one.permits().await.expect("an answer"),
        2,
        "nobody has used it"
    );
    drop(take(&one, 2).await);
    let [_, other] = stage.semaphores(5);
    assert_eq!(other.permits().await.expect("an answer"), 2);
    let too_many = other.acquire(3).await.expect_err("three of two");
    assert_eq!(too_many.kind(), ErrorKind::InvalidInput);
    other.resize(3).await.expect("an answer");
    let seen = one.permits().await.expect("an answer");
    assert_eq!(seen, 3, "everybody sees the new number");
    assert_eq!(take(&one, 3).await.count(), 3);
    let zero = one.resize(0).await.expect_err("no permit");
    assert_eq!(zero.kind(), ErrorKind::InvalidInput);
}
