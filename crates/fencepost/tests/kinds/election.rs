//! Elections: what a store that fails, a health check that fails and a shutdown do to candidates, leaders and observers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fencepost::backend::Backend;
use fencepost::backend::records::{RecordKey, RecordKind};
use fencepost::clock::Clock;
use fencepost::kinds::election::{Election, Observed, Observer};
use fencepost::stores::memory::Memory;
use fencepost::testing::{FakeClock, Fault, FlakyStore};
use fencepost::{ErrorKind, Locker, LostReason, Operation};
use futures_util::FutureExt;

use crate::odd_store::OddStore;
use crate::stage::{Stage, TTL};

fn election(stage: &Stage) -> Election {
    stage.locker().election("scheduler").unwrap()
}

async fn is_free(stage: &Stage) -> bool {
    let name = "scheduler".try_into().unwrap();
    stage.store.inspect(&name).await.unwrap().is_none()
}

#[tokio::test]
async fn a_leader_whose_value_is_not_written_at_once_leads_when_it_is() {
    let stage = Stage::new();
    for fault in [
        Fault::Refuse,
        Fault::LoseAnswer,
        Fault::Swallow,
        Fault::SwallowAnswer,
    ] {
        stage.store.fail_next(Operation::ReadRecord, fault);
        stage.store.fail_next(Operation::ReplaceRecord, fault);
        let leadership = stage.in_time(election(&stage).campaign("one")).await;
        let leadership = leadership.unwrap();
        let leader = election(&stage).leader().await.unwrap().unwrap();
        assert_eq!(
            (leader.term, &*leader.value),
            (leadership.term(), "one"),
            "{fault:?}"
        );
        assert!(leadership.resign().await.is_released());
    }
}

/// "Not ours", and of a later term than this store will give out, as after a clock that was set back.
#[tokio::test]
async fn a_candidate_that_cannot_write_its_value_gives_the_lock_back() {
    for (content, why) in [
        ("by somebody else", "is not ours"),
        ("1000000 earlier", "has a later term"),
    ] {
        let stage = Stage::new();
        let records = stage.store.records().unwrap();
        let key = RecordKey {
            kind: RecordKind::Leader,
            name: "scheduler".try_into().unwrap(),
        };
        let seen = records.read(&key).await.unwrap();
        let replaced = records.replace(&key, &seen, content.as_bytes(), TTL);
        replaced.await.unwrap();
        let elected = stage.in_time(election(&stage).campaign("one")).await;
        let error = elected.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unusable);
        assert!(error.message().contains(why), "{error}");
        assert!(is_free(&stage).await);
    }
}

#[tokio::test]
async fn a_leader_whose_record_others_keep_changing_leads_when_they_stop() {
    let clock = FakeClock::new();
    let store = OddStore::new(clock.clone());
    let locker = Locker::builder(store.clone()).ttl(TTL).build().unwrap();
    let election = locker.election("hot").unwrap();
    store.is_hot.store(true, Ordering::SeqCst);
    let candidate = election.clone();
    let campaign = tokio::spawn(async move { candidate.campaign("one").await });
    let step = Duration::from_millis(100);
    clock.advance_in_steps(TTL * 2, step).await;
    assert!(!campaign.is_finished());
    store.is_hot.store(false, Ordering::SeqCst);
    clock.advance_in_steps(TTL, step).await;
    let leadership = campaign.await.unwrap().unwrap();
    store.is_hot.store(true, Ordering::SeqCst);
    let proclaimed = tokio::spawn(async move { leadership.proclaim("two").await });
    clock.advance_in_steps(TTL * 2, step).await;
    let error = proclaimed.await.unwrap().unwrap_err();
    assert!(
        error.is_transient(),
        "nobody has to repair anything: {error}"
    );
}

#[tokio::test]
async fn a_term_that_is_lost_before_the_value_is_written_is_followed_by_another() {
    let stage = Stage::new();
    stage
        .store
        .fail_every(Operation::ReplaceRecord, Fault::Refuse);
    stage.store.fail_every(Operation::Renew, Fault::Refuse);
    let elected = tokio::spawn({
        let election = election(&stage);
        async move { election.campaign("one").await.unwrap() }
    });
    stage.pass(TTL * 3).await;
    assert!(!elected.is_finished());
    stage.store.heal();
    let leadership = stage.in_time(elected).await.unwrap();
    assert!(!leadership.is_lost());
    let leader = election(&stage).leader().await.unwrap().unwrap();
    assert_eq!(leader.term, leadership.term());
}

#[tokio::test]
async fn leaderships_are_renewed_even_if_locks_are_not() {
    let stage = Stage::new();
    let locker = Locker::builder(stage.store.clone())
        .ttl(TTL)
        .keep_alive(false);
    let locker = locker.build().unwrap();
    let leadership = locker.election("scheduler").unwrap().campaign("one").await;
    let leadership = leadership.unwrap();
    let guard = locker.acquire("lock").await.unwrap();
    stage.pass(TTL * 3).await;
    assert!(!leadership.is_lost());
    assert!(guard.is_lost());
}

#[tokio::test]
async fn a_shutdown_of_the_locker_ends_its_elections() {
    let stage = Stage::new();
    let locker = stage.locker();
    let [early, late] = [(), ()].map(|()| locker.election("scheduler").unwrap());
    let leadership = early.campaign("one").await.unwrap();
    let waiting = tokio::spawn(async move { late.campaign("two").await });
    tokio::task::yield_now().await;
    locker.shutdown().await;
    assert_eq!(leadership.lost().await.reason(), LostReason::Shutdown);
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(is_free(&stage).await);
    // One that is created afterwards is closed, too.
    let error = locker.election("other").unwrap().campaign("one").await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn a_shutdown_of_the_locker_ends_the_campaign_of_an_unhealthy_candidate() {
    let stage = Stage::new();
    let locker = stage.locker();
    let election = locker.election("scheduler").unwrap();
    let (unhealthy, count) = failing_from(election, 0, || Box::pin(async { false }));
    let late = unhealthy.clone();
    let campaign = tokio::spawn(async move { unhealthy.campaign("one").await });
    stage.pass(Duration::from_secs(3)).await;
    assert!(!campaign.is_finished());
    locker.shutdown().await;
    tokio::task::yield_now().await;
    let error = stage.in_time(campaign).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    let checks = count.load(Ordering::SeqCst);
    let error = late.try_campaign("one").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(count.load(Ordering::SeqCst), checks, "no check is made");
}

#[tokio::test]
async fn a_shutdown_of_the_locker_ends_its_observers() {
    let stage = Stage::new();
    let locker = stage.locker();
    let election = locker.election("scheduler").unwrap();
    let mut observer = election.observe().unwrap();
    assert!(matches!(next(&stage, &mut observer).await, Observed::None));
    let watching = tokio::spawn(async move { (observer.next().await, observer) });
    tokio::task::yield_now().await;
    locker.shutdown().await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(watching.is_finished(), "told without any time passing");
    let (mut observed, mut observer) = watching.await.unwrap();
    for _ in 0..3 {
        let Observed::Disconnected(error) = observed else {
            panic!("{observed:?}");
        };
        assert_eq!(error.kind(), ErrorKind::Closed);
        let before = stage.clock.now();
        observed = next(&stage, &mut observer).await;
        assert!(stage.clock.now() > before, "whoever goes on is not busy");
    }
    let error = election.leader().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}

#[test]
fn outside_a_runtime_there_is_an_error_not_a_panic() {
    // With the real clock, waiting for the store outside a runtime would panic.
    let store = FlakyStore::new(Arc::new(Memory::new()));
    let election = Locker::new(store.clone()).election("scheduler").unwrap();
    let mut observer = election.observe().unwrap();
    store.fail_every(Operation::ReadRecord, Fault::Swallow);
    let wrong = ErrorKind::WrongContext;
    let error = election.leader().now_or_never().unwrap().unwrap_err();
    assert_eq!(error.kind(), wrong);
    for _ in 0..2 {
        match observer.next().now_or_never().unwrap() {
            Observed::Disconnected(error) => assert_eq!(error.kind(), wrong),
            other => panic!("{other:?}"),
        }
    }
    let (unhealthy, count) = failing_from(election, 0, || Box::pin(async { false }));
    let error = unhealthy.campaign("one").now_or_never().unwrap();
    assert_eq!(error.unwrap_err().kind(), wrong);
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

async fn next(stage: &Stage, observer: &mut Observer) -> Observed {
    stage.in_time(observer.next()).await
}

#[tokio::test]
async fn an_observer_says_when_it_cannot_tell_and_when_it_can_again() {
    let stage = Stage::new();
    let election = election(&stage);
    let leadership = election.campaign("one").await.unwrap();
    let mut observer = election.observe().unwrap();
    assert!(matches!(
        next(&stage, &mut observer).await,
        Observed::Leader(_)
    ));
    for operation in [Operation::ReadRecord, Operation::Inspect] {
        for fault in [Fault::Refuse, Fault::Swallow] {
            stage.store.fail_every(operation, fault);
            let Observed::Disconnected(error) = next(&stage, &mut observer).await else {
                panic!("it cannot tell");
            };
            let is_silent = fault == Fault::Swallow;
            assert_eq!(error.kind() == ErrorKind::Timeout, is_silent, "{error}");
            // It says so once.
            let asked = stage.store.requests(operation);
            let again = async { tokio::join!(observer.next(), async {}) };
            let quiet = tokio::select! {
                biased;
                _ = again => false,
                () = stage.pass(Duration::from_secs(30)) => true,
            };
            assert!(quiet);
            let asked = stage.store.requests(operation) - asked;
            assert!((5..60).contains(&asked), "asked {asked} times in 30 s");
            stage.store.heal();
            // The same leader as before is news now.
            let Observed::Leader(leader) = next(&stage, &mut observer).await else {
                panic!("it can tell again");
            };
            assert_eq!(leader.term, leadership.term());
        }
    }
}

#[tokio::test]
async fn an_observer_notices_at_the_end_of_the_lease_that_a_leader_is_gone() {
    let stage = Stage::new();
    let election = election(&stage);
    let leadership = election.campaign("one").await.unwrap();
    let mut observer = election.observe().unwrap();
    assert!(matches!(
        next(&stage, &mut observer).await,
        Observed::Leader(_)
    ));
    // Like a process that was killed: nothing renews or releases.
    stage.store.fail_every(Operation::Renew, Fault::Refuse);
    stage.store.fail_every(Operation::Release, Fault::Refuse);
    drop(leadership);
    assert!(matches!(next(&stage, &mut observer).await, Observed::None));
}

#[tokio::test]
async fn a_resignation_is_news_at_once() {
    let stage = Stage::new();
    let election = election(&stage);
    let leadership = election.campaign("one").await.unwrap();
    let mut observer = election.observe().unwrap();
    assert!(matches!(
        next(&stage, &mut observer).await,
        Observed::Leader(_)
    ));
    let resigned_at = stage.clock.now();
    let both = async { tokio::join!(observer.next(), leadership.resign()) };
    let (observed, outcome) = stage.in_time(both).await;
    let took = stage.clock.now().saturating_duration_since(resigned_at);
    assert!(took < Duration::from_millis(500), "{took:?}");
    assert!(outcome.is_released());
    assert!(matches!(observed, Observed::None));
}

/// Counts the checks, and fails them from the given one on in the given way.
fn failing_from(
    election: Election,
    first: u32,
    way: fn() -> futures_util::future::BoxFuture<'static, bool>,
) -> (Election, Arc<AtomicU32>) {
    let count = Arc::new(AtomicU32::new(0));
    let counted = count.clone();
    let election = election.health_check(Duration::from_secs(1), move || {
        let number = counted.fetch_add(1, Ordering::SeqCst);
        if number < first {
            Box::pin(std::future::ready(true))
        } else {
            way()
        }
    });
    (election, count)
}

#[tokio::test]
async fn a_check_that_fails_panics_or_hangs_ends_a_leadership() {
    let ways: [fn() -> futures_util::future::BoxFuture<'static, bool>; 4] = [
        || Box::pin(std::future::ready(false)),
        || Box::pin(std::future::pending()),
        || Box::pin(async { panic!("told to") }),
        || panic!("told to"),
    ];
    for way in ways {
        let stage = Stage::new();
        // One check before the campaign, one at the grant, two while it leads.
        let (unhealthy, count) = failing_from(election(&stage), 4, way);
        let leadership = unhealthy.campaign("one").await.unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 2);
        let lost = stage.in_time(leadership.lost()).await;
        assert_eq!(lost.reason(), LostReason::Unhealthy);
        assert_eq!(count.load(Ordering::SeqCst), 5);
        // It is not renewed any more, but nobody else leads before it lets go or its lease ends.
        assert!(
            election(&stage)
                .try_campaign("two")
                .await
                .unwrap()
                .is_none()
        );
        stage.pass(TTL * 2).await;
        assert_eq!(count.load(Ordering::SeqCst), 5, "no check without a need");
        assert!(
            election(&stage)
                .try_campaign("two")
                .await
                .unwrap()
                .is_some()
        );
        drop(leadership);
    }
}

#[tokio::test]
async fn an_unhealthy_candidate_does_not_stand_in_line() {
    let stage = Stage::new();
    let leader = election(&stage).campaign("one").await.unwrap();
    let (unhealthy, count) = failing_from(election(&stage), 0, || Box::pin(async { false }));
    let campaign = tokio::spawn(async move { unhealthy.campaign("two").await });
    stage.pass(Duration::from_secs(5)).await;
    assert!((4..=7).contains(&count.load(Ordering::SeqCst)));
    let name = "scheduler".try_into().unwrap();
    let record = stage.store.inspect(&name).await.unwrap().unwrap();
    assert!(record.waiting.is_empty());
    campaign.abort();
    drop(leader);
}

#[tokio::test]
async fn a_candidate_that_is_elected_while_it_is_unhealthy_makes_way() {
    let stage = Stage::new();
    // Healthy before the campaign, and not when the lock is granted.
    let (unhealthy, _) = failing_from(election(&stage), 1, || Box::pin(async { false }));
    assert!(unhealthy.try_campaign("one").await.unwrap().is_none());
    assert!(is_free(&stage).await);
}
