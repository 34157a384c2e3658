//! Requirements on a `Guard` on the store: keep-alive, loss, extension, re-entry.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::locker::{build, locker, take};
use super::{ALWAYS, LEASES, LONG, SHORT, StoreUnderTest, fresh_name, soon, table};
use crate::claim::Claim;
use crate::engine::ReleaseOutcome;
use crate::error::ErrorKind;
use crate::lease::LostReason;
use crate::locker::Locker;

table! {
    a_guard_is_kept_alive_beyond_its_ttl: LEASES,
    without_keep_alive_a_hold_ends_with_its_ttl: LEASES,
    a_forced_release_is_noticed: LEASES,
    work_stops_when_the_lock_is_lost: LEASES,
    a_guard_can_be_extended: LEASES,
    an_unused_guard_gives_the_lock_back_when_dropped: ALWAYS,
    re_entry_holds_until_the_last_one_is_out: ALWAYS,
}

async fn a_guard_is_kept_alive_beyond_its_ttl(store: StoreUnderTest) {
    // Long enough for a slow machine to renew in time.
    const TTL: Duration = Duration::from_secs(1);
    let (mine, rival) = (locker(&store.one, TTL), locker(&store.other, TTL));
    for _ in 0..10 {
        let name = fresh_name("kept");
        let guard = take(&mine, &name).await;
        let got = rival
            .acquire_within(&name, TTL * 3)
            .await
            .expect("an answer");
        if !guard.is_lost() {
            assert!(got.is_none(), "granted to another while kept alive");
            drop(guard);
            drop(take(&rival, &name).await);
            return;
        }
        // If the machine stood still for a second, the guard reports it, and the attempt proves nothing.
        assert_eq!(guard.lost().await.reason(), LostReason::Expired);
    }
    panic!("lost its lease ten times in a row");
}

async fn without_keep_alive_a_hold_ends_with_its_ttl(store: StoreUnderTest) {
    let name = fresh_name("not-kept");
    let mine = build(
        Locker::builder(store.one.clone())
            .ttl(SHORT)
            .keep_alive(false),
    );
    let rival = locker(&store.other, LONG);
    let guard = take(&mine, &name).await;
    assert!(guard.valid_for() <= SHORT);
    let next = take(&rival, &name).await;
    assert!(
        guard.is_lost(),
        "belief ends before the store gives the lock to another"
    );
    assert_eq!(guard.valid_for(), Duration::ZERO);
    assert_eq!(guard.lost().await.reason(), LostReason::Expired);
    assert!(next.fence() > guard.fence());
    assert!(matches!(guard.release().await, ReleaseOutcome::AlreadyLost));
    assert!(!next.is_lost());
    assert!(next.release().await.is_released());
}

async fn a_forced_release_is_noticed(store: StoreUnderTest) {
    let mine = locker(&store.one, Duration::from_secs(1));
    for _ in 0..10 {
        let name = fresh_name("forced");
        let guard = take(&mine, &name).await;
        let claim = Claim::new(name, guard.owner(), LONG).with_label("operator");
        store.other.release(&claim).await.expect("an answer");
        let reason = soon("the loss is told", guard.lost()).await.reason();
        assert!(guard.is_lost());
        assert!(matches!(guard.release().await, ReleaseOutcome::AlreadyLost));
        if reason == LostReason::Gone {
            return;
        }
        // If the machine stood still for the whole TTL, the store had no chance to report the release.
        assert_eq!(reason, LostReason::Expired);
    }
    panic!(
        "the store did not report a forced release before the end of the lease, ten times in a row"
    );
}

async fn work_stops_when_the_lock_is_lost(store: StoreUnderTest) {
    let name = fresh_name("stops");
    let mine = build(
        Locker::builder(store.one.clone())
            .ttl(SHORT)
            .keep_alive(false),
    );
    let guard = take(&mine, &name).await;
    let steps = AtomicU64::new(0);
    let work = async {
        loop {
            steps.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let stopped: Result<(), _> = soon("the work is stopped", guard.run(work)).await;
    assert_eq!(stopped.expect_err("lost").reason(), LostReason::Expired);
    let steps_done = steps.load(Ordering::Relaxed);
    assert!(steps_done > 0);
    let next = take(&locker(&store.other, LONG), &name).await;
    assert_eq!(steps.load(Ordering::Relaxed), steps_done);
    drop(next);
}

async fn a_guard_can_be_extended(store: StoreUnderTest) {
    let name = fresh_name("extended");
    let mine = build(
        Locker::builder(store.one.clone())
            .ttl(Duration::from_secs(2))
            .keep_alive(false),
    );
    let guard = take(&mine, &name).await;
    guard.extend(LONG).await.expect("an answer");
    assert!(guard.valid_for() > LONG / 2);
    guard
        .extend(Duration::from_secs(1))
        .await
        .expect("an answer");
    assert!(guard.valid_for() > LONG / 2, "never shortened");
    assert_eq!(
        guard
            .extend(Duration::ZERO)
            .await
            .expect_err("too short")
            .kind(),
        ErrorKind::InvalidInput
    );
    assert!(guard.release().await.is_released());
}

async fn an_unused_guard_gives_the_lock_back_when_dropped(store: StoreUnderTest) {
    let name = fresh_name("dropped");
    let (mine, rival) = (locker(&store.one, LONG), locker(&store.other, LONG));
    drop(take(&mine, &name).await);
    assert!(take(&rival, &name).await.release().await.is_released());
}

async fn re_entry_holds_until_the_last_one_is_out(store: StoreUnderTest) {
    let name = fresh_name("re-entry");
    let (mine, rival) = (locker(&store.one, LONG), locker(&store.other, LONG));
    let outer = take(&mine, &name).await;
    assert!(
        mine.try_acquire(&name).await.expect("an answer").is_none(),
        "re-entry is explicit"
    );
    let inner = outer.reenter();
    assert_eq!(inner.fence(), outer.fence());
    assert!(matches!(outer.release().await, ReleaseOutcome::StillHeld));
    assert!(rival.try_acquire(&name).await.expect("an answer").is_none());
    assert!(inner.release().await.is_released());
    assert!(rival.try_acquire(&name).await.expect("an answer").is_some());
}
