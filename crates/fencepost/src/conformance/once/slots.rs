//! Requirements on the slots of jobs: a slot that was completed is not run again, and nobody else decides how a run has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{
    assert_free, began, complete, cut_off, finish, job, run, skipped, take_away, two_jobs,
};
use crate::claim::Claim;
use crate::conformance::{ALWAYS, LONG, RECORDS, StoreUnderTest, fresh_name, soon, table};
use crate::error::ErrorKind;
use crate::kinds::once::{AfterCrash, Began, Finished, Once, Outcome, Run, Skipped, Why};

table! {
    a_slot_that_was_completed_is_not_run_again: RECORDS,
    a_slot_that_failed_is_run_again: RECORDS,
    a_slot_of_a_crashed_run_is_unknown: RECORDS,
    a_slot_is_completed_once_however_many_try: RECORDS,
    a_completion_that_comes_late_is_refused: RECORDS,
    a_slot_that_was_forgotten_is_refused: RECORDS,
    jobs_are_apart: RECORDS,
    a_dropped_finish_records_the_end_or_leaves_it_open: RECORDS,
    a_store_without_records_refuses_slots: ALWAYS,
}

/// Ends a run as a crash would: nothing is recorded, and the lock is free.
async fn crash(store: &StoreUnderTest, run: Run) {
    let claim = Claim::new(run.name().clone(), run.owner(), LONG);
    drop(run);
    store.one.release(&claim).await.expect("an answer");
}

async fn a_slot_that_was_completed_is_not_run_again(store: StoreUnderTest) {
    let name = fresh_name("once-slot");
    let [one, other] = two_jobs(&store, &name).map(|job| job.slot("2026-11-19"));
    let first = run(&one).await;
    assert_eq!(first.slot(), Some("2026-11-19"));
    complete(first).await;
    for after_crash in [AfterCrash::Skip, AfterCrash::Rerun] {
        for once in [&one, &other] {
            let skipped = skipped(&once.clone().after_crash(after_crash)).await;
            assert_eq!(skipped.why, Why::Completed, "it was completed");
            assert!(
                skipped.by.is_some() && skipped.since.is_some(),
                "{skipped:?}"
            );
        }
    }
    complete(run(&other.slot("2026-11-20")).await).await;
}

async fn a_slot_that_failed_is_run_again(store: StoreUnderTest) {
    let name = fresh_name("once-failed");
    let [one, other] = two_jobs(&store, &name).map(|job| job.slot("a"));
    let finished = finish(run(&one).await, Outcome::Failed).await;
    assert!(finished.is_released(), "{finished:?}");
    complete(run(&other).await).await;
    assert_eq!(skipped(&one).await.why, Why::Completed);
}

async fn a_slot_of_a_crashed_run_is_unknown(store: StoreUnderTest) {
    let name = fresh_name("once-crashed");
    let [one, other] = two_jobs(&store, &name).map(|job| job.slot("a"));
    let crashed = run(&one).await;
    let fence = crashed.fence();
    crash(&store, crashed).await;
    let skipped = skipped(&other).await;
    assert_eq!(skipped.why, Why::CrashUnknown, "nobody knows how it ended");
    assert!(
        skipped.by.is_some() && skipped.since.is_some(),
        "{skipped:?}"
    );
    let rerun = run(&other.after_crash(AfterCrash::Rerun)).await;
    assert!(rerun.fence() > fence);
    complete(rerun).await;
}

async fn a_slot_is_completed_once_however_many_try(store: StoreUnderTest) {
    const SLOTS: usize = 5;
    let name = fresh_name("once-crowd");
    let jobs = two_jobs(&store, &name);
    let completed = Arc::new([(); SLOTS].map(|()| AtomicU64::new(0)));
    let tasks = (0..6).map(|task| {
        let (once, completed) = (jobs[task % 2].clone(), completed.clone());
        tokio::spawn(async move {
            for (slot, count) in completed.iter().enumerate() {
                let once = once.clone().slot(slot.to_string());
                loop {
                    match began(&once).await.expect("an answer") {
                        Began::Run(run) => {
                            count.fetch_add(1, Ordering::SeqCst);
                            complete(run).await;
                            break;
                        }
                        Began::Skipped(Skipped { why, .. }) => match why {
                            Why::Completed => break,
                            // Whoever completed the slot before may still have the lock.
                            Why::Running | Why::RecentlyRan => tokio::task::yield_now().await,
                            other => panic!("{other:?}"),
                        },
                    }
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        soon("all slots", task).await.expect("no panic");
    }
    for (slot, count) in completed.iter().enumerate() {
        assert_eq!(count.load(Ordering::SeqCst), 1, "slot {slot} was run once");
    }
}

async fn a_completion_that_comes_late_is_refused(store: StoreUnderTest) {
    let name = fresh_name("once-late");
    let [one, other] = two_jobs(&store, &name).map(|job| job.slot("a"));
    let other = other.after_crash(AfterCrash::Rerun);
    let late = run(&one).await;
    take_away(&store, &late).await;
    let rerun = run(&other).await;
    let finished = finish(late, Outcome::Completed).await;
    assert!(matches!(finished, Finished::AlreadyLost), "{finished:?}");
    let finished = finish(rerun, Outcome::Failed).await;
    assert!(finished.is_released(), "{finished:?}");
    complete(run(&one).await).await;
}

async fn a_slot_that_was_forgotten_is_refused(store: StoreUnderTest) {
    let name = fresh_name("once-forgotten");
    let [one, other] = two_jobs(&store, &name);
    complete(run(&one.clone().slot("2026-11-18")).await).await;
    // The clock of the machine counts in milliseconds.
    tokio::time::sleep(Duration::from_millis(5)).await;
    complete(run(&one.clone().slot("2026-11-19").keep(Duration::ZERO)).await).await;
    for slot in ["2026-11-18", "2026-11-17", "1"] {
        let skipped = skipped(&other.clone().slot(slot)).await;
        assert_eq!(skipped.why, Why::BelowFloor, "{slot}");
    }
    assert_eq!(skipped(&other.slot("2026-11-19")).await.why, Why::Completed);
}

async fn jobs_are_apart(store: StoreUnderTest) {
    let names = [fresh_name("once-a"), fresh_name("once-b")];
    for name in &names {
        let once = job(&store.one, name, LONG).slot("a");
        complete(run(&once).await).await;
    }
    for name in &names {
        let once = job(&store.other, name, LONG).slot("a");
        assert_eq!(skipped(&once).await.why, Why::Completed);
    }
}

/// Runs a slot that crashed again and again, without success. A request that was dropped earlier must not complete it in the meantime.
async fn fail_often(once: &Once) {
    let again = once.clone().after_crash(AfterCrash::Rerun);
    for _ in 0..10 {
        let finished = finish(run(&again).await, Outcome::Failed).await;
        assert!(finished.is_released(), "{finished:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn a_dropped_finish_records_the_end_or_leaves_it_open(store: StoreUnderTest) {
    for polls in 1.. {
        let name = fresh_name("once-cancel-record");
        let [one, other] = two_jobs(&store, &name);
        let slot = one.slot("a");
        let done = cut_off(polls, run(&slot).await.finish(Outcome::Completed)).await;
        assert_free(&other).await;
        let other = other.slot("a");
        match skipped(&other).await.why {
            Why::Completed => {}
            Why::CrashUnknown if !done => fail_often(&other).await,
            why => panic!("{why:?} after {polls} polls"),
        }
        if done {
            break;
        }
    }
}

async fn a_store_without_records_refuses_slots(store: StoreUnderTest) {
    if store.capabilities().records {
        return;
    }
    let name = fresh_name("once-without");
    let [one, other] = two_jobs(&store, &name);
    let error = began(&one.slot("a"))
        .await
        .expect_err("there are no records");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("could forget"), "{error}");
    assert_free(&other).await;
}
