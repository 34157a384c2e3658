//! Requirements on semaphores: as many permits as there are, each with a slot of its own, in order of arrival.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{NOT_LONG, Stage, got, take};
use crate::claim::Part;
use crate::conformance::{LONG, SHARES, SHORT, StoreUnderTest, eventually, soon, table};
use crate::credential::Credential;
use crate::engine::ReleaseOutcome;
use crate::error::ErrorKind;
use crate::fence::Fence;
use crate::kinds::Semaphore;
use crate::lease::LostReason;
use crate::mutex::lock;

table! {
    permits_are_given_out_until_none_is_left: SHARES,
    a_semaphore_and_a_lock_of_one_name_are_apart: SHARES,
    a_name_is_of_one_kind: SHARES,
    no_two_holders_have_the_same_slot: SHARES,
    every_slot_sees_growing_fences: SHARES,
    waiters_for_permits_are_served_in_order: SHARES,
    permits_are_kept_alive_beyond_their_ttl: SHARES,
    a_permit_that_ends_is_lost_and_granted_to_another: SHARES,
    a_permit_that_is_released_by_force_is_lost: SHARES,
    inspect_shows_every_permit: SHARES,
    a_shutdown_gives_permits_back: SHARES,
}

async fn permits_are_given_out_until_none_is_left(store: StoreUnderTest) {
    let stage = Stage::new(&store, "permits");
    let [one, other] = stage.semaphores(2);
    assert_eq!(one.available().await.expect("an answer"), 2);
    let first = take(&one, 1).await;
    let second = take(&other, 1).await;
    assert!(
        first.slots().eq([0]) && second.slots().eq([1]),
        "the lowest free slots"
    );
    assert!(second.fence() > first.fence());
    for semaphore in [&one, &other] {
        assert!(
            got(semaphore.try_acquire(1).await).is_none(),
            "more than there are"
        );
        assert!(got(semaphore.acquire_within(1, NOT_LONG).await).is_none());
        assert_eq!(semaphore.permits().await.expect("an answer"), 2);
        assert_eq!(semaphore.available().await.expect("an answer"), 0);
    }
    // Whoever gave up waiting leaves the line in the background.
    stage.until_waiting(0).await;
    assert!(first.release().await.is_released());
    let third = got(other.try_acquire(1).await).expect("a free permit");
    assert!(third.slots().eq([0]) && third.fence() > second.fence());
    drop((second, third));
    stage.until_nothing_is_left().await;
}

async fn a_semaphore_and_a_lock_of_one_name_are_apart(store: StoreUnderTest) {
    let stage = Stage::new(&store, "apart");
    let [one, _] = stage.semaphores(1);
    let permit = take(&one, 1).await;
    let lock = got(stage.other.try_acquire(&stage.name).await);
    assert!(lock.is_some(), "the lock of the same name is free");
    drop((permit, lock));
}

async fn a_name_is_of_one_kind(store: StoreUnderTest) {
    let stage = Stage::new(&store, "kind");
    let [one, _] = stage.semaphores(1);
    drop(take(&one, 1).await);
    let [lock, other] = stage.rw_locks();
    for refused in [lock.read().await.err(), other.try_read().await.err()] {
        let error = refused.expect("the name of a semaphore");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.message().contains("semaphore already"), "{error}");
    }
    let too_many = one.acquire(2).await.expect_err("more than there are");
    assert_eq!(too_many.kind(), ErrorKind::InvalidInput);
}

/// Lets tasks on both connections take and release permits, and calls `hold` whenever one of them has some.
async fn under_load(
    stage: &Stage,
    permits: u32,
    hold: impl Fn(&crate::kinds::Permit) + Send + Sync + 'static,
) {
    const TASKS: u32 = 6;
    const TURNS: u32 = 12;
    let hold = Arc::new(hold);
    let semaphores = stage.semaphores(permits);
    let tasks = (0..TASKS).map(|task| {
        let (semaphore, hold) = (semaphores[task as usize % 2].clone(), hold.clone());
        tokio::spawn(async move {
            for turn in 0..TURNS {
                let count = 1 + (task + turn) % permits.min(2);
                let permit = take(&semaphore, count).await;
                assert_eq!(permit.slots().count() as u32, count);
                hold(&permit);
                tokio::task::yield_now().await;
                hold(&permit);
                assert!(permit.release().await.is_released());
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        soon("all turns", task).await.expect("no panic");
    }
    stage.until_nothing_is_left().await;
}

async fn no_two_holders_have_the_same_slot(store: StoreUnderTest) {
    const PERMITS: u32 = 3;
    let stage = Stage::new(&store, "slots");
    let holders: Arc<Mutex<BTreeMap<u32, Fence>>> = Arc::default();
    let out = holders.clone();
    under_load(&stage, PERMITS, move |permit| {
        let mut holders = lock(&holders);
        for slot in permit.slots() {
            assert!(slot < PERMITS);
            match holders.remove(&slot) {
                None => drop(holders.insert(slot, permit.fence())),
                Some(holder) => assert_eq!(holder, permit.fence(), "slot {slot} has one holder"),
            }
        }
    })
    .await;
    assert!(lock(&out).is_empty());
}

async fn every_slot_sees_growing_fences(store: StoreUnderTest) {
    let stage = Stage::new(&store, "slot-fences");
    let highest: Mutex<BTreeMap<u32, Credential>> = Mutex::default();
    under_load(&stage, 2, move |permit| {
        for (slot, credential) in permit.credentials() {
            let mut highest = lock(&highest);
            let before = highest.insert(slot, credential);
            let follows =
                |before: Credential| before == credential || before.fence < credential.fence;
            assert!(
                before.is_none_or(follows),
                "slot {slot}: {credential:?} after {before:?}"
            );
        }
    })
    .await;
}

async fn waiters_for_permits_are_served_in_order(store: StoreUnderTest) {
    // A waiter that does not answer for a while is passed over, because it may be dead. On a slow machine that may be any waiter.
    for _ in 0..10 {
        let stage = Stage::new(&store, "permit-order");
        let semaphores = stage.semaphores(1);
        let first = take(&semaphores[0], 1).await;
        let served = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for number in 0..6 {
            let (semaphore, served) = (semaphores[number % 2].clone(), served.clone());
            tasks.push(tokio::spawn(async move {
                let permit = take(&semaphore, 1).await;
                let at = std::time::Instant::now();
                lock(&served).push((number, permit.fence(), at));
                drop(permit);
            }));
            stage.until_waiting(number + 1).await;
        }
        drop(first);
        for task in tasks {
            soon("everybody is served", task).await.expect("no panic");
        }
        let served = lock(&served);
        let was_slow = served
            .windows(2)
            .any(|pair| pair[1].2 - pair[0].2 > Duration::from_millis(200));
        let in_order = served.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1);
        assert!(in_order || was_slow, "first come, first served: {served:?}");
        if in_order {
            return;
        }
    }
    panic!("out of order ten times, each time with a turn of more than 200 ms");
}

async fn permits_are_kept_alive_beyond_their_ttl(store: StoreUnderTest) {
    // Long enough for a slow machine to renew in time.
    const TTL: Duration = Duration::from_secs(1);
    for _ in 0..10 {
        let stage = Stage::with(&store, "kept", |settings| settings.ttl(TTL));
        let [one, other] = stage.semaphores(2);
        let permits = [take(&one, 1).await, take(&one, 1).await];
        let got = got(other.acquire_within(1, TTL * 2).await);
        if permits.iter().all(|permit| !permit.is_lost()) {
            assert!(got.is_none(), "granted to another while kept alive");
            return;
        }
        // If the machine stood still for a second, the permit reports it, and the attempt proves nothing.
    }
    panic!("lost a permit ten times in a row");
}

async fn a_permit_that_ends_is_lost_and_granted_to_another(store: StoreUnderTest) {
    let set = |settings: crate::LockerBuilder| settings.ttl(SHORT).keep_alive(false);
    let stage = Stage::with(&store, "ends", set);
    let [one, other] = stage.semaphores(1);
    let permit = take(&one, 1).await;
    assert!(permit.valid_for() <= SHORT);
    let next = take(&other, 1).await;
    assert!(
        permit.is_lost(),
        "belief ends before the permit is granted to another"
    );
    assert_eq!(permit.lost().await.reason(), LostReason::Expired);
    assert!(next.fence() > permit.fence());
    assert!(matches!(
        permit.release().await,
        ReleaseOutcome::AlreadyLost
    ));
}

async fn a_permit_that_is_released_by_force_is_lost(store: StoreUnderTest) {
    const TTL: Duration = Duration::from_secs(1);
    for _ in 0..10 {
        let stage = Stage::with(&store, "forced", |settings| settings.ttl(TTL));
        let [one, _] = stage.semaphores(2);
        let (permit, kept) = (take(&one, 1).await, take(&one, 1).await);
        let (_, shares) = stage.other.shares().expect("records");
        let claim = crate::Claim::new(stage.name.clone(), permit.owner(), LONG);
        crate::Backend::release(&*shares, &claim)
            .await
            .expect("an answer");
        let reason = soon("the loss is told", permit.lost()).await.reason();
        if reason == LostReason::Gone {
            assert!(!kept.is_lost(), "the other permit is not concerned");
            return;
        }
        // If the machine stood still for the whole TTL, the store had no chance to report the release.
        assert_eq!(reason, LostReason::Expired);
    }
    panic!("the store did not report a forced release ten times in a row");
}

async fn inspect_shows_every_permit(store: StoreUnderTest) {
    let stage = Stage::with(&store, "shown", |settings| settings.ttl(LONG).label("ci-7"));
    let [one, other] = stage.semaphores(3);
    let (first, second) = (take(&one, 2).await, take(&other, 1).await);
    let waiting = waiting(&other, 3);
    stage.until_waiting(1).await;
    let record = stage.record().await.expect("held permits");
    let shown = |part: Part| matches!(part, Part::Permits { of: 3, .. });
    let holders: Vec<_> = record.holders().collect();
    assert_eq!(holders.len(), 2);
    for (holder, permit) in holders.into_iter().zip([&first, &second]) {
        assert_eq!(holder.owner, Some(permit.owner()));
        assert_eq!(holder.epoch, Some(permit.fence().epoch()));
        assert!(holder.slots.iter().copied().eq(permit.slots()));
        assert_eq!(&*holder.label, "ci-7", "the holder's label");
        assert!(shown(holder.part) && holder.ttl_left <= Some(LONG));
    }
    assert_eq!(&*record.waiting[0].label, "ci-7");
    assert_eq!(record.waiting[0].part, Part::Permits { count: 3, of: 3 });
    waiting.abort();
    let (_, shares) = stage.other.shares().expect("records");
    let listed = crate::Backend::list(&*shares, Some(stage.name.as_str())).await;
    let listed = listed.expect("an answer");
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].record.holders().count(), 2);
}

fn waiting(semaphore: &Semaphore, count: u32) -> tokio::task::JoinHandle<()> {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { drop(semaphore.acquire(count).await) })
}

async fn a_shutdown_gives_permits_back(store: StoreUnderTest) {
    let stage = Stage::new(&store, "shutdown");
    let [one, other] = stage.semaphores(2);
    let permits = [take(&one, 1).await, take(&one, 1).await];
    let waits = {
        let one = one.clone();
        tokio::spawn(async move { one.acquire(1).await })
    };
    stage.until_waiting(1).await;
    soon("the shutdown", stage.one.shutdown()).await;
    for permit in &permits {
        assert_eq!(permit.lost().await.reason(), LostReason::Shutdown);
    }
    let waited = soon("the waiter is told", waits).await.expect("no panic");
    assert_eq!(waited.expect_err("closed").kind(), ErrorKind::Closed);
    assert_eq!(
        one.try_acquire(1).await.expect_err("closed").kind(),
        ErrorKind::Closed
    );
    let both = take(&other, 2).await;
    let slots: BTreeSet<u32> = both.slots().collect();
    assert_eq!(slots, BTreeSet::from([0, 1]));
    eventually("nobody waits", || async {
        stage
            .record()
            .await
            .is_some_and(|record| record.waiting.is_empty())
    })
    .await;
}
