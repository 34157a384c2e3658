//! Requirements on read-write locks: readers together, writers alone, neither side overtaken, and no gap in a downgrade.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinHandle;

use super::{NOT_LONG, Stage, got};
use crate::claim::Part;
use crate::conformance::{SHARES, SHORT, StoreUnderTest, eventually, soon, table};
use crate::error::ErrorKind;
use crate::kinds::{ReadGuard, RwLock, WriteGuard};

table! {
    readers_are_together_and_a_writer_is_alone: SHARES,
    readers_do_not_overtake_a_writer: SHARES,
    readers_between_writers_come_in_together: SHARES,
    nobody_reads_what_is_half_written: SHARES,
    a_downgrade_leaves_no_gap: SHARES,
    a_downgrade_lets_readers_in_that_wait_in_front: SHARES,
    a_lost_writer_cannot_become_a_reader: SHARES,
}

async fn reads(lock: &RwLock) -> ReadGuard {
    let reading = soon("a reader is let in", lock.read()).await;
    reading.expect("an answer")
}

async fn writes(lock: &RwLock) -> WriteGuard {
    let writing = soon("a writer is let in", lock.write()).await;
    writing.expect("an answer")
}

/// Waits for a reader in a separate task.
fn reading(lock: &RwLock) -> JoinHandle<ReadGuard> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.read().await.expect("an answer") })
}

/// Waits for a writer in a separate task.
fn writing(lock: &RwLock) -> JoinHandle<WriteGuard> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.write().await.expect("an answer") })
}

async fn readers_are_together_and_a_writer_is_alone(store: StoreUnderTest) {
    let stage = Stage::new(&store, "rw");
    let [one, other] = stage.rw_locks();
    let readers = [reads(&one).await, reads(&other).await, reads(&one).await];
    assert!(
        got(other.try_write().await).is_none(),
        "a writer beside readers"
    );
    assert!(got(one.write_within(NOT_LONG).await).is_none());
    stage.until_waiting(0).await;
    let highest = readers.iter().map(ReadGuard::fence).max();
    for reader in readers {
        assert!(reader.release().await.is_released());
    }
    let writer = got(other.try_write().await).expect("nobody else");
    assert!(Some(writer.fence()) > highest);
    for lock in [&one, &other] {
        assert!(
            got(lock.try_read().await).is_none(),
            "a reader beside a writer"
        );
        assert!(
            got(lock.try_write().await).is_none(),
            "a writer beside a writer"
        );
        assert!(got(lock.read_within(NOT_LONG).await).is_none());
    }
    let fence = writer.fence();
    assert!(writer.release().await.is_released());
    assert!(reads(&one).await.fence() > fence);
}

async fn readers_do_not_overtake_a_writer(store: StoreUnderTest) {
    let stage = Stage::new(&store, "rw-fair");
    let [one, other] = stage.rw_locks();
    let reader = reads(&one).await;
    let writer = writing(&other);
    stage.until_waiting(1).await;
    assert!(
        got(one.try_read().await).is_none(),
        "a reader overtook a writer"
    );
    let late = reading(&one);
    stage.until_waiting(2).await;
    let record = stage.record().await.expect("held");
    let parts: Vec<Part> = record.waiting.iter().map(|waiter| waiter.part).collect();
    assert_eq!(parts, [Part::Write, Part::Read], "the line is in order");
    drop(reader);
    let writer = soon("the writer", writer).await.expect("no panic");
    assert!(!late.is_finished(), "a reader beside a writer");
    let fence = writer.fence();
    drop(writer);
    assert!(soon("the reader", late).await.expect("no panic").fence() > fence);
}

async fn readers_between_writers_come_in_together(store: StoreUnderTest) {
    let stage = Stage::new(&store, "rw-together");
    let [one, other] = stage.rw_locks();
    let first = writes(&one).await;
    let mut readers = Vec::new();
    for lock in [&one, &other, &one] {
        readers.push(reading(lock));
        stage.until_waiting(readers.len()).await;
    }
    let last = writing(&other);
    stage.until_waiting(4).await;
    drop(first);
    let mut inside = Vec::new();
    for reader in readers {
        inside.push(soon("all readers", reader).await.expect("no panic"));
    }
    assert!(!last.is_finished(), "a writer beside readers");
    drop(inside);
    drop(soon("the last writer", last).await.expect("no panic"));
    stage.until_nothing_is_left().await;
}

async fn nobody_reads_what_is_half_written(store: StoreUnderTest) {
    const TURNS: u64 = 12;
    let stage = Stage::new(&store, "rw-load");
    let pair = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let locks = stage.rw_locks();
    let tasks = (0..6).map(|task| {
        let (lock, pair) = (locks[task % 2].clone(), pair.clone());
        tokio::spawn(async move {
            let [one, other] = &*pair;
            for _ in 0..TURNS {
                if task < 2 {
                    let guard = writes(&lock).await;
                    let seen = one.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    assert_eq!(
                        other.fetch_add(1, Ordering::SeqCst),
                        seen,
                        "a writer is alone"
                    );
                    assert!(guard.release().await.is_released());
                } else {
                    let guard = reads(&lock).await;
                    let seen = one.load(Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    assert_eq!(other.load(Ordering::SeqCst), seen, "half written");
                    assert!(guard.release().await.is_released());
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        soon("all turns", task).await.expect("no panic");
    }
    assert_eq!(pair[0].load(Ordering::SeqCst), 2 * TURNS);
    stage.until_nothing_is_left().await;
}

async fn a_downgrade_leaves_no_gap(store: StoreUnderTest) {
    let stage = Stage::new(&store, "downgrade");
    let [one, other] = stage.rw_locks();
    let written = Arc::new(AtomicU64::new(0));
    let rival = tokio::spawn({
        let (other, written) = (other.clone(), written.clone());
        async move {
            loop {
                let writer = writes(&other).await;
                written.fetch_add(1, Ordering::SeqCst);
                drop(writer);
                tokio::task::yield_now().await;
            }
        }
    });
    for _ in 0..8 {
        let writer = writes(&one).await;
        let (seen, fence) = (written.load(Ordering::SeqCst), writer.fence());
        let reader = soon("a downgrade", writer.downgrade()).await;
        let reader = reader.expect("an answer");
        assert!(reader.fence() > fence);
        tokio::task::yield_now().await;
        assert_eq!(
            written.load(Ordering::SeqCst),
            seen,
            "somebody wrote in between"
        );
        assert!(!reader.is_lost());
        assert!(reader.release().await.is_released());
    }
    rival.abort();
    assert!(rival.await.is_err_and(|error| error.is_cancelled()));
    stage.until_nothing_is_left().await;
}

async fn a_downgrade_lets_readers_in_that_wait_in_front(store: StoreUnderTest) {
    let stage = Stage::new(&store, "downgrade-line");
    let [one, other] = stage.rw_locks();
    let writer = writes(&one).await;
    let before = reading(&other);
    stage.until_waiting(1).await;
    let next = writing(&one);
    stage.until_waiting(2).await;
    let reader = soon("a downgrade", writer.downgrade())
        .await
        .expect("an answer");
    let before = soon("the reader in front", before).await.expect("no panic");
    assert!(!next.is_finished(), "a writer beside readers");
    drop((reader, before));
    drop(soon("the writer behind", next).await.expect("no panic"));
}

async fn a_lost_writer_cannot_become_a_reader(store: StoreUnderTest) {
    let set = |settings: crate::LockerBuilder| settings.ttl(SHORT).keep_alive(false);
    let stage = Stage::with(&store, "downgrade-lost", set);
    let [one, other] = stage.rw_locks();
    let writer = writes(&one).await;
    eventually("the lease ends", || async { writer.is_lost() }).await;
    let next = writes(&other).await;
    let error = writer
        .downgrade()
        .await
        .expect_err("it does not write any more");
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    drop(next);
    stage.until_nothing_is_left().await;
}
