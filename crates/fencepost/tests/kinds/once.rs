//! Jobs: what a store that fails, a machine that crashes and a clock that runs out do to runs and their slots.

use std::time::Duration;

use fencepost::backend::Backend;
use fencepost::backend::records::{RecordKey, RecordKind};
use fencepost::clock::Clock;
use fencepost::kinds::once::{AfterCrash, Began, Finished, Once, Outcome, Run, Stopped, Why};
use fencepost::testing::Fault;
use fencepost::{Effect, ErrorKind, Locker, LostReason, Operation};

use crate::stage::{Stage, TTL};

const HOUR: Duration = Duration::from_secs(3600);

fn job(stage: &Stage) -> Once {
    stage.locker().once("nightly").unwrap().at_most(HOUR)
}

async fn began(stage: &Stage, once: &Once) -> Began {
    stage.in_time(once.begin()).await.unwrap()
}

async fn run(stage: &Stage, once: &Once) -> Run {
    match began(stage, once).await {
        Began::Run(run) => run,
        Began::Skipped(skipped) => panic!("{skipped:?}"),
    }
}

async fn why(stage: &Stage, once: &Once) -> Why {
    match began(stage, once).await {
        Began::Run(run) => panic!("{run:?}"),
        Began::Skipped(skipped) => skipped.why,
    }
}

async fn is_free(stage: &Stage) -> bool {
    let name = "nightly".try_into().unwrap();
    stage.store.inspect(&name).await.unwrap().is_none()
}

#[tokio::test]
async fn what_cannot_be_is_refused_before_anything_happens() {
    let stage = Stage::new();
    let once = stage.locker().once("nightly").unwrap();
    let day = 24 * HOUR;
    let bounded = once.clone().at_most(HOUR);
    let long = "x".repeat(129);
    for (once, reason) in [
        (once.clone(), "at_most is missing"),
        (once.clone().at_most(Duration::from_millis(1)), "too short"),
        (bounded.clone().at_least(2 * HOUR), "more than at_most"),
        (once.at_most(9 * day).at_least(2 * day), "needs a slot"),
        (bounded.clone().slot(""), "1 to 128 bytes"),
        (bounded.clone().slot(long), "this one has 129"),
        (bounded.clone().slot("a\tb"), "control characters"),
        (bounded.slot("a\u{202e}b"), "text direction marks"),
    ] {
        let error = once.begin().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.message().contains(reason), "{error}");
    }
    assert_eq!(stage.store.requests(Operation::Acquire), 0);
}

#[tokio::test]
async fn a_run_is_renewed_until_its_time_is_over_and_no_longer() {
    let stage = Stage::new();
    let at_most = 20 * TTL;
    let once = stage.locker().once("nightly").unwrap().at_most(at_most);
    let begun_at = stage.clock.now();
    let endless = run(&stage, &once).await;
    assert_eq!(endless.at_most(), at_most);
    let stopped = stage
        .in_time(endless.run(std::future::pending::<()>()))
        .await;
    assert!(matches!(stopped, Err(Stopped::OutOfTime)), "{stopped:?}");
    let took = stage.clock.now().saturating_duration_since(begun_at);
    assert!(took < at_most, "there is time left to record the end");
    assert!(took > at_most * 98 / 100, "{took:?}");
    assert_eq!(endless.time_left(), Duration::ZERO);
    assert!(!endless.is_lost());
    let lost = stage.in_time(endless.lost()).await;
    assert_eq!(lost.reason(), LostReason::OutOfTime);
    // The lease lasts at most a third of a TTL longer.
    stage.pass(TTL / 3 + Duration::from_millis(200)).await;
    assert!(is_free(&stage).await);
    let finished = endless.finish(Outcome::Completed).await;
    assert!(matches!(finished, Finished::AlreadyLost), "{finished:?}");
}

#[tokio::test]
async fn a_run_that_is_shorter_than_a_lease_has_a_shorter_lease() {
    let stage = Stage::new();
    let at_most = TTL / 10;
    let once = stage.locker().once("nightly").unwrap().at_most(at_most);
    let short = run(&stage, &once).await;
    assert!(short.valid_for() < at_most);
    // Its machine is gone.
    stage.store.fail_every(Operation::Renew, Fault::Refuse);
    stage.store.fail_every(Operation::Release, Fault::Refuse);
    drop(short);
    stage.pass(at_most + Duration::from_millis(100)).await;
    assert!(is_free(&stage).await);
}

#[tokio::test]
async fn a_long_lease_is_renewed_as_often_as_a_short_one_to_learn_of_a_loss() {
    let stage = Stage::new();
    let run = run(&stage, &job(&stage).at_least(HOUR)).await;
    assert!(run.valid_for() > TTL * 100, "{:?}", run.valid_for());
    stage.pass(TTL).await;
    let renewals = stage.store.requests(Operation::Renew);
    assert!((2..=5).contains(&renewals), "{renewals}");
    let name = "nightly".try_into().unwrap();
    let claim = fencepost::Claim::new(name, run.owner(), TTL);
    stage.store.release(&claim).await.unwrap();
    stage.pass(TTL).await;
    assert_eq!(run.lost().await.reason(), LostReason::Gone);
}

#[tokio::test]
async fn a_store_that_cannot_be_reached_does_not_end_a_run_whose_lease_lasts() {
    let stage = Stage::new();
    let run = run(&stage, &job(&stage).at_least(HOUR / 2)).await;
    stage.store.fail_every(Operation::Renew, Fault::Refuse);
    stage.pass(TTL * 10).await;
    assert!(
        !run.is_lost(),
        "the store keeps others out for half an hour"
    );
    assert!(run.failed_renewals().is_some());
    stage.store.heal();
    stage.pass(TTL).await;
    assert!(run.failed_renewals().is_none());
    assert!(matches!(
        run.finish(Outcome::Completed).await,
        Finished::Left
    ));
    stage.pass(HOUR / 3).await;
    assert!(!is_free(&stage).await, "nobody renews it, and it lasts");
    stage.pass(HOUR / 6).await;
    assert!(is_free(&stage).await);
}

#[tokio::test]
async fn a_run_that_took_longer_than_the_least_time_is_given_back() {
    let stage = Stage::new();
    let run = run(&stage, &job(&stage).at_least(TTL * 2)).await;
    stage.pass(TTL * 3).await;
    assert!(matches!(
        run.finish(Outcome::Failed).await,
        Finished::Released
    ));
    assert!(is_free(&stage).await);
}

#[tokio::test]
async fn a_run_that_is_dropped_keeps_others_away_too() {
    let stage = Stage::new();
    drop(run(&stage, &job(&stage).at_least(TTL * 3)).await);
    stage.pass(TTL * 2).await;
    assert!(!is_free(&stage).await);
    stage.pass(TTL * 2).await;
    assert!(is_free(&stage).await);
    drop(run(&stage, &job(&stage)).await);
    stage.pass(Duration::from_millis(100)).await;
    assert!(
        is_free(&stage).await,
        "without a least time, it is free at once"
    );
}

#[tokio::test]
async fn a_record_that_is_not_reached_at_once_is_asked_again() {
    let faults = [
        Fault::Refuse,
        Fault::LoseAnswer,
        Fault::Swallow,
        Fault::SwallowAnswer,
    ];
    for (index, fault) in faults.into_iter().enumerate() {
        for operation in [Operation::ReadRecord, Operation::ReplaceRecord] {
            let stage = Stage::new();
            let once = job(&stage).slot(index.to_string());
            stage.store.fail_next(operation, fault);
            let run = run(&stage, &once).await;
            stage.store.fail_next(operation, fault);
            let finished = stage.in_time(run.finish(Outcome::Completed)).await;
            assert!(
                finished.is_released(),
                "{fault:?} {operation}: {finished:?}"
            );
            assert_eq!(why(&stage, &once).await, Why::Completed);
        }
    }
}

#[tokio::test]
async fn a_run_whose_record_cannot_be_reached_does_not_begin() {
    for (operation, fault, effect) in [
        (Operation::ReadRecord, Fault::Refuse, Effect::None),
        (Operation::ReplaceRecord, Fault::Refuse, Effect::None),
        (Operation::ReplaceRecord, Fault::LoseAnswer, Effect::Maybe),
    ] {
        let stage = Stage::new();
        let once = job(&stage).slot("a");
        stage.store.fail_every(operation, fault);
        let error = stage.in_time(once.begin()).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Unavailable, effect),
            "{error}"
        );
        stage.store.heal();
        stage.pass(Duration::from_millis(100)).await;
        assert!(is_free(&stage).await);
        let again = once.after_crash(AfterCrash::Rerun);
        assert!(
            run(&stage, &again)
                .await
                .finish(Outcome::Completed)
                .await
                .is_released()
        );
    }
}

#[tokio::test]
async fn a_lease_that_cannot_be_extended_leaves_the_slot_as_it_was() {
    let stage = Stage::new();
    let once = job(&stage).slot("a").at_least(HOUR);
    stage.store.fail_every(Operation::Renew, Fault::Refuse);
    let error = stage.in_time(once.begin()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    stage.store.heal();
    stage.pass(TTL).await;
    drop(run(&stage, &once).await);
}

#[tokio::test]
async fn an_end_that_cannot_be_recorded_is_unknown() {
    let stage = Stage::new();
    let once = job(&stage).slot("a");
    let run = run(&stage, &once).await;
    stage
        .store
        .fail_every(Operation::ReplaceRecord, Fault::Refuse);
    let finished = stage.in_time(run.finish(Outcome::Completed)).await;
    assert!(matches!(finished, Finished::Unknown(_)), "{finished:?}");
    stage.store.heal();
    assert!(is_free(&stage).await, "the lock is given back nevertheless");
    assert_eq!(why(&stage, &once).await, Why::CrashUnknown);
}

#[tokio::test]
async fn a_run_without_slot_and_least_time_costs_no_records() {
    let stage = Stage::new();
    let run = run(&stage, &job(&stage)).await;
    assert!(run.finish(Outcome::Completed).await.is_released());
    for operation in [Operation::ReadRecord, Operation::ReplaceRecord] {
        assert_eq!(stage.store.requests(operation), 0);
    }
    assert_eq!(stage.store.requests(Operation::Acquire), 1);
    assert_eq!(stage.store.requests(Operation::Release), 1);
}

#[tokio::test]
async fn a_full_record_says_what_to_do() {
    let stage = Stage::new();
    let records = stage.store.records().unwrap();
    let key = RecordKey {
        kind: RecordKind::Runs,
        name: "nightly".try_into().unwrap(),
    };
    let mut text = "fencepost runs 1\n".to_owned();
    let now_ms = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_ms = now_ms.unwrap().as_millis();
    for slot in 0..10_000 {
        text += &format!("slot\t{slot:06}\t1.0\tcompleted\tweb-1:7\t{now_ms}\t{now_ms}\n");
    }
    let seen = records.read(&key).await.unwrap();
    let replaced = records.replace(&key, &seen, text.as_bytes(), HOUR);
    replaced.await.unwrap();
    let once = job(&stage).slot("x");
    let error = once.begin().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.message().contains("10001 slots need"), "{error}");
    assert!(is_free(&stage).await);
    // Forgetting old slots makes room.
    tokio::time::sleep(Duration::from_millis(5)).await;
    let run = run(&stage, &once.keep(Duration::ZERO)).await;
    assert!(run.finish(Outcome::Completed).await.is_released());
}

#[tokio::test]
async fn a_record_of_somebody_else_is_left_alone() {
    let stage = Stage::new();
    let records = stage.store.records().unwrap();
    let key = RecordKey {
        kind: RecordKind::Runs,
        name: "nightly".try_into().unwrap(),
    };
    for (text, reason) in [
        ("fencepost runs 2\nnew\n", "newer version"),
        ("anything\n", "is not ours (line 1)"),
    ] {
        let seen = records.read(&key).await.unwrap();
        let replaced = records.replace(&key, &seen, text.as_bytes(), HOUR);
        replaced.await.unwrap();
        let error = job(&stage).slot("a").begin().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unusable);
        assert!(error.message().contains(reason), "{error}");
        assert!(is_free(&stage).await);
    }
}

#[tokio::test]
async fn a_shutdown_of_the_locker_ends_its_runs() {
    let stage = Stage::new();
    let locker: Locker = stage.locker();
    let once = locker.once("nightly").unwrap().at_most(HOUR);
    let run = run(&stage, &once).await;
    locker.shutdown().await;
    assert_eq!(run.lost().await.reason(), LostReason::Shutdown);
    assert!(is_free(&stage).await);
    assert_eq!(once.begin().await.unwrap_err().kind(), ErrorKind::Closed);
}
