//! Tests of a locker outside of a runtime, and after its runtime has ended.

use super::*;

#[test]
fn outside_a_runtime_there_is_an_error_not_a_panic() {
    let locker = Locker::new(Arc::new(Memory::new()));
    let answer = futures_util::FutureExt::now_or_never(locker.try_acquire("a"));
    let error = answer.expect("at once").expect_err("no runtime");
    assert_eq!(error.kind(), ErrorKind::WrongContext);
}

#[test]
fn a_guard_outside_a_runtime_returns_errors_and_is_released_in_the_background() {
    let runtime = runtime();
    // With the real clock, waiting for the store outside a runtime would panic.
    let store = FlakyStore::new(Arc::new(Memory::new()));
    let locker = Locker::new(store.clone());
    let guard = runtime.block_on(locker.acquire("a")).expect("a free lock");
    let other = runtime.block_on(locker.acquire("b")).expect("a free lock");

    store.fail_next(Operation::Renew, Fault::Swallow);
    let answer = futures_util::FutureExt::now_or_never(guard.extend(TTL));
    let error = answer.expect("at once").expect_err("no runtime");
    assert_eq!(
        (error.kind(), error.operation()),
        (ErrorKind::WrongContext, Operation::Renew)
    );

    let outcome = futures_util::FutureExt::now_or_never(guard.release());
    match outcome.expect("at once") {
        ReleaseOutcome::Unknown(error) => assert_eq!(error.kind(), ErrorKind::WrongContext),
        outcome => panic!("{outcome:?}"),
    }
    let again = runtime.block_on(locker.try_acquire("a"));
    assert!(again.expect("an answer").is_some(), "released meanwhile");

    store.fail_next(Operation::Release, Fault::Swallow);
    futures_util::FutureExt::now_or_never(locker.shutdown()).expect("does not wait");
    assert!(other.is_lost());
}

#[test]
fn a_new_runtime_takes_over_from_one_that_ended() {
    let stage = Stage::new();
    let first = runtime();
    let kept = first.block_on(stage.take("kept"));
    let left = first.block_on(stage.take("left"));
    first.shutdown_timeout(Duration::from_secs(5));
    // There is no runtime to release it. The drop neither panics nor blocks, and the TTL ends the lock.
    drop(left);
    runtime().block_on(async {
        let mut again = Box::pin(stage.locker.acquire("left"));
        assert!(futures_util::poll!(&mut again).is_pending());
        // The new housekeeper renews what the old one left.
        let mut waited = Duration::ZERO;
        let again = loop {
            if let std::task::Poll::Ready(guard) = futures_util::poll!(&mut again) {
                break guard.expect("an answer");
            }
            stage.pass(Duration::from_millis(500)).await;
            waited += Duration::from_millis(500);
            assert!(waited <= TTL * 2, "left for ever");
        };
        assert!(
            waited >= TTL - Duration::from_millis(500),
            "nobody released it earlier"
        );
        stage.pass(TTL * 3).await;
        assert!(!kept.is_lost() && !again.is_lost());
    });
}

#[test]
fn a_runtime_that_is_shutting_down_is_not_taken_for_a_housekeeper() {
    let stage = Stage::new();
    let ending = runtime();
    let handle = ending.handle().clone();
    ending.shutdown_background();
    {
        // A task that is spawned here is dropped inside `spawn`.
        let _inside = handle.enter();
        let asked = futures_util::FutureExt::now_or_never(stage.take("left"));
        drop(asked.expect("memory answers at once"));
    }
    runtime().block_on(async {
        let kept = stage.take("kept").await;
        drop(stage.take("dropped").await);
        settle().await;
        assert!(stage.is_free("dropped").await, "nobody gives anything back");
        stage.pass(TTL * 2).await;
        assert!(!kept.is_lost(), "nobody renews it");
    });
}
