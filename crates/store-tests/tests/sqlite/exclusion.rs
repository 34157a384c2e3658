//! Mutual exclusion, expiry and fences of several store instances on one SQLite file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencepost::backend::{Release, Renewal};
use fencepost::stores::sqlite::Sqlite;
use fencepost::{Backend, Effect, ErrorKind, Fence};

use crate::support::{LONG, Place, claim, renew, take, until, wait_for};

#[tokio::test]
async fn two_instances_exclude_each_other() {
    let place = Place::new();
    let (a, b) = (place.open().await, place.open().await);
    let (mine, yours) = (claim("one", LONG), claim("one", LONG));
    let first = take(&a, &mine).await;
    assert_eq!(b.try_acquire(&yours).await.unwrap(), None);
    assert_eq!(a.release(&mine).await.unwrap(), Release::Freed);
    let second = take(&b, &yours).await;
    assert!(second.epoch > first.epoch);
    assert_eq!(a.release(&mine).await.unwrap(), Release::NotHeld);
    assert_eq!(renew(&b, &yours).await.unwrap(), Renewal::Extended);
    assert_eq!(b.release(&yours).await.unwrap(), Release::Freed);
    assert_eq!(place.rows(), (0, 0));
}

#[tokio::test]
async fn the_same_owner_gets_the_same_lease_again() {
    let place = Place::new();
    let (a, b) = (place.open().await, place.open().await);
    let mine = claim("one", LONG);
    let first = take(&a, &mine).await;
    let again = wait_for(&b, &mine).await;
    assert_eq!(again.epoch, first.epoch);
    assert!(again.asked_at > first.asked_at);

    let mut shorter = mine.clone();
    shorter.ttl = Duration::from_millis(1);
    take(&a, &shorter).await;
    assert_eq!(renew(&a, &shorter).await.unwrap(), Renewal::Extended);
    let holder = a
        .inspect(&mine.name)
        .await
        .unwrap()
        .unwrap()
        .holder
        .unwrap();
    assert!(holder.ttl_left.unwrap() > LONG / 2, "{holder:?}");
}

#[tokio::test]
async fn an_expired_lease_lets_the_next_in_and_is_never_revived() {
    let place = Place::new();
    let (a, b) = (place.open().await, place.open().await);
    let (dead, next) = (claim("one", Duration::from_millis(50)), claim("one", LONG));
    let first = take(&a, &dead).await;
    let second = wait_for(&b, &next).await;
    assert!(second.epoch > first.epoch);
    assert!(second.asked_at >= first.asked_at + first.lease);
    assert_eq!(renew(&a, &dead).await.unwrap(), Renewal::Lost);
    assert_eq!(a.release(&dead).await.unwrap(), Release::NotHeld);
    assert_eq!(a.try_acquire(&dead).await.unwrap(), None);
    assert_eq!(renew(&b, &next).await.unwrap(), Renewal::Extended);
}

#[tokio::test]
async fn an_ended_lease_stays_ended_although_nobody_took_the_lock() {
    let place = Place::new();
    let store = place.open().await;
    let mine = claim("one", Duration::from_millis(20));
    let first = take(&store, &mine).await;
    until(async || store.inspect(&mine.name).await.unwrap().is_none()).await;
    assert_eq!(renew(&store, &mine).await.unwrap(), Renewal::Lost);
    let second = take(&store, &mine).await;
    assert!(second.epoch > first.epoch, "a new lease, not the old one");
    until(async || store.inspect(&mine.name).await.unwrap().is_none()).await;
    assert_eq!(store.release(&mine).await.unwrap(), Release::NotHeld);
    assert_eq!(place.rows(), (0, 0));
}

#[tokio::test]
async fn a_batch_of_renewals_is_answered_in_order() {
    let place = Place::new();
    let store = place.open().await;
    let claims: Vec<_> = (0..5).map(|n| claim(&format!("lock {n}"), LONG)).collect();
    for held in [0, 1, 3] {
        take(&store, &claims[held]).await;
    }
    let renewals: Vec<_> = store
        .renew(&claims)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    use Renewal::{Extended, Lost};
    assert_eq!(renewals, [Extended, Extended, Lost, Extended, Lost]);
    assert!(store.renew(&[]).await.is_empty());
}

/// The increments are not atomic, so only the lock prevents lost updates.
#[tokio::test(flavor = "multi_thread")]
async fn unprotected_increments_under_the_lock_are_all_there() {
    const INSTANCES: u64 = 4;
    const ROUNDS: u64 = 25;
    let place = Place::new();
    let counter = Arc::new(AtomicU64::new(0));
    let highest = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..INSTANCES {
        let store = place.open().await;
        let (counter, highest) = (Arc::clone(&counter), Arc::clone(&highest));
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let mine = claim("counter", LONG);
                let grant = wait_for(&store, &mine).await;
                let read = counter.load(Ordering::Relaxed);
                tokio::task::yield_now().await;
                counter.store(read + 1, Ordering::Relaxed);
                let before = highest.swap(grant.epoch, Ordering::Relaxed);
                assert!(before < grant.epoch, "fences grow in the order of holding");
                store.release(&mine).await.unwrap();
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    assert_eq!(counter.load(Ordering::Relaxed), INSTANCES * ROUNDS);
    assert_eq!(place.rows(), (0, 0));
}

#[tokio::test]
async fn hostile_names_are_only_names() {
    let place = Place::new();
    let store = place.open().await;
    let longest = "é".repeat(127);
    let names = [
        "'; DROP TABLE fencepost_lock; --",
        "\" OR 1=1 --",
        "%",
        "_",
        "one",
        "ONE",
        "one ",
        " ",
        "../../etc/passwd",
        "ключ 锁 🔒",
        "?1",
        ":name",
        &longest,
    ];
    let claims = names.map(|name| claim(name, LONG));
    for claim in &claims {
        take(&store, claim).await;
        let holder = store
            .inspect(&claim.name)
            .await
            .unwrap()
            .unwrap()
            .holder
            .unwrap();
        assert_eq!(holder.owner, Some(claim.owner));
        assert_eq!(holder.label, claim.label);
    }
    assert_eq!(place.rows(), (names.len() as i64, 0));
    for claim in &claims {
        assert_eq!(store.release(claim).await.unwrap(), Release::Freed);
    }
    assert_eq!(place.rows(), (0, 0));
}

#[tokio::test]
async fn a_new_file_starts_where_it_is_told_to() {
    let place = Place::new();
    let open = |first| Sqlite::builder(&place.path).first_epoch(first).open();
    let store = open(42).await.unwrap();
    let mine = claim("one", LONG);
    assert_eq!(take(&store, &mine).await.epoch, 42);
    store.release(&mine).await.unwrap();
    // An existing file keeps its counter.
    let store = open(7).await.unwrap();
    assert_eq!(take(&store, &claim("two", LONG)).await.epoch, 43);
}

#[tokio::test]
async fn a_new_file_starts_later_than_the_one_before_it() {
    let place = Place::new();
    let first = take(&place.open().await, &claim("one", LONG)).await;
    let other = Place::new();
    let second = take(&other.open().await, &claim("one", LONG)).await;
    assert!(second.epoch > first.epoch && second.epoch < Fence::EPOCH_END);
}

#[tokio::test]
async fn an_exhausted_fence_grants_nothing() {
    let place = Place::new();
    let last = Fence::EPOCH_END - 1;
    let store = Sqlite::builder(&place.path)
        .first_epoch(last)
        .open()
        .await
        .unwrap();
    let holder = claim("one", LONG);
    assert_eq!(take(&store, &holder).await.epoch, last);

    let error = store.try_acquire(&claim("two", LONG)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FenceExhausted);
    assert_eq!(error.effect(), Effect::None);
    // A waiter learns it when its turn would come.
    let waiter = claim("one", LONG);
    let wait = fencepost::backend::Wait::default();
    let (waited, released) = tokio::join!(store.acquire(&waiter, &wait), async {
        crate::support::until_waiting(&store, &waiter).await;
        store.release(&holder).await
    });
    assert_eq!(released.unwrap(), Release::Freed);
    let error = waited.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FenceExhausted);
    assert_eq!(error.effect(), Effect::None);
    assert_eq!(place.rows(), (0, 0));
}

#[test]
fn it_opens_without_a_runtime() {
    let place = Place::new();
    let store = Sqlite::open_blocking(&place.path).unwrap();
    assert_eq!(store.path(), place.path);
    let relative = Sqlite::open_blocking("").unwrap_err();
    assert_eq!(relative.kind(), ErrorKind::InvalidInput);
}
