//! Requirements on cancellation: a future dropped at any point leaves no lock, no place in line and no task behind.

use std::time::Duration;

use super::{
    ALWAYS, LONG, NO_PROGRESS, StoreUnderTest, cut_off, eventually, fresh_name, soon, table,
};
use crate::claim::LockName;
use crate::error::Result;
use crate::guard::Guard;
use crate::locker::Locker;
use crate::testing::poll_at_most;

table! {
    a_dropped_try_acquire_leaves_nothing: ALWAYS,
    a_dropped_acquire_leaves_nothing: ALWAYS,
    a_dropped_acquire_within_leaves_nothing: ALWAYS,
    a_dropped_try_acquire_leaves_nothing_when_contended: ALWAYS,
    a_dropped_acquire_leaves_nothing_when_contended: ALWAYS,
    a_dropped_acquire_within_leaves_nothing_when_contended: ALWAYS,
    a_dropped_release_still_releases: ALWAYS,
}

/// The way in which the future asks for the lock.
#[derive(Clone, Copy)]
enum Way {
    Try,
    Wait,
    Within,
}

/// After a cancellation, the lock must be free within this time, although its TTL is a minute.
const FREE_WITHIN: Duration = Duration::from_secs(2);

async fn ask(locker: Locker, name: LockName, asked: Way) -> Result<Option<Guard>> {
    match asked {
        Way::Try => locker.try_acquire(name).await,
        Way::Wait => locker.acquire(name).await.map(Some),
        Way::Within => locker.acquire_within(name, LONG).await,
    }
}

fn locker(store: &StoreUnderTest) -> Locker {
    let locker = Locker::builder(store.one.clone()).ttl(LONG).build();
    locker.expect("valid settings")
}

fn rival(store: &StoreUnderTest) -> Locker {
    let rival = Locker::builder(store.other.clone()).ttl(LONG).build();
    rival.expect("valid settings")
}

/// Checks that somebody else can acquire the name at once, and that nothing is left of it afterwards.
async fn assert_free(rival: &Locker, name: &LockName) {
    let guard = rival
        .acquire_within(name, FREE_WITHIN)
        .await
        .expect("an answer");
    let guard = guard
        .unwrap_or_else(|| panic!("{name}: still taken {FREE_WITHIN:?} after the cancellation"));
    assert!(guard.release().await.is_released());
    eventually("nothing is left", || async {
        rival
            .backend()
            .inspect(name)
            .await
            .expect("an answer")
            .is_none()
    })
    .await;
}

/// Does the same with a future that cannot complete because the lock stays held. Returns whether it stopped making progress before.
async fn cut_off_waiting<F: Future>(polls: usize, future: F) -> bool {
    let cut = tokio::time::timeout(NO_PROGRESS, poll_at_most(polls, future)).await;
    !matches!(cut, Ok(None))
}

async fn no_task_is_left(before: usize) {
    eventually("no task is left", || async { alive_tasks() <= before }).await;
}

fn alive_tasks() -> usize {
    tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks()
}

async fn alone(store: &StoreUnderTest, asked: Way) {
    let rival = rival(store);
    let tasks_before = alive_tasks();
    for polls in 1.. {
        let name = fresh_name("cancel");
        let locker = locker(store);
        let done = cut_off(polls, ask(locker.clone(), name.clone(), asked)).await;
        assert_free(&rival, &name).await;
        soon("the shutdown", locker.shutdown()).await;
        if done {
            break;
        }
    }
    rival.shutdown().await;
    drop(rival);
    no_task_is_left(tasks_before).await;
}

/// Cancels futures while another client holds the lock: once while it stays held, and once while it is released, after every number of
/// polls.
async fn contended(store: &StoreUnderTest, asked: Way) {
    let rival = rival(store);
    let tasks_before = alive_tasks();
    for released_meanwhile in [false, true] {
        for polls in 1.. {
            let name = fresh_name("cancel-contended");
            let locker = locker(store);
            let held = rival.acquire(&name).await.expect("an answer");
            let (released, kept) = if released_meanwhile {
                (Some(held), None)
            } else {
                (None, Some(held))
            };
            let cut = async {
                let asking = ask(locker.clone(), name.clone(), asked);
                let done = if released_meanwhile {
                    cut_off(polls, asking).await
                } else {
                    cut_off_waiting(polls, asking).await
                };
                drop(kept);
                done
            };
            // This waiter joins the line behind the one that is cut off, and must not lose its place with it.
            let behind = soon(
                "the task behind",
                ask(locker.clone(), name.clone(), Way::Wait),
            );
            let releasing = async { drop(released) };
            let (done, guard, ()) = tokio::join!(cut, behind, releasing);
            drop(guard.expect("an answer"));
            assert_free(&rival, &name).await;
            soon("the shutdown", locker.shutdown()).await;
            if done {
                break;
            }
        }
    }
    rival.shutdown().await;
    drop(rival);
    no_task_is_left(tasks_before).await;
}

async fn a_dropped_try_acquire_leaves_nothing(store: StoreUnderTest) {
    alone(&store, Way::Try).await;
}

async fn a_dropped_acquire_leaves_nothing(store: StoreUnderTest) {
    alone(&store, Way::Wait).await;
}

async fn a_dropped_acquire_within_leaves_nothing(store: StoreUnderTest) {
    alone(&store, Way::Within).await;
}

async fn a_dropped_try_acquire_leaves_nothing_when_contended(store: StoreUnderTest) {
    contended(&store, Way::Try).await;
}

async fn a_dropped_acquire_leaves_nothing_when_contended(store: StoreUnderTest) {
    contended(&store, Way::Wait).await;
}

async fn a_dropped_acquire_within_leaves_nothing_when_contended(store: StoreUnderTest) {
    contended(&store, Way::Within).await;
}

async fn a_dropped_release_still_releases(store: StoreUnderTest) {
    let rival = rival(&store);
    for polls in 1.. {
        let name = fresh_name("cancel-release");
        let locker = locker(&store);
        let guard = locker.acquire(&name).await.expect("an answer");
        let done = cut_off(polls, guard.release()).await;
        assert_free(&rival, &name).await;
        locker.shutdown().await;
        if done {
            break;
        }
    }
    rival.shutdown().await;
}
