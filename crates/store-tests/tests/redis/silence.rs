//! A Redis server that stops answering (SIGSTOP) during each kind of operation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fencepost::{Effect, ErrorKind, LostReason, ReleaseOutcome};
use fencepost_rig::{Direction, Fate, Proxy, Signal};

use crate::faults::{impatient, is};
use crate::support::{
    LONG, NAME, Server, contains, eventually, kept_for, locker, now, open, run, soon,
};

impl Server {
    fn stops(&self) {
        self.0.signal(Signal::SIGSTOP).unwrap();
        assert!(self.0.wait_stopped(LONG));
    }

    fn goes_on(&self) {
        self.0.signal(Signal::SIGCONT).unwrap();
    }
}

/// During a request: it times out promptly with an unknown effect, and anything it acquired is released.
pub(crate) fn while_acquiring() {
    run(async {
        let server = Server::start();
        let locker = impatient(&server.store().await, LONG);
        drop(locker.acquire(NAME).await.unwrap());
        server.wait_until_clean().await;
        server.stops();
        let error = soon("an error", locker.acquire(NAME)).await.unwrap_err();
        is(&error, ErrorKind::Timeout, Effect::Maybe, "in time");
        let error = soon("an error", locker.try_acquire(NAME))
            .await
            .unwrap_err();
        is(&error, ErrorKind::Timeout, Effect::Maybe, "in time");
        let patience = Duration::from_millis(200);
        let asked = now();
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
        let server = Server::start();
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
        let server = Server::start();
        let ttl = Duration::from_secs(5);
        let locker = impatient(&server.store().await, ttl);
        let guard = locker.acquire(NAME).await.unwrap();
        let mut plain = server.plain();
        eventually("half of a lease", async || {
            kept_for(&mut plain, guard.owner()) < ttl * 7 / 10
        })
        .await;
        server.stops();
        // A renewal is due, and gets no answer.
        tokio::time::sleep(ttl / 4).await;
        server.goes_on();
        eventually("a renewal", async || {
            kept_for(&mut plain, guard.owner()) > ttl * 8 / 10
        })
        .await;
        assert!(!guard.is_lost());
        assert!(guard.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// During a release: the outcome is unknown, promptly, and the lock is free when the server continues.
pub(crate) fn while_releasing() {
    run(async {
        let server = Server::start();
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
        let server = Server::start();
        let (one, other) = (server.store().await, server.store().await);
        let holder = impatient(&one, LONG);
        let held = holder.acquire(NAME).await.unwrap();
        let mut waiting = Vec::new();
        for place in 0..4 {
            let waiter = impatient([&one, &other][place % 2], LONG);
            waiting.push(tokio::spawn(
                async move { waiter.acquire(NAME).await.unwrap() },
            ));
            server.wait_for_line(NAME, place as i64 + 1).await;
        }
        server.wait_for_heartbeats(NAME, 4).await;
        server.stops();
        let patience = Duration::from_millis(500);
        let in_vain = soon(
            "an answer",
            impatient(&one, LONG).acquire_within(NAME, patience),
        )
        .await;
        is(
            &in_vain.unwrap_err(),
            ErrorKind::Timeout,
            Effect::Maybe,
            "in time",
        );
        tokio::time::sleep(Duration::from_millis(3500)).await;
        server.goes_on();
        server.wait_for_line(NAME, 4).await;
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

/// Makes the existing connections die silently. Connections that are opened later work.
fn dies_silently(proxy: &Proxy) {
    let is_dead = Arc::new(AtomicBool::new(true));
    proxy.judge(Direction::ToServer, move |message| {
        if contains(message, "HELLO") {
            is_dead.store(false, Ordering::Relaxed);
        }
        if is_dead.load(Ordering::Relaxed) {
            Fate::Lose
        } else {
            Fate::Pass
        }
    });
}

/// A renewal without an answer does not count as a lost lock. The next renewal uses another connection, in time.
pub(crate) fn a_dead_connection_does_not_lose_a_lock() {
    run(async {
        let server = Server::start();
        for ttl in [3000, 4000].map(Duration::from_millis) {
            let proxy = server.proxy();
            let locker = locker(&open(proxy.address()).await, ttl);
            let guard = locker.acquire(NAME).await.unwrap();
            dies_silently(&proxy);
            eventually("another connection", async || {
                assert!(!guard.is_lost(), "lost with a TTL of {ttl:?}");
                proxy.counts().connections == 2
            })
            .await;
            let mut plain = server.plain();
            eventually("a renewal", async || {
                assert!(!guard.is_lost(), "lost with a TTL of {ttl:?}");
                kept_for(&mut plain, guard.owner()) > ttl * 8 / 10
            })
            .await;
            assert!(guard.release().await.is_released());
        }
        server.wait_until_clean().await;
    });
}
