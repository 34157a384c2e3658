//! A Postgres server with the lease table that stops answering (SIGSTOP) during each kind of operation.

use std::time::Duration;

use fencepost::{Effect, ErrorKind, LostReason, ReleaseOutcome};
use fencepost_rig::Signal;

use crate::support::{LONG, NAME, Server, eventually, impatient, is, now, run, soon};

impl Server {
    fn stops(&self) {
        self.0.signal(Signal::SIGSTOP).unwrap();
    }

    fn goes_on(&self) {
        self.0.signal(Signal::SIGCONT).unwrap();
    }
}

/// During a request: it times out promptly with an unknown effect, and anything it acquired is released.
pub(crate) fn while_acquiring() {
    run(async {
        let server = Server::start().await;
        let locker = impatient(&server.store().await, LONG);
        drop(locker.acquire(NAME).await.unwrap());
        server.wait_until_clean().await;
        server.stops();
        let error = soon("an error", locker.acquire(NAME)).await.unwrap_err();
        is(&error, ErrorKind::Timeout, Effect::Maybe, "in time");
        let asked = now();
        let patience = Duration::from_millis(200);
        let error = locker.acquire_within(NAME, patience).await.unwrap_err();
        is(&error, ErrorKind::Timeout, Effect::Maybe, "in time");
        assert!(
            now().saturating_duration_since(asked) < Duration::from_secs(1),
            "the caller's own deadline"
        );
        server.goes_on();
        let guard = soon("the lock", locker.acquire(NAME)).await.unwrap();
        assert!(guard.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// While a lock is held, for longer than the TTL: the holder knows before the server lets another in, and the next one is
/// served.
pub(crate) fn while_holding() {
    run(async {
        let server = Server::start().await;
        let ttl = Duration::from_millis(1200);
        let locker = impatient(&server.store().await, ttl);
        let guard = locker.acquire(NAME).await.unwrap();
        server.stops();
        let lost = soon("the loss", guard.lost()).await;
        assert_eq!(lost.reason(), LostReason::Expired);
        assert!(lost.failed_renewals() > 0, "it was renewed in vain");
        let fence = guard.fence();
        drop(guard);
        server.goes_on();
        let next = soon("the next", locker.acquire(NAME)).await.unwrap();
        assert!(next.fence() > fence);
        assert!(next.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// During a renewal, for less than the TTL: nothing is lost.
pub(crate) fn while_renewing() {
    run(async {
        let server = Server::start().await;
        let ttl = Duration::from_secs(6);
        let locker = impatient(&server.store().await, ttl);
        let guard = locker.acquire(NAME).await.unwrap();
        let plain = server.plain().await;
        eventually("a part of a lease", async || plain.left_ms().await < 4300).await;
        server.stops();
        // A renewal is due, and gets no answer.
        tokio::time::sleep(ttl / 4).await;
        server.goes_on();
        eventually("a renewal", async || plain.left_ms().await > 4800).await;
        assert!(!guard.is_lost());
        assert!(guard.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// During a release: the outcome is unknown, promptly, and the lock is free when the server continues.
pub(crate) fn while_releasing() {
    run(async {
        let server = Server::start().await;
        let locker = impatient(&server.store().await, LONG);
        let guard = locker.acquire(NAME).await.unwrap();
        server.stops();
        match soon("an outcome", guard.release()).await {
            ReleaseOutcome::Unknown(error) => {
                is(&error, ErrorKind::Timeout, Effect::Maybe, "in time")
            }
            other => panic!("{other:?}"),
        }
        server.goes_on();
        server.wait_until_clean().await;
    });
}

/// During a wait, for longer than a connection is trusted: the wait continues in the old place.
pub(crate) fn while_waiting() {
    run(async {
        let server = Server::start().await;
        let (one, other) = (server.store().await, server.store().await);
        let holder = impatient(&one, LONG);
        let held = holder.acquire(NAME).await.unwrap();
        let mut waiting = Vec::new();
        for place in 0..4 {
            let waiter = impatient([&one, &other][place % 2], LONG);
            waiting.push(tokio::spawn(
                async move { waiter.acquire(NAME).await.unwrap() },
            ));
            server.wait_for_line(place as i64 + 1).await;
        }
        server.stops();
        tokio::time::sleep(Duration::from_millis(3500)).await;
        server.goes_on();
        server.wait_for_line(4).await;
        assert!(held.release().await.is_released());
        let mut last = None;
        for (place, waiting) in waiting.into_iter().enumerate() {
            let guard = soon("a turn", waiting).await.unwrap();
            assert!(
                last.is_none_or(|last| guard.fence() > last),
                "not in its old place: {place}"
            );
            last = Some(guard.fence());
            assert!(guard.release().await.is_released());
        }
        server.wait_until_clean().await;
    });
}
