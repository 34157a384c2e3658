//! Real processes that are killed or stopped while they hold a lock in etcd or wait for it.

use std::time::{Duration, Instant};

use fencepost_rig::{Child, Feed, feed};
use fencepost_store_tests::actor::{
    Instruction, Report, kill, report, stop, wake, writes_too_late,
};

use crate::actor::{At, Part, Task};
use crate::support::{
    LONG, NAME, Plain, locker, noticed_within, open, released, run, soon, until_waiting,
};

/// The lease of a waiter.
const WAITING_LEASE: Duration = Duration::from_secs(5);

fn holding(url: &str, ttl: Duration) -> Part {
    Part {
        store: At(url.to_owned()),
        ttl,
        task: Task::Hold,
    }
}

/// Starts a child that waits in line.
fn waiting(url: &str) -> (Child, Feed) {
    let (feed, sender) = feed();
    let child = holding(url, LONG).start(0, &sender);
    assert_eq!(report(&feed), Report::Ready);
    (child, feed)
}

/// The next process gets the lock when the lease is over, and not much later.
pub(crate) fn holder_killed() {
    run(async {
        let ttl = Duration::from_secs(3);
        let server = fencepost_rig::Etcd::start().unwrap();
        let store = open(&server.url()).await;
        let next = locker(&store, LONG);
        let (mut holder, _feed, fence) = holding(&server.url(), ttl).start_holding();
        let waiting = tokio::spawn(async move { next.acquire(NAME).await });
        until_waiting(&store, 1).await;
        kill(&mut holder);
        let killed = Instant::now();
        let guard = soon("the lock", waiting).await.unwrap().unwrap();
        let took = killed.elapsed();
        println!("holder_killed: free after {took:?} with a TTL of {ttl:?}");
        assert!(took < ttl + noticed_within(), "{took:?}");
        assert!(guard.fence().as_i64() > fence);
        released(guard).await;
        Plain::open(server.address()).await.wait_until_clean().await;
    });
}

/// A killed waiter delays the line by the lease of a waiter, not by its TTL of a minute.
pub(crate) fn waiter_killed() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let store = open(&server.url()).await;
        let mine = locker(&store, LONG);
        let held = mine.acquire(NAME).await.unwrap();
        let (mut dead, _feed) = waiting(&server.url());
        until_waiting(&store, 1).await;
        let waiting = tokio::spawn(async move { mine.acquire(NAME).await });
        until_waiting(&store, 2).await;
        kill(&mut dead);
        let killed = Instant::now();
        released(held).await;
        let guard = soon("the lock", waiting).await.unwrap().unwrap();
        let took = killed.elapsed();
        println!("waiter_killed: the next one waited {took:?}");
        assert!(took < WAITING_LEASE + noticed_within(), "{took:?}");
        released(guard).await;
        Plain::open(server.address()).await.wait_until_clean().await;
    });
}

/// A holder that continues after its TTL is notified, and its writes are refused.
pub(crate) fn holder_stopped() {
    run(async {
        let ttl = Duration::from_secs(2);
        let server = fencepost_rig::Etcd::start().unwrap();
        let store = open(&server.url()).await;
        let (mut holder, feed, fence) = holding(&server.url(), ttl).start_holding();
        stop(&holder);
        let next = locker(&store, LONG);
        // This does not wait in line: a waiter gets the lock for only a few seconds until the first renewal, and this machine
        // may be busy.
        let guard = soon("the lock", async {
            loop {
                if let Some(guard) = next.try_acquire(NAME).await.unwrap() {
                    return guard;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        let guard = guard.await;
        assert!(guard.fence().as_i64() > fence);
        writes_too_late(&mut holder, &feed);
        let mut plain = Plain::open(server.address()).await;
        assert_eq!(plain.get("written").await, None);
        released(guard).await;
        plain.wait_until_clean().await;
    });
}

/// A waiter whose lease expired while it was stopped is not granted the lock with it (etcd#11456). It joins the line again and
/// holds the lock alone.
pub(crate) fn waiter_stopped() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let mut plain = Plain::open(server.address()).await;
        let store = open(&server.url()).await;
        let mine = locker(&store, LONG);
        let held = mine.acquire(NAME).await.unwrap();
        let (mut waiter, feed) = waiting(&server.url());
        until_waiting(&store, 1).await;
        stop(&waiter);
        plain.wait_for_line(1).await;
        // Its place is gone. The lock is released and acquired again, so the event that the waiter watched has happened.
        released(held).await;
        let again = mine.acquire(NAME).await.unwrap();
        wake(&waiter);
        until_waiting(&store, 1).await;
        let epoch = again.fence().as_i64();
        released(again).await;
        let Report::Held { fence } = report(&feed) else {
            panic!("it was to hold")
        };
        assert!(fence > epoch);
        waiter.send(&Instruction::Write).unwrap();
        match report(&feed) {
            Report::Written => assert_eq!(plain.get("written").await.as_deref(), Some("late")),
            // The machine stood still for the five seconds that a waiter has at first. Then the holder knows, and has written
            // nothing.
            refused => {
                assert_eq!((refused, report(&feed)), (Report::Refused, Report::Lost));
                assert_eq!(plain.get("written").await, None);
            }
        }
    });
}
