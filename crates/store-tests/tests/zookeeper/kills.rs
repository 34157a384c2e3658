//! Real processes that are killed or stopped while they hold a ZooKeeper lock or wait for it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use fencepost::Fence;
use fencepost::resource::SqliteRegister;
use fencepost_rig::{Child, Feed, feed, folder};
use fencepost_store_tests::actor::{
    Instruction, Part, Report, Task, kill, report, stop, wake, writes_too_late,
};

use crate::actor::At;
use crate::support::{GRACE, LONG, NAME, SESSION, Server, locker, now, open, run, soon};

/// Returns the part of a child that acquires the lock and holds it.
fn holding(address: SocketAddr, ttl: Duration, register: PathBuf) -> Part<At> {
    Part {
        store: At {
            address,
            session: SESSION,
            register,
        },
        ttl,
        task: Task::Hold,
    }
}

/// Starts a child that waits in line and never writes.
pub(crate) fn waiting(address: SocketAddr) -> (Child, Feed) {
    let (feed, sender) = feed();
    let child = holding(address, SESSION, PathBuf::new()).start(0, &sender);
    assert_eq!(report(&feed), Report::Ready);
    (child, feed)
}

/// Checks that the child gets the lock with a fence larger than this, and releases it.
pub(crate) fn is_served_after(fence: i64, child: &mut Child, feed: &Feed) {
    match report(feed) {
        Report::Held { fence: late } => assert!(late > fence, "it took its old turn for a lock"),
        other => panic!("it was to get the lock: {other:?}"),
    }
    child.send(&Instruction::Release).unwrap();
    assert_eq!(report(feed), Report::Released(true));
}

/// Others get the lock one session timeout later, and not before a living holder would have been notified.
pub(crate) fn a_holder() {
    run(async {
        let server = Server::start();
        let next = locker(&server.store().await, SESSION);
        let part = holding(server.0.address(), SESSION, PathBuf::new());
        let (mut holder, _feed, fence) = part.start_holding();
        let waiting = tokio::spawn(async move { next.acquire(NAME).await.unwrap() });
        server.eyes().await.wait_for_line(2).await;
        let killed = now();
        kill(&mut holder);
        let guard = tokio::time::timeout(LONG, waiting).await.unwrap().unwrap();
        let recovered = now().saturating_duration_since(killed);
        println!(
            "a holder was killed: the next was served after {recovered:?} (session timeout {SESSION:?})"
        );
        // The last heartbeat may be half a session timeout old.
        assert!(recovered > SESSION / 3, "{recovered:?}");
        assert!(recovered < SESSION + GRACE, "{recovered:?}");
        assert!(guard.fence() > Fence::from_i64(fence).unwrap());
        assert!(guard.release().await.is_released());
        server.eyes().await.wait_until_clean().await;
    });
}

/// A killed waiter delays the others by at most a session timeout, and not at all if its turn comes later than that.
pub(crate) fn a_waiter() {
    run(async {
        let server = Server::start();
        let holder = locker(&server.store().await, SESSION);
        let held = holder.acquire(NAME).await.unwrap();
        let eyes = server.eyes().await;
        let (mut dead, _feed) = waiting(server.0.address());
        eyes.wait_for_line(2).await;
        let behind = tokio::spawn({
            let holder = holder.clone();
            async move { holder.acquire(NAME).await.unwrap() }
        });
        eyes.wait_for_line(3).await;
        let killed = now();
        kill(&mut dead);
        assert!(held.release().await.is_released());
        let guard = soon("the one behind", behind).await.unwrap();
        let cost = now().saturating_duration_since(killed);
        println!("a waiter was killed: the one behind it was served after {cost:?}");
        assert!(cost < SESSION + GRACE, "{cost:?}");
        assert!(guard.release().await.is_released());
        eyes.wait_until_clean().await;
    });
}

/// It writes as soon as it continues. The resource refuses, and the holder knows.
pub(crate) fn a_holder_stopped_beyond_its_ttl() {
    run(async {
        let server = Server::start();
        let files = folder().unwrap();
        let file = files.path().join("count.db");
        let register = SqliteRegister::open(&file, "count", &0_i64).unwrap();
        let next = locker(&server.store().await, SESSION);
        let part = holding(server.0.address(), SESSION / 2, file);
        let (mut stopped, feed, _) = part.start_holding();
        stop(&stopped);
        let asked = now();
        let guard = soon("the lock", next.acquire(NAME)).await.unwrap();
        let recovered = now().saturating_duration_since(asked);
        println!("a holder was stopped: the next was served after {recovered:?}");
        assert!(recovered < SESSION + GRACE, "{recovered:?}");
        register.update(guard.credential(), |_| 7).unwrap();
        writes_too_late(&mut stopped, &feed);
        stopped.send(&Instruction::Release).unwrap();
        assert_eq!(report(&feed), Report::Released(false));
        register
            .update(guard.credential(), |number| {
                assert_eq!(number, 7);
                number
            })
            .unwrap();
        assert!(guard.release().await.is_released());
        drop(stopped);
        server.eyes().await.wait_until_clean().await;
    });
}

/// Its place is gone when it continues. It joins the line again, and does not mistake an old turn for a lock.
pub(crate) fn a_waiter_stopped_beyond_its_session() {
    run(async {
        let server = Server::start();
        let session = SESSION * 5;
        let holder = locker(&open(server.0.address(), session).await, session);
        let held = holder.acquire(NAME).await.unwrap();
        let eyes = server.eyes().await;
        let (mut stopped, feed) = waiting(server.0.address());
        eyes.wait_for_line(2).await;
        let place = eyes.line().await.remove(1);
        stop(&stopped);
        // Its session ends, and the lock changes hands without it.
        eyes.wait_for_line(1).await;
        assert!(held.release().await.is_released());
        let next = soon("the lock", holder.acquire(NAME)).await.unwrap();
        wake(&stopped);
        eyes.wait_for_line(2).await;
        assert_ne!(eyes.line().await[1], place);
        let fence = next.fence().as_i64();
        assert!(next.release().await.is_released());
        is_served_after(fence, &mut stopped, &feed);
        drop(stopped);
        eyes.wait_until_clean().await;
    });
}
