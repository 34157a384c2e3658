//! Requirements on a `Locker` on the store: exclusion under load, order, timeouts, shutdown.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{ALWAYS, FIFO, LONG, StoreUnderTest, eventually, fresh_name, soon, table};
use crate::backend::Backend;
use crate::claim::LockName;
use crate::error::ErrorKind;
use crate::guard::Guard;
use crate::lease::LostReason;
use crate::line::HandOver;
use crate::locker::{Locker, LockerBuilder};

table! {
    no_update_is_lost_under_load: ALWAYS,
    fences_grow_in_hold_order: ALWAYS,
    tasks_are_served_in_order: ALWAYS,
    other_processes_get_their_turn: FIFO,
    tasks_hand_on_what_they_waited_for: FIFO,
    without_hand_over_the_order_holds_across_lockers: FIFO,
    a_timeout_is_not_an_error: ALWAYS,
    a_shutdown_gives_everything_back: ALWAYS,
    names_in_crossed_orders_all_get_through: ALWAYS,
}

pub(super) fn build(settings: LockerBuilder) -> Locker {
    settings.build().expect("valid settings")
}

pub(super) fn locker(backend: &Arc<dyn Backend>, ttl: Duration) -> Locker {
    build(Locker::builder(backend.clone()).ttl(ttl))
}

pub(super) async fn take(locker: &Locker, name: &LockName) -> Guard {
    let guard = soon("a grant", locker.acquire(name)).await;
    guard.expect("an answer")
}

async fn no_update_is_lost_under_load(store: StoreUnderTest) {
    const TASKS: u64 = 8;
    const TURNS: u64 = 25;
    let name = fresh_name("load");
    let counter = Arc::new(AtomicU64::new(0));
    let lockers =
        [&store.one, &store.other, &store.one, &store.other].map(|backend| locker(backend, LONG));
    let mut tasks = Vec::new();
    for task in 0..TASKS {
        let (name, counter) = (name.clone(), counter.clone());
        let locker = lockers[task as usize % lockers.len()].clone();
        tasks.push(tokio::spawn(async move {
            for _ in 0..TURNS {
                let guard = locker.acquire(&name).await.expect("an answer");
                let seen = counter.load(Ordering::Relaxed);
                tokio::task::yield_now().await;
                counter.store(seen + 1, Ordering::Relaxed);
                assert!(guard.release().await.is_released());
            }
        }));
    }
    for task in tasks {
        soon("all turns", task).await.expect("no panic");
    }
    assert_eq!(
        counter.load(Ordering::Relaxed),
        TASKS * TURNS,
        "no update is lost"
    );
}

async fn fences_grow_in_hold_order(store: StoreUnderTest) {
    let name = fresh_name("fences");
    let fences = Arc::new(Mutex::new(Vec::new()));
    let lockers = [locker(&store.one, LONG), locker(&store.other, LONG)];
    let mut tasks = Vec::new();
    for task in 0..6 {
        let (name, fences, locker) = (name.clone(), fences.clone(), lockers[task % 2].clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..20 {
                let guard = locker.acquire(&name).await.expect("an answer");
                fences.lock().expect("not poisoned").push(guard.fence());
                drop(guard);
            }
        }));
    }
    for task in tasks {
        soon("all turns", task).await.expect("no panic");
    }
    let fences = fences.lock().expect("not poisoned");
    assert_eq!(fences.len(), 120);
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

async fn tasks_are_served_in_order(store: StoreUnderTest) {
    const TASKS: usize = 100;
    let name = fresh_name("task-order");
    let locker = locker(&store.one, LONG);
    let first = take(&locker, &name).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..TASKS {
        let mut waiting = Box::pin({
            let (locker, name, order) = (locker.clone(), name.clone(), order.clone());
            async move {
                let guard = locker.acquire(&name).await.expect("an answer");
                order.lock().expect("not poisoned").push(number);
                drop(guard);
            }
        });
        // The future joins the line at its first poll.
        assert!(futures_util::poll!(&mut waiting).is_pending());
        tasks.push(tokio::spawn(waiting));
    }
    drop(first);
    for task in tasks {
        soon("everybody is served", task).await.expect("no panic");
    }
    let order = order.lock().expect("not poisoned");
    assert_eq!(
        *order,
        (0..TASKS).collect::<Vec<_>>(),
        "first come, first served"
    );
}

async fn other_processes_get_their_turn(store: StoreUnderTest) {
    let name = fresh_name("turns");
    let greedy = Locker::builder(store.one.clone()).ttl(LONG);
    let greedy = build(greedy.hand_over(HandOver::new().max_turns(4).max_time(LONG)));
    let modest = locker(&store.other, LONG);
    let first = take(&greedy, &name).await;
    let served = Arc::new(Mutex::new(Vec::new()));
    let other_process = {
        let (modest, name, served) = (modest.clone(), name.clone(), served.clone());
        tokio::spawn(async move {
            let guard = modest.acquire(&name).await.expect("an answer");
            served.lock().expect("not poisoned").push("other process");
            drop(guard);
        })
    };
    eventually("the other process stands in line", || async {
        let record = store.one.inspect(&name).await.expect("an answer");
        record.is_some_and(|record| !record.waiting.is_empty())
    })
    .await;
    let mut tasks = Vec::new();
    for _ in 0..20 {
        let (greedy, name, served) = (greedy.clone(), name.clone(), served.clone());
        tasks.push(tokio::spawn(async move {
            let guard = greedy.acquire(&name).await.expect("an answer");
            served.lock().expect("not poisoned").push("sibling");
            drop(guard);
        }));
        tokio::task::yield_now().await;
    }
    drop(first);
    for task in tasks.into_iter().chain([other_process]) {
        soon("everybody is served", task).await.expect("no panic");
    }
    let served = served.lock().expect("not poisoned");
    let before = served
        .iter()
        .position(|who| *who == "other process")
        .expect("served");
    assert!(
        before <= 4,
        "{before} siblings were served first, at most 4 are allowed"
    );
}

/// A store may grant a waiter a short lease at first. That is no reason to release the lock after every hold.
async fn tasks_hand_on_what_they_waited_for(store: StoreUnderTest) {
    const TASKS: usize = 8;
    const TURNS: usize = 10;
    let name = fresh_name("handed-on");
    let lockers = [&store.one, &store.other].map(|backend| {
        let settings = Locker::builder(backend.clone()).ttl(LONG);
        build(settings.hand_over(HandOver::new().max_turns(7).max_time(LONG)))
    });
    let first = take(&lockers[0], &name).await;
    let leases = Arc::new(Mutex::new(BTreeSet::new()));
    let mut tasks = Vec::new();
    for task in 0..2 * TASKS {
        let mut turns = Box::pin({
            let (locker, name, leases) = (lockers[task % 2].clone(), name.clone(), leases.clone());
            async move {
                for _ in 0..TURNS {
                    let guard = locker.acquire(&name).await.expect("an answer");
                    let lease = guard.fence().epoch();
                    leases.lock().expect("not poisoned").insert(lease);
                    drop(guard);
                }
            }
        });
        // The futures join the line at their first poll, so no task is alone.
        assert!(futures_util::poll!(&mut turns).is_pending());
        tasks.push(tokio::spawn(turns));
    }
    drop(first);
    for task in tasks {
        soon("all turns", task).await.expect("no panic");
    }
    let holds = 2 * TASKS * TURNS;
    let leases = leases.lock().expect("not poisoned").len();
    // Eight holds each would be 20 or 21 leases. A machine that stands still for part of a short lease needs more.
    assert!(leases <= holds / 5, "{holds} holds took {leases} leases");
}

async fn without_hand_over_the_order_holds_across_lockers(store: StoreUnderTest) {
    let name = fresh_name("strict");
    let lockers = [&store.one, &store.other].map(|backend| {
        build(
            Locker::builder(backend.clone())
                .ttl(LONG)
                .without_hand_over(),
        )
    });
    let first = take(&lockers[0], &name).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..6 {
        // First two tasks of one locker, then two of the other.
        let (locker, wanted, order) =
            (lockers[number / 2 % 2].clone(), name.clone(), order.clone());
        tasks.push(tokio::spawn(async move {
            let guard = locker.acquire(wanted).await.expect("an answer");
            order.lock().expect("not poisoned").push(number);
            drop(guard);
        }));
        eventually("it stands in line", || async {
            let record = store.one.inspect(&name).await.expect("an answer");
            record.is_some_and(|record| record.waiting.len() == number + 1)
        })
        .await;
    }
    drop(first);
    for task in tasks {
        soon("everybody is served", task).await.expect("no panic");
    }
    let order = order.lock().expect("not poisoned");
    assert_eq!(*order, [0, 1, 2, 3, 4, 5], "first come, first served");
}

async fn a_timeout_is_not_an_error(store: StoreUnderTest) {
    let name = fresh_name("timeout");
    let (mine, rival) = (locker(&store.one, LONG), locker(&store.other, LONG));
    let guard = take(&mine, &name).await;
    // Both at the store and in the local line; long enough for a slow store to give its first answer.
    for locker in [&mine, &rival] {
        let answer = locker
            .acquire_within(&name, Duration::from_millis(500))
            .await;
        assert!(answer.expect("not an error").is_none());
        let answer = locker.acquire_within(&name, Duration::ZERO).await;
        assert!(answer.expect("not an error").is_none());
    }
    assert!(guard.release().await.is_released());
    eventually("nobody is left in line", || async {
        store.one.inspect(&name).await.expect("an answer").is_none()
    })
    .await;
}

async fn a_shutdown_gives_everything_back(store: StoreUnderTest) {
    let name = fresh_name("shutdown");
    let (mine, rival) = (locker(&store.one, LONG), locker(&store.other, LONG));
    let guard = take(&mine, &name).await;
    let sibling = {
        let (mine, name) = (mine.clone(), name.clone());
        tokio::spawn(async move { mine.acquire(&name).await })
    };
    let foreign_name = fresh_name("shutdown-foreign");
    let foreign = take(&rival, &foreign_name).await;
    let asker = {
        let (mine, name) = (mine.clone(), foreign_name.clone());
        tokio::spawn(async move { mine.acquire(&name).await })
    };
    tokio::task::yield_now().await;
    soon("the shutdown", mine.shutdown()).await;
    assert!(guard.is_lost());
    assert_eq!(guard.lost().await.reason(), LostReason::Shutdown);
    for task in [sibling, asker] {
        let answer = soon("those who wait are told", task)
            .await
            .expect("no panic");
        assert_eq!(answer.expect_err("closed").kind(), ErrorKind::Closed);
    }
    assert_eq!(
        mine.acquire(&name).await.expect_err("closed").kind(),
        ErrorKind::Closed
    );
    assert!(take(&rival, &name).await.release().await.is_released());
    assert!(foreign.release().await.is_released());
    eventually("nothing is left", || async {
        store
            .one
            .inspect(&foreign_name)
            .await
            .expect("an answer")
            .is_none()
    })
    .await;
}

async fn names_in_crossed_orders_all_get_through(store: StoreUnderTest) {
    const TURNS: usize = 10;
    let names = [0, 1, 2].map(|_| fresh_name("crossed"));
    let inside = Arc::new([0, 1, 2].map(|_| AtomicU64::new(0)));
    let lockers = [locker(&store.one, LONG), locker(&store.other, LONG)];
    let orders = [[0, 1], [1, 0], [1, 2], [2, 1], [0, 2], [2, 0]];
    let tasks = orders.into_iter().enumerate().map(|(task, order)| {
        let (locker, inside) = (lockers[task % 2].clone(), inside.clone());
        let wanted = order.map(|at| names[at].clone());
        tokio::spawn(async move {
            for _ in 0..TURNS {
                let all = locker.acquire_all(&wanted).await.expect("an answer");
                for at in order {
                    assert_eq!(
                        inside[at].fetch_add(1, Ordering::SeqCst),
                        0,
                        "nobody else is inside"
                    );
                }
                tokio::task::yield_now().await;
                for at in order {
                    inside[at].fetch_sub(1, Ordering::SeqCst);
                }
                for (name, outcome) in all.release().await {
                    assert!(outcome.is_released(), "{name}: {outcome:?}");
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        soon("all orders", task).await.expect("no panic");
    }
}
