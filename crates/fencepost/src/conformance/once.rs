//! Requirements on jobs that run once: one run at a time, for a limited time, and not twice for a slot.

mod slots;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{
    ALWAYS, LEASES, LONG, Requirement, StoreUnderTest, eventually, fresh_name, soon, table,
};
use crate::backend::Backend;
use crate::claim::{Claim, LockName};
use crate::error::{ErrorKind, Result};
use crate::kinds::once::{AfterCrash, Began, Finished, Once, Outcome, Run, Skipped, Stopped, Why};
use crate::lease::LostReason;
use crate::locker::Locker;
use crate::testing::poll_at_most;

table! {
    one_run_at_a_time: ALWAYS,
    runs_have_growing_fences: ALWAYS,
    a_run_that_was_finished_is_followed_by_another: ALWAYS,
    a_run_ends_when_its_time_is_over: ALWAYS,
    a_run_is_renewed_until_then: LEASES,
    a_run_whose_lock_was_taken_away_is_finished_too_late: ALWAYS,
    others_stay_away_for_the_least_time_after_a_quick_run: ALWAYS,
    others_stay_away_for_the_least_time_after_a_crash: ALWAYS,
    a_dropped_begin_leaves_no_lock: ALWAYS,
    a_dropped_finish_leaves_no_lock: ALWAYS,
}

/// Returns the requirements on jobs, those on slots last.
pub(super) fn requirements() -> impl Iterator<Item = &'static Requirement> {
    REQUIREMENTS.iter().chain(slots::REQUIREMENTS)
}

const HOUR: Duration = Duration::from_secs(3600);

fn job(backend: &Arc<dyn Backend>, name: &LockName, ttl: Duration) -> Once {
    let locker = Locker::builder(backend.clone()).ttl(ttl).build();
    let once = locker.expect("valid settings").once(name);
    once.expect("a valid name").at_most(HOUR)
}

fn two_jobs(store: &StoreUnderTest, name: &LockName) -> [Once; 2] {
    [&store.one, &store.other].map(|backend| job(backend, name, LONG))
}

async fn began(once: &Once) -> Result<Began> {
    soon("the beginning", once.begin()).await
}

async fn run(once: &Once) -> Run {
    match began(once).await.expect("an answer") {
        Began::Run(run) => run,
        Began::Skipped(skipped) => panic!("it runs, and is not skipped: {skipped:?}"),
    }
}

/// Runs it as soon as no other run is in the way. A request of a dropped future may still be on its way to the store.
async fn run_when_free(once: &Once) -> Run {
    soon("the other run's end", async {
        loop {
            match once.begin().await.expect("an answer") {
                Began::Run(run) => return run,
                Began::Skipped(Skipped {
                    why: Why::Running, ..
                }) => tokio::time::sleep(Duration::from_millis(2)).await,
                Began::Skipped(skipped) => panic!("it runs, and is not skipped: {skipped:?}"),
            }
        }
    })
    .await
}

async fn skipped(once: &Once) -> Skipped {
    match began(once).await.expect("an answer") {
        Began::Run(run) => panic!("it is skipped, and does not run: {run:?}"),
        Began::Skipped(skipped) => skipped,
    }
}

async fn finish(run: Run, outcome: Outcome) -> Finished {
    soon("the end", run.finish(outcome)).await
}

async fn complete(run: Run) {
    let finished = finish(run, Outcome::Completed).await;
    assert!(finished.is_released(), "{finished:?}");
}

/// Takes the lock of a run away by force. The run does not know it yet.
async fn take_away(store: &StoreUnderTest, run: &Run) {
    let claim = Claim::new(run.name().clone(), run.owner(), LONG);
    store.other.release(&claim).await.expect("an answer");
}

/// Checks that nobody holds the lock of the job, and that somebody else can begin.
async fn assert_free(once: &Once) {
    soon("another run", async {
        loop {
            if let Began::Run(run) = once.begin().await.expect("an answer") {
                complete(run).await;
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    let backend = once.backend();
    eventually("nothing is left", || async {
        let record = backend.inspect(once.name()).await;
        record.expect("an answer").is_none()
    })
    .await;
}

async fn one_run_at_a_time(store: StoreUnderTest) {
    let name = fresh_name("once");
    let [one, other] = two_jobs(&store, &name);
    let first = run(&one).await;
    for once in [&one, &other] {
        let skipped = skipped(once).await;
        assert_eq!(skipped.why, Why::Running, "somebody runs it");
        assert!(skipped.by.is_some(), "{skipped:?}");
    }
    complete(first).await;
    let inside = Arc::new(AtomicU64::new(0));
    let tasks = (0..8).map(|task| {
        let (once, inside) = ([&one, &other][task % 2].clone(), inside.clone());
        tokio::spawn(async move {
            for _ in 0..10 {
                if let Began::Run(run) = began(&once).await.expect("an answer") {
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "nobody else runs");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    complete(run).await;
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        soon("all runs", task).await.expect("no panic");
    }
}

async fn runs_have_growing_fences(store: StoreUnderTest) {
    let name = fresh_name("once-fences");
    let jobs = two_jobs(&store, &name);
    let mut latest = None;
    for turn in 0..6 {
        let run = run(&jobs[turn % 2]).await;
        let fence = Some(run.fence());
        assert!(fence > latest, "{fence:?} after {latest:?}");
        latest = fence;
        complete(run).await;
    }
}

async fn a_run_that_was_finished_is_followed_by_another(store: StoreUnderTest) {
    let name = fresh_name("once-finished");
    let [one, other] = two_jobs(&store, &name);
    for outcome in [Outcome::Completed, Outcome::Failed] {
        let finished = finish(run(&one).await, outcome).await;
        assert!(matches!(finished, Finished::Released), "{finished:?}");
        complete(run(&other).await).await;
    }
    drop(run(&one).await);
    assert_free(&other).await;
}

async fn a_run_ends_when_its_time_is_over(store: StoreUnderTest) {
    const AT_MOST: Duration = Duration::from_millis(1500);
    let name = fresh_name("once-at-most");
    let [one, other] = two_jobs(&store, &name);
    let endless = one.at_most(AT_MOST);
    let clock = endless.backend().clock();
    let begun_at = clock.now();
    let stopped = run(&endless).await;
    assert!(stopped.valid_for() <= AT_MOST, "the bound counts");
    let work = stopped.run(std::future::pending::<()>());
    let why = soon("the end of its time", work).await;
    let took = clock.now().saturating_duration_since(begun_at);
    match why {
        Err(Stopped::OutOfTime) => {}
        // The program was too slow to stop in time.
        Err(Stopped::Lost(lost)) => assert_eq!(lost.reason(), LostReason::OutOfTime),
        Ok(()) => unreachable!("the work never ends"),
    }
    assert!(took < AT_MOST || stopped.is_lost(), "{took:?}");
    let lost = soon("the loss", stopped.lost()).await;
    assert_eq!(lost.reason(), LostReason::OutOfTime);
    // Nobody has to wait until it is finished.
    assert_free(&other).await;
    let finished = finish(stopped, Outcome::Completed).await;
    assert!(matches!(finished, Finished::AlreadyLost), "{finished:?}");
}

async fn a_run_is_renewed_until_then(store: StoreUnderTest) {
    // Long enough for a slow machine to renew in time.
    const TTL: Duration = Duration::from_secs(1);
    let name = fresh_name("once-renewed");
    for _ in 0..10 {
        let once = job(&store.one, &name, TTL).at_most(TTL * 60);
        let rival = job(&store.other, &name, LONG);
        let kept = run(&once).await;
        let until = kept.fence();
        tokio::time::sleep(TTL * 3).await;
        let rivals = began(&rival).await.expect("an answer");
        if !kept.is_lost() {
            assert!(
                matches!(rivals, Began::Skipped(_)),
                "{until}: granted to another"
            );
            complete(kept).await;
            return;
        }
        if let Began::Run(rival) = rivals {
            complete(rival).await;
        }
        // If the machine stood still for a second, the run says so, and the attempt proves nothing.
        assert_eq!(kept.lost().await.reason(), LostReason::Expired);
    }
    panic!("lost its lock ten times in a row");
}

async fn a_run_whose_lock_was_taken_away_is_finished_too_late(store: StoreUnderTest) {
    let name = fresh_name("once-taken");
    let [one, other] = two_jobs(&store, &name);
    let late = run(&one).await;
    take_away(&store, &late).await;
    let next = run(&other).await;
    assert!(next.fence() > late.fence());
    let finished = finish(late, Outcome::Completed).await;
    assert!(matches!(finished, Finished::AlreadyLost), "{finished:?}");
    complete(next).await;
}

/// How long others stay away in tests.
const AT_LEAST: Duration = Duration::from_millis(1500);

/// Begins a run that keeps others away, with a TTL that is much shorter than that. Returns `None` if the store cannot do it, and says so.
async fn short_job(store: &StoreUnderTest, name: &LockName) -> Option<(Once, Run)> {
    const TTL: Duration = Duration::from_millis(300);
    let once = job(&store.one, name, TTL).at_least(AT_LEAST);
    let capabilities = store.capabilities();
    let answer = began(&once).await;
    if !capabilities.lasting && !capabilities.records {
        let error = answer.expect_err("nothing can keep others away");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        return None;
    }
    match answer.expect("an answer") {
        Began::Run(run) => Some((once, run)),
        Began::Skipped(skipped) => panic!("{skipped:?}"),
    }
}

/// Checks that nobody can begin before `AT_LEAST` has passed since `begun_at`, and that somebody can afterwards.
async fn assert_kept_away(store: &StoreUnderTest, name: &LockName, begun_at: crate::clock::Moment) {
    let rival = job(&store.other, name, LONG);
    let clock = store.one.clock();
    let began_at = soon("another run", async {
        loop {
            let asked_at = clock.now();
            match rival.begin().await.expect("an answer") {
                Began::Run(run) => {
                    complete(run).await;
                    return asked_at;
                }
                Began::Skipped(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    })
    .await;
    let away = began_at.saturating_duration_since(begun_at);
    assert!(
        away + Duration::from_millis(50) >= AT_LEAST,
        "only {away:?}"
    );
}

async fn others_stay_away_for_the_least_time_after_a_quick_run(store: StoreUnderTest) {
    let name = fresh_name("once-at-least");
    let begun_at = store.one.clock().now();
    let Some((once, quick)) = short_job(&store, &name).await else {
        return;
    };
    complete(quick).await;
    let skipped = skipped(&once).await;
    if store.capabilities().records {
        assert_eq!(skipped.why, Why::RecentlyRan, "it has run");
        assert!(
            skipped.until.is_some() && skipped.by.is_some(),
            "{skipped:?}"
        );
    }
    assert_kept_away(&store, &name, begun_at).await;
}

async fn others_stay_away_for_the_least_time_after_a_crash(store: StoreUnderTest) {
    let name = fresh_name("once-at-least-crash");
    let begun_at = store.one.clock().now();
    let Some((_once, crashed)) = short_job(&store, &name).await else {
        return;
    };
    // Its machine is gone: nobody renews or releases.
    drop(crashed);
    assert_kept_away(&store, &name, begun_at).await;
}

/// Polls the future `polls` times and drops it. Returns whether it completed before.
async fn cut_off<F: Future>(polls: usize, future: F) -> bool {
    let cut = soon("the future", poll_at_most(polls, future)).await;
    cut.is_some()
}

async fn a_dropped_begin_leaves_no_lock(store: StoreUnderTest) {
    let slot = store.capabilities().records.then_some("a");
    for polls in 1.. {
        let name = fresh_name("once-cancel-begin");
        let [one, other] = two_jobs(&store, &name);
        let one = match slot {
            Some(slot) => one.slot(slot),
            None => one,
        };
        let done = cut_off(polls, one.begin()).await;
        assert_free(&other).await;
        if slot.is_some() {
            // Nobody knows whether it has begun, but it can be run at least once.
            let again = other.slot("a").after_crash(AfterCrash::Rerun);
            complete(run_when_free(&again).await).await;
        }
        if done {
            break;
        }
    }
}

async fn a_dropped_finish_leaves_no_lock(store: StoreUnderTest) {
    for polls in 1.. {
        let name = fresh_name("once-cancel-finish");
        let [one, other] = two_jobs(&store, &name);
        let done = cut_off(polls, run(&one).await.finish(Outcome::Completed)).await;
        assert_free(&other).await;
        if done {
            break;
        }
    }
}
