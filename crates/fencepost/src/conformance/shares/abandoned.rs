//! Requirements on what is abandoned: dropped futures, dropped permits, and processes that end without a word leave nothing for long.

use std::time::Duration;

use super::{Stage, got, take};
use crate::conformance::{LONG, SHARES, StoreUnderTest, cut_off, eventually, soon, table};
use crate::kinds::Semaphore;
use crate::locker::Locker;

table! {
    a_dropped_wait_for_permits_leaves_nothing: SHARES,
    a_dropped_attempt_at_permits_leaves_nothing: SHARES,
    a_dropped_wait_to_write_leaves_nothing: SHARES,
    a_dropped_downgrade_leaves_nothing: SHARES,
    a_dropped_release_of_permits_still_releases: SHARES,
    permits_of_a_dead_process_are_granted_to_others: SHARES,
    waiters_of_a_dead_process_do_not_block_the_line: SHARES,
}

/// Checks that all permits can be had soon, and that nothing is left afterwards.
async fn assert_free(stage: &Stage, all: u32) {
    let [_, other] = stage.semaphores(all);
    let permit = got(other.acquire_within(all, Duration::from_secs(5)).await);
    let permit = permit.expect("the permits are free again, although their TTL is a minute");
    assert!(permit.release().await.is_released());
    stage.until_nothing_is_left().await;
}

async fn a_dropped_wait_for_permits_leaves_nothing(store: StoreUnderTest) {
    for polls in 1.. {
        let stage = Stage::new(&store, "cut-wait");
        let [one, other] = stage.semaphores(2);
        let held = take(&other, 2).await;
        // The waiter behind must not lose its place with the one that is cut off.
        let (done, behind, ()) = tokio::join!(
            cut_off(polls, one.acquire(2)),
            soon("the waiter behind", other.acquire(1)),
            async { drop(held) },
        );
        drop(behind.expect("an answer"));
        assert_free(&stage, 2).await;
        if done {
            return;
        }
    }
}

async fn a_dropped_attempt_at_permits_leaves_nothing(store: StoreUnderTest) {
    for polls in 1.. {
        let stage = Stage::new(&store, "cut-try");
        let [one, _] = stage.semaphores(2);
        let done = cut_off(polls, one.try_acquire(1)).await;
        assert_free(&stage, 2).await;
        if done {
            return;
        }
    }
}

async fn a_dropped_wait_to_write_leaves_nothing(store: StoreUnderTest) {
    for polls in 1.. {
        let stage = Stage::new(&store, "cut-write");
        let [one, other] = stage.rw_locks();
        let reader = other.read().await.expect("an answer");
        let (done, behind, ()) = tokio::join!(
            cut_off(polls, one.write_within(LONG)),
            soon("the reader behind", other.read()),
            async { drop(reader) },
        );
        drop(behind.expect("an answer"));
        let writer = soon("nobody is left", other.write()).await;
        drop(writer.expect("an answer"));
        stage.until_nothing_is_left().await;
        if done {
            return;
        }
    }
}

async fn a_dropped_downgrade_leaves_nothing(store: StoreUnderTest) {
    for polls in 1.. {
        let stage = Stage::new(&store, "cut-downgrade");
        let [one, other] = stage.rw_locks();
        let writer = one.write().await.expect("an answer");
        let done = cut_off(polls, writer.downgrade()).await;
        let next = soon("nobody is left", other.write()).await;
        drop(next.expect("an answer"));
        stage.until_nothing_is_left().await;
        if done {
            return;
        }
    }
}

async fn a_dropped_release_of_permits_still_releases(store: StoreUnderTest) {
    for polls in 1.. {
        let stage = Stage::new(&store, "cut-release");
        let [one, _] = stage.semaphores(2);
        let permit = take(&one, 2).await;
        let done = cut_off(polls, permit.release()).await;
        assert_free(&stage, 2).await;
        if done {
            return;
        }
    }
}

/// Runs `work` with a locker in a runtime that then ends without a word, as a process does that is killed.
fn in_a_process_that_dies<W: Future>(
    store: &StoreUnderTest,
    ttl: Duration,
    work: impl FnOnce(Locker) -> W + Send + 'static,
) {
    let backend = store.one.clone();
    let process = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        let locker = Locker::builder(backend).ttl(ttl).build();
        // What `work` returns is not dropped, and so not released.
        std::mem::forget(runtime.block_on(work(locker.expect("valid settings"))));
        runtime.shutdown_background();
    });
    process.join().expect("no panic");
}

async fn permits_of_a_dead_process_are_granted_to_others(store: StoreUnderTest) {
    const TTL: Duration = Duration::from_secs(1);
    let stage = Stage::new(&store, "dead");
    let name = stage.name.clone();
    let store = store.clone();
    let dying = move || {
        in_a_process_that_dies(&store, TTL, async move |locker| {
            let semaphore = locker.semaphore(name, 2).expect("records");
            let permits = [take(&semaphore, 1).await, take(&semaphore, 1).await];
            (semaphore, permits)
        })
    };
    tokio::task::spawn_blocking(dying).await.expect("no panic");
    let [_, other] = stage.semaphores(2);
    let both = soon("both permits end", other.acquire(2)).await;
    assert!(both.expect("an answer").release().await.is_released());
    stage.until_nothing_is_left().await;
}

async fn waiters_of_a_dead_process_do_not_block_the_line(store: StoreUnderTest) {
    let stage = Stage::new(&store, "dead-waiters");
    let [one, other] = stage.semaphores(2);
    let held = take(&one, 2).await;
    let name = stage.name.clone();
    let store = store.clone();
    let dying = move || {
        in_a_process_that_dies(&store, LONG, async move |locker| {
            let semaphore: Semaphore = locker.semaphore(name, 2).expect("records");
            let waits = [(); 3].map(|()| {
                let semaphore = semaphore.clone();
                tokio::spawn(async move { drop(semaphore.acquire(1).await) })
            });
            let (_, shares) = locker.shares().expect("records");
            eventually("they stand in line", || async {
                let record = crate::Backend::inspect(&*shares, semaphore.name()).await;
                let record = record.expect("an answer");
                record.is_some_and(|record| record.waiting.len() == 3)
            })
            .await;
            (semaphore, waits)
        })
    };
    tokio::task::spawn_blocking(dying).await.expect("no panic");
    drop(held);
    drop(
        soon("the dead are passed over", other.acquire(2))
            .await
            .expect("an answer"),
    );
    stage.until_nothing_is_left().await;
}
