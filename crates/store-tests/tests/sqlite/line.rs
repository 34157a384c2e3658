//! The line in a SQLite file: order of service, frozen waiters, and places that are kept or forgotten.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost::backend::Release;
use fencepost::{Backend, Claim};

use crate::support::{LONG, Place, claim, stand_and_freeze, take, until, until_waiting, wait_for};

/// How long only the first waiter may take the lock, and how much longer each further one waits.
const WINDOW: Duration = Duration::from_millis(500);
const NEXT: Duration = Duration::from_micros(62_500);

#[tokio::test]
async fn three_instances_are_served_in_order() {
    let place = Place::new();
    let holder = place.open().await;
    let held = claim("one", LONG);
    let mut last_epoch = take(&holder, &held).await.epoch;
    let (done, mut order) = tokio::sync::mpsc::unbounded_channel();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..6 {
        let store = place.open().await;
        let (mine, done) = (claim("one", LONG), done.clone());
        tasks.spawn({
            let mine = mine.clone();
            async move {
                let grant = wait_for(&store, &mine).await;
                done.send((n, grant.epoch)).unwrap();
                assert_eq!(store.release(&mine).await.unwrap(), Release::Freed);
            }
        });
        until_waiting(&holder, &mine).await;
    }
    let record = holder.inspect(&held.name).await.unwrap().unwrap();
    assert_eq!(record.waiting.len(), 6);
    assert_eq!(record.holder.unwrap().owner, Some(held.owner));
    holder.release(&held).await.unwrap();
    for n in 0..6 {
        let (served, epoch) = order.recv().await.unwrap();
        assert_eq!(served, n);
        assert!(epoch > last_epoch);
        last_epoch = epoch;
    }
    tasks.join_all().await;
    assert_eq!(place.rows(), (0, 0));
}

/// Frees the lock and returns how long the next claim then waited.
async fn next_after(place: &Place, held: &Claim, next: impl Future<Output = ()>) -> Duration {
    let store = place.open().await;
    let start = Instant::now();
    assert_eq!(store.release(held).await.unwrap(), Release::Freed);
    next.await;
    start.elapsed()
}

#[tokio::test]
async fn a_frozen_waiter_costs_a_window_and_not_a_lease() {
    let place = Place::new();
    let (a, b, c) = (place.open().await, place.open().await, place.open().await);
    let held = claim("one", LONG);
    take(&a, &held).await;
    let frozen = claim("one", LONG);
    stand_and_freeze(&b, &frozen).await;
    let alive = claim("one", LONG);
    let waiting = tokio::spawn({
        let alive = alive.clone();
        async move {
            wait_for(&c, &alive).await;
            c
        }
    });
    until_waiting(&a, &alive).await;
    let mut back = None;
    let took = next_after(&place, &held, async { back = Some(waiting.await.unwrap()) }).await;
    assert!(took >= WINDOW && took < LONG / 6, "{took:?}");
    let c = back.unwrap();

    // The frozen claim asks again. It waits like any other, and gets the lock next.
    let again = tokio::spawn(async move {
        wait_for(&b, &frozen).await;
        b.release(&frozen).await.unwrap()
    });
    until(async || place.rows().1 == 1).await;
    c.release(&alive).await.unwrap();
    assert_eq!(again.await.unwrap(), Release::Freed);
    assert_eq!(place.rows(), (0, 0));
}

#[tokio::test]
async fn dead_tickets_do_not_block_one_attempt_for_ever() {
    let place = Place::new();
    let store = place.open().await;
    let held = claim("one", LONG);
    take(&store, &held).await;
    for _ in 0..3 {
        stand_and_freeze(&store, &claim("one", LONG)).await;
    }
    let eager = claim("one", LONG);
    let took = next_after(&place, &held, async {
        until(async || store.try_acquire(&eager).await.unwrap().is_some()).await;
    })
    .await;
    assert!(took >= WINDOW + 2 * NEXT && took < LONG / 6, "{took:?}");
    store.release(&eager).await.unwrap();
    assert_eq!(place.rows(), (0, 0));
}

#[tokio::test]
async fn one_attempt_does_not_overtake_the_line() {
    let place = Place::new();
    let (a, b) = (place.open().await, place.open().await);
    let held = claim("one", LONG);
    take(&a, &held).await;
    stand_and_freeze(&b, &claim("one", LONG)).await;
    a.release(&held).await.unwrap();
    // The lock is free, but a waiter is entitled to it.
    assert_eq!(a.try_acquire(&claim("one", LONG)).await.unwrap(), None);
    let record = a.inspect(&held.name).await.unwrap().unwrap();
    assert_eq!((record.holder, record.waiting.len()), (None, 1));
}

#[tokio::test]
async fn a_waiter_gets_its_own_place_back() {
    let place = Place::new();
    let (a, b) = (place.open().await, place.open().await);
    let held = claim("one", LONG);
    take(&a, &held).await;
    let waiter = claim("one", LONG);
    let waiting = tokio::spawn({
        let waiter = waiter.clone();
        async move { wait_for(&b, &waiter).await }
    });
    until_waiting(&a, &waiter).await;
    let ticket = || {
        let sql = "SELECT ticket FROM fencepost_line WHERE owner = ?1";
        let row = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        place
            .sql()
            .query_row(sql, [waiter.owner.to_string()], row)
            .ok()
    };
    let before = ticket().unwrap();
    stand_and_freeze(&a, &claim("one", LONG)).await;
    // As if a claim behind it had considered it dead.
    place
        .sql()
        .execute("DELETE FROM fencepost_line WHERE ticket = ?1", [before])
        .unwrap();
    until(async || ticket().is_some()).await;
    assert_eq!(ticket().unwrap(), before);
    a.release(&held).await.unwrap();
    waiting.await.unwrap();
}

#[tokio::test]
async fn a_lock_row_deleted_by_hand_does_not_block_the_line() {
    let place = Place::new();
    let (a, b) = (place.open().await, place.open().await);
    let held = claim("one", LONG);
    take(&a, &held).await;
    stand_and_freeze(&a, &claim("one", LONG)).await;
    let waiter = claim("one", LONG);
    let waiting = tokio::spawn({
        let waiter = waiter.clone();
        async move { (wait_for(&b, &waiter).await, b) }
    });
    until_waiting(&a, &waiter).await;
    place
        .sql()
        .execute("DELETE FROM fencepost_lock", [])
        .unwrap();
    let (_, b) = waiting.await.unwrap();
    assert_eq!(a.release(&held).await.unwrap(), Release::NotHeld);
    assert_eq!(b.release(&waiter).await.unwrap(), Release::Freed);
    assert_eq!(place.rows(), (0, 0));
}

#[tokio::test]
async fn waiting_writes_nothing() {
    let place = Place::new();
    let a = Arc::new(place.open().await);
    let held = claim("one", LONG);
    take(&a, &held).await;
    let claims = [(); 4].map(|()| claim("one", LONG));
    let mut tasks = tokio::task::JoinSet::new();
    for mine in claims.clone() {
        let store = place.open().await;
        tasks.spawn(async move { wait_for(&store, &mine).await });
    }
    for mine in &claims {
        until_waiting(&a, mine).await;
    }
    let version = |sql: &rusqlite::Connection| {
        sql.query_row("PRAGMA data_version", [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    let sql = place.sql();
    let before = version(&sql);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(version(&sql), before, "somebody wrote");
    tasks.abort_all();
    while tasks.join_next().await.is_some() {}
    for mine in &claims {
        assert_eq!(a.release(mine).await.unwrap(), Release::NotHeld);
    }
    a.release(&held).await.unwrap();
    assert_eq!(place.rows(), (0, 0));
}

#[tokio::test]
async fn names_of_long_dead_holders_are_forgotten() {
    let place = Place::new();
    let store = place.open().await;
    for n in 0..3 {
        take(
            &store,
            &claim(&format!("order {n}"), Duration::from_millis(1)),
        )
        .await;
    }
    let alive = claim("alive", LONG);
    take(&store, &alive).await;
    drop(place.open().await);
    assert_eq!(place.rows(), (4, 0), "too young");
    // Two hours before the boot, because the machine may have been booted a minute ago.
    place
        .sql()
        .execute(
            "UPDATE fencepost_lock SET expires_ns = -7200000000000 WHERE name LIKE 'order %'",
            [],
        )
        .unwrap();
    drop(place.open().await);
    assert_eq!(place.rows(), (1, 0));
    store.release(&alive).await.unwrap();
}
