//! Real processes that are stopped or killed while they hold a Postgres lock or wait for it.

use std::time::Duration;

use fencepost_rig::{Signal, feed};
use fencepost_store_tests::actor::{NoVerb, Part, Task, kill, served, stop, wake, writes_too_late};

use crate::actor::{At, write};
use crate::support::{GRACE, LONG, NAME, Server, locker, now, run, soon};

/// How long the server gives a claim to confirm its grant.
const CONFIRM_WITHIN: Duration = Duration::from_millis(1500);

fn part(url: String, ttl: Duration, task: Task<NoVerb>) -> Part<At> {
    let store = At(url);
    Part { store, ttl, task }
}

fn holder(server: &Server, ttl: Duration) -> Part<At> {
    part(server.0.url(), ttl, Task::Hold)
}

fn waiter(url: String) -> Part<At> {
    let hold = Duration::from_millis(5);
    part(url, LONG, Task::WaitOnce { waiters: 1, hold })
}

/// The connection ends with the process, so the lock is free at once, not after its TTL of a minute.
pub(crate) fn a_holder_is_killed() {
    run(async {
        let server = Server::start();
        let next = locker(&server.store().await, LONG);
        let eyes = server.eyes().await;
        let (mut holder, _feed, fence) = holder(&server, LONG).start_holding();
        let waiting = tokio::spawn(async move {
            let guard = next.acquire(NAME).await.unwrap();
            (guard, now())
        });
        eyes.wait_for_line(1).await;
        let killed_at = now();
        kill(&mut holder);
        let (guard, granted_at) = soon("the lock", waiting).await.unwrap();
        println!(
            "holder killed: free after {:?}",
            granted_at.saturating_duration_since(killed_at)
        );
        assert!(granted_at.saturating_duration_since(killed_at) < GRACE);
        assert!(guard.fence().as_i64() > fence);
        assert!(guard.release().await.is_released());
        eyes.wait_until_clean().await;
    });
}

/// The connection stays open, but the process is silent. The server terminates the session after the TTL. When the process
/// continues, it writes at once: the resource refuses, and the holder is notified.
pub(crate) fn a_holder_stopped_beyond_its_ttl() {
    run(async {
        let server = Server::start();
        let ttl = Duration::from_secs(2);
        let next = locker(&server.store().await, LONG);
        let eyes = server.eyes().await;
        eyes.text("create table fenced as select 0::bigint as fence, '' as text")
            .await;
        let (mut stopped, feed, _) = holder(&server, ttl).start_holding();
        stop(&stopped);
        let stopped_at = now();
        let guard = soon("the lock", next.acquire(NAME)).await.unwrap();
        let cost = now().saturating_duration_since(stopped_at);
        println!("holder stopped: free after {cost:?}, TTL {ttl:?}");
        assert!(cost < ttl + GRACE, "{cost:?}");
        assert!(write(&eyes, guard.fence().as_i64(), "in time").await);
        writes_too_late(&mut stopped, &feed);
        assert_eq!(eyes.text("select text from fenced").await, "in time");
        assert!(guard.release().await.is_released());
    });
}

/// A waiter is stopped when its turn comes. It delays the others for a short time, not for its TTL of a minute. When it
/// continues, it does not mistake its lost turn for a lock, and is served later.
pub(crate) fn a_waiter_stopped_across_its_grant() {
    run(async {
        let server = Server::start();
        let holder = locker(&server.store().await, LONG);
        let eyes = server.eyes().await;
        let held = holder.acquire(NAME).await.unwrap();
        let (feed, sender) = feed();
        let stopped = waiter(server.0.url()).start(0, &sender);
        eyes.wait_for_line(1).await;
        stop(&stopped);
        assert!(held.release().await.is_released());
        let asked_at = now();
        let next = soon("the lock", holder.acquire(NAME)).await.unwrap();
        let cost = now().saturating_duration_since(asked_at);
        println!("waiter stopped across its grant: cost {cost:?}");
        assert!(cost < CONFIRM_WITHIN + GRACE, "{cost:?}");
        wake(&stopped);
        eyes.wait_for_line(1).await;
        assert!(!next.is_lost());
        let next_fence = next.fence().as_i64();
        assert!(next.release().await.is_released());
        let (_, late) = served(&feed);
        assert_eq!(late.outcome, "Released");
        assert!(late.fence > next_fence, "it took its old grant for a lock");
        eyes.wait_until_clean().await;
    });
}

/// Eight processes wait, and five of them are killed. The others are served in order, and no dead waiter costs a TTL.
pub(crate) fn waiters_are_killed() {
    run(async {
        let server = Server::start();
        let holder = locker(&server.store().await, LONG);
        let eyes = server.eyes().await;
        let held = holder.acquire(NAME).await.unwrap();
        let (feed, sender) = feed();
        let mut children = Vec::new();
        // They keep their places however long it takes to start all of them.
        let part = waiter(format!("{}?requeue_after=never", server.0.url()));
        for id in 0..8 {
            children.push(part.start(id, &sender));
            eyes.wait_for_line(id as i64 + 1).await;
        }
        for child in &children[1..6] {
            child.signal(Signal::SIGKILL).unwrap();
        }
        let released_at = now();
        assert!(held.release().await.is_released());
        let mut turns = Vec::new();
        while turns.len() < 3 {
            let (id, turn) = served(&feed);
            assert_eq!(turn.outcome, "Released");
            turns.push((turn.fence, id, turn.granted_ns));
        }
        turns.sort_unstable();
        let order: Vec<usize> = turns.iter().map(|(_, id, _)| *id).collect();
        assert_eq!(order, [0, 6, 7]);
        let last =
            fencepost::clock::Moment::from_nanos(turns[2].2).saturating_duration_since(released_at);
        println!("five of eight waiters killed: the last had its turn after {last:?}");
        assert!(last < GRACE, "{last:?}");
        eyes.wait_until_clean().await;
    });
}
