//! A Postgres server that disappears, stops, or terminates our sessions, while a lock is held, awaited and released.

use std::time::Duration;

use fencepost::stores::postgres::Postgres;
use fencepost::{Effect, ErrorKind, Guard, Locker, LostReason, ReleaseOutcome};
use fencepost_rig::Signal;
use tokio::task::JoinHandle;

use crate::support::{GRACE, LONG, NAME, Server, assert_error, eventually, locker, now, run, soon};

fn wait(locker: &Locker) -> JoinHandle<fencepost::Result<Guard>> {
    let locker = locker.clone();
    tokio::spawn(async move { locker.acquire(NAME).await })
}

/// Nothing listens at the address any more.
pub(crate) fn absent() {
    run(async {
        let mut server = Server::start();
        let store = Postgres::builder(&server.0.url()).max_outage(Duration::from_millis(500));
        let store = std::sync::Arc::new(store.open().await.unwrap());
        let locker = locker(&store, Duration::from_secs(2));
        let eyes = server.eyes().await;
        let (held, released) = (
            locker.acquire("held").await,
            locker.acquire("released").await,
        );
        let (held, released) = (held.unwrap(), released.unwrap());
        let blocked = locker.acquire(NAME).await.unwrap();
        let waiting = wait(&locker);
        eyes.wait_for_line(1).await;
        server.0.crash();
        let opened = soon("an error", Postgres::open(&server.0.url())).await;
        let error = opened.unwrap_err();
        assert_error(
            &error,
            ErrorKind::Unavailable,
            Effect::None,
            "nothing listens there",
        );
        let tried = soon("an error", locker.try_acquire("other")).await;
        assert_error(
            &tried.unwrap_err(),
            ErrorKind::Unavailable,
            Effect::None,
            "nothing listens there",
        );
        let outcome = soon("an outcome", released.release()).await;
        // The loss may have been noticed first.
        let is_open = matches!(
            outcome,
            ReleaseOutcome::Unknown(_) | ReleaseOutcome::AlreadyLost
        );
        assert!(is_open, "{outcome:?}");
        let lost = soon("the loss", held.lost()).await;
        assert_eq!(lost.reason(), LostReason::Gone);
        let error = soon("the waiter", waiting).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        drop(blocked);
    });
}

/// The server crashes and restarts while one claim holds, one waits and one releases. The holder is notified, and the waiter is
/// served.
pub(crate) fn restarted() {
    run(async {
        let mut server = Server::start();
        let ttl = Duration::from_secs(5);
        let (one, other) = (
            server.impatient_store().await,
            server.impatient_store().await,
        );
        let (one, other) = (locker(&one, ttl), locker(&other, ttl));
        let eyes = server.eyes().await;
        let held = one.acquire(NAME).await.unwrap();
        let given_back = one.acquire("given back").await.unwrap();
        let waiting = wait(&other);
        eyes.wait_for_line(1).await;
        server.0.restart().unwrap();
        let outcome = soon("an outcome", given_back.release()).await;
        assert!(
            !outcome.is_released(),
            "it was lost with the server: {outcome:?}"
        );
        let lost = soon("the loss", held.lost()).await;
        assert_eq!(lost.reason(), LostReason::Gone);
        let guard = soon("the waiter's turn", waiting).await.unwrap().unwrap();
        assert!(guard.fence() > held.fence());
        assert!(guard.release().await.is_released());
        server.eyes().await.wait_until_clean().await;
    });
}

/// An operator terminates the sessions.
pub(crate) fn terminated() {
    run(async {
        let server = Server::start();
        let ttl = Duration::from_secs(3);
        let (one, other) = (
            server.impatient_store().await,
            server.impatient_store().await,
        );
        let (one, other) = (locker(&one, ttl), locker(&other, ttl));
        let eyes = server.eyes().await;
        let held = one.acquire(NAME).await.unwrap();
        let waiting = wait(&other);
        eyes.wait_for_line(1).await;
        eyes.text("select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and not granted").await;
        eyes.wait_for_line(0).await;
        eyes.wait_for_line(1).await;
        assert!(!waiting.is_finished(), "it stands in line again");
        assert!(!held.is_lost(), "the holder has not noticed");
        let pid = eyes.holder().await;
        eyes.text(&format!("select pg_terminate_backend({pid})"))
            .await;
        let guard = soon("the waiter's turn", waiting).await.unwrap().unwrap();
        assert!(guard.fence() > held.fence());
        let lost = soon("the loss", held.lost()).await;
        assert_eq!(lost.reason(), LostReason::Gone);
        assert!(guard.release().await.is_released());
        eyes.wait_until_clean().await;
    });
}

/// `pg_cancel_backend` on a waiter: it joins the line again.
pub(crate) fn cancelled_by_hand() {
    run(async {
        let server = Server::start();
        let (one, other) = (
            server.impatient_store().await,
            server.impatient_store().await,
        );
        let (one, other) = (locker(&one, LONG), locker(&other, LONG));
        let eyes = server.eyes().await;
        let held = one.acquire(NAME).await.unwrap();
        let waiting = wait(&other);
        eyes.wait_for_line(1).await;
        eyes.text("select pg_cancel_backend(pid) from pg_locks where locktype = 'advisory' and not granted").await;
        eyes.wait_for_line(0).await;
        eyes.wait_for_line(1).await;
        assert!(held.release().await.is_released());
        let guard = soon("the waiter's turn", waiting).await.unwrap().unwrap();
        assert!(guard.release().await.is_released());
        eyes.wait_until_clean().await;
    });
}

/// An operator terminates the session of a waiter a second time, long after it recovered from the first. These are separate
/// outages: the time in between, which the waiter spent in the server's line, counts for neither.
pub(crate) fn terminated_twice() {
    run(async {
        let server = Server::start();
        let outage = Duration::from_millis(300);
        let store = Postgres::builder(&server.0.url()).max_outage(outage);
        let other = locker(&std::sync::Arc::new(store.open().await.unwrap()), LONG);
        let eyes = server.eyes().await;
        let held = locker(&server.impatient_store().await, LONG)
            .acquire(NAME)
            .await
            .unwrap();
        let waiting = wait(&other);
        eyes.wait_for_line(1).await;
        let in_line = "select pid from pg_locks where locktype = 'advisory' and not granted";
        for _ in 0..2 {
            let pid = eyes.text(in_line).await;
            eyes.text(&format!("select pg_terminate_backend({pid})"))
                .await;
            eventually("it stands in line again", async || {
                let next = eyes.text(in_line).await;
                waiting.is_finished() || !(next.is_empty() || next == pid)
            })
            .await;
            tokio::time::sleep(2 * outage).await;
            assert!(!waiting.is_finished(), "the waiter was thrown out");
        }
        assert!(held.release().await.is_released());
        let guard = soon("the waiter's turn", waiting).await.unwrap().unwrap();
        assert!(guard.release().await.is_released());
    });
}

/// The server is stopped for longer than the TTL. The holder knows by its own clock, and afterwards nobody holds the lock
/// twice.
pub(crate) fn stopped_while_holding() {
    run(async {
        let server = Server::start();
        let ttl = Duration::from_secs(2);
        let locker = locker(&server.impatient_store().await, ttl);
        let held = locker.acquire(NAME).await.unwrap();
        let stopped_at = now();
        server.0.signal(Signal::SIGSTOP).unwrap();
        let lost = soon("the loss", held.lost()).await;
        assert_eq!(lost.reason(), LostReason::Expired);
        assert!(now().saturating_duration_since(stopped_at) < ttl + GRACE);
        let tried = locker.try_acquire("other").await;
        assert!(tried.is_err(), "a server that does not answer");
        server.0.signal(Signal::SIGCONT).unwrap();
        let fence = held.fence();
        drop(held);
        let guard = soon("the lock", locker.acquire(NAME)).await.unwrap();
        assert!(guard.fence() > fence);
        assert!(guard.release().await.is_released());
    });
}

/// The same while a claim waits: it keeps its place.
pub(crate) fn stopped_while_waiting() {
    run(async {
        let server = Server::start();
        let (one, other) = (
            server.impatient_store().await,
            server.impatient_store().await,
        );
        let (one, other) = (locker(&one, LONG), locker(&other, LONG));
        let eyes = server.eyes().await;
        let held = one.acquire(NAME).await.unwrap();
        let waiting = wait(&other);
        eyes.wait_for_line(1).await;
        server.0.signal(Signal::SIGSTOP).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.0.signal(Signal::SIGCONT).unwrap();
        assert!(held.release().await.is_released());
        let guard = soon("the waiter's turn", waiting).await.unwrap().unwrap();
        assert!(guard.release().await.is_released());
        eyes.wait_until_clean().await;
    });
}
