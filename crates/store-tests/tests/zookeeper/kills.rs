//! Real processes that hold the lock or wait for it, and are killed or stopped.

use std::time::Duration;

use fencepost::Fence;
use fencepost::resource::SqliteRegister;
use fencepost_rig::{Signal, feed, folder};

use crate::actor::{Part, Report, hear, kill};
use crate::support::{GRACE, LONG, NAME, SESSION, Server, locker, now, open, run, soon};

fn part(server: &Server, ttl: Duration) -> Part {
    Part {
        address: server.0.address(),
        session: SESSION,
        ttl,
        writes_to: None,
    }
}

/// The others get the lock a session timeout later, and not before a living holder would have been told.
pub(crate) fn a_holder() {
    run(async {
        let server = Server::start();
        let next = locker(&server.store().await, SESSION);
        let (feed, ears) = feed();
        let mut holder = part(&server, SESSION).start(0, &ears);
        assert_eq!(hear(&feed), Report::Ready);
        let Report::Granted { fence, .. } = hear(&feed) else {
            panic!("it was to get the lock")
        };
        let waiting = tokio::spawn(async move { next.acquire(NAME).await.unwrap() });
        server.eyes().await.wait_for_line(2).await;
        let killed = now();
        kill(&mut holder);
        let guard = tokio::time::timeout(LONG, waiting).await.unwrap().unwrap();
        let recovered = now().since(killed);
        println!(
            "a holder was killed: the next was served after {recovered:?} (session timeout {SESSION:?})"
        );
        // The last sign of life may be half a session timeout old.
        assert!(recovered > SESSION / 3, "{recovered:?}");
        assert!(recovered < SESSION + GRACE, "{recovered:?}");
        assert!(guard.fence() > Fence::from_i64(fence).unwrap());
        assert!(guard.release().await.is_released());
        server.eyes().await.is_clean().await;
    });
}

/// It costs those behind it a session timeout at most, and nothing if its turn comes later than that.
pub(crate) fn a_waiter() {
    run(async {
        let server = Server::start();
        let holder = locker(&server.store().await, SESSION);
        let held = holder.acquire(NAME).await.unwrap();
        let eyes = server.eyes().await;
        let (feed, ears) = feed();
        let mut dead = part(&server, SESSION).start(0, &ears);
        assert_eq!(hear(&feed), Report::Ready);
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
        let cost = now().since(killed);
        println!("a waiter was killed: the one behind it was served after {cost:?}");
        assert!(cost < SESSION + GRACE, "{cost:?}");
        assert!(guard.release().await.is_released());
        eyes.is_clean().await;
    });
}

/// It writes as soon as it wakes: the resource refuses, and the holder knows.
pub(crate) fn a_holder_stopped_beyond_its_ttl() {
    run(async {
        let server = Server::start();
        let files = folder().unwrap();
        let file = files.path().join("count.db");
        let register = SqliteRegister::open(&file, "count", &0_i64).unwrap();
        let next = locker(&server.store().await, SESSION);
        let (feed, ears) = feed();
        let mut stopped = Part {
            writes_to: Some(file),
            ..part(&server, SESSION / 2)
        }
        .start(0, &ears);
        assert_eq!(hear(&feed), Report::Ready);
        assert!(matches!(hear(&feed), Report::Granted { .. }));
        stopped.signal(Signal::SIGSTOP).unwrap();
        assert!(stopped.wait_stopped(LONG));
        let asked = now();
        let guard = soon("the lock", next.acquire(NAME)).await.unwrap();
        let recovered = now().since(asked);
        println!("a holder was stopped: the next was served after {recovered:?}");
        assert!(recovered < SESSION + GRACE, "{recovered:?}");
        register.update(guard.credential(), |_| 7).unwrap();
        stopped.send(&"write").unwrap();
        stopped.signal(Signal::SIGCONT).unwrap();
        for expected in [Report::Refused, Report::Lost, Report::Released(false)] {
            assert_eq!(hear(&feed), expected);
        }
        register
            .update(guard.credential(), |number| {
                assert_eq!(number, 7);
                number
            })
            .unwrap();
        assert!(guard.release().await.is_released());
        drop(stopped);
        server.eyes().await.is_clean().await;
    });
}

/// Its place is gone when it wakes: it comes again, and does not take an old turn for a lock.
pub(crate) fn a_waiter_stopped_beyond_its_session() {
    run(async {
        let server = Server::start();
        let session = SESSION * 5;
        let holder = locker(&open(server.0.address(), session).await, session);
        let held = holder.acquire(NAME).await.unwrap();
        let eyes = server.eyes().await;
        let (feed, ears) = feed();
        let mut stopped = part(&server, SESSION).start(0, &ears);
        assert_eq!(hear(&feed), Report::Ready);
        eyes.wait_for_line(2).await;
        let place = eyes.line().await.remove(1);
        stopped.signal(Signal::SIGSTOP).unwrap();
        assert!(stopped.wait_stopped(LONG));
        // Its session ends; the lock goes from hand to hand without it.
        eyes.wait_for_line(1).await;
        assert!(held.release().await.is_released());
        let next = soon("the lock", holder.acquire(NAME)).await.unwrap();
        stopped.signal(Signal::SIGCONT).unwrap();
        eyes.wait_for_line(2).await;
        assert_ne!(eyes.line().await[1], place);
        let fence = next.fence().as_i64();
        assert!(next.release().await.is_released());
        let Report::Granted { fence: late, .. } = hear(&feed) else {
            panic!("it was to get the lock")
        };
        assert!(late > fence);
        stopped.send(&"done").unwrap();
        assert_eq!(hear(&feed), Report::Released(true));
        drop(stopped);
        eyes.is_clean().await;
    });
}
