//! Tests of servers that stop answering (SIGSTOP) during each kind of operation, for every store with such a server.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fencepost::{Backend, Effect, Error, ErrorKind, Guard, Locker, LostReason, ReleaseOutcome};

use crate::{LONG, NAME, eventually, now, run, soon};

/// The stores give up a connection that has been silent for 2 s.
const LONGER_THAN_A_SILENT_CONNECTION_IS_TRUSTED: Duration = Duration::from_millis(3500);

/// A private server that can be made silent.
pub trait SilentServer: Sized {
    /// The store on this server.
    type Store: Backend + 'static;
    /// How long a request may take.
    const STORE_TIMEOUT: Duration;
    /// A TTL with a renewal that can be made to fail without losing the lock.
    const TTL: Duration;

    /// Starts a server.
    fn start() -> impl Future<Output = Self>;

    /// Opens a store on it.
    fn store(&self) -> impl Future<Output = Arc<Self::Store>>;

    /// Stops it. Connections stay open.
    fn stops(&self);

    /// Lets it continue.
    fn goes_on(&self);

    /// Returns how much longer the server keeps others out for this guard.
    fn left_of_lease(&self, guard: &Guard) -> impl Future<Output = Duration>;

    /// Waits until this many claims wait for [`NAME`], and know it.
    fn wait_for_line(&self, length: i64) -> impl Future<Output = ()>;

    /// Waits until nothing is left of any lock.
    fn wait_until_clean(&self) -> impl Future<Output = ()>;
}

fn impatient<S: SilentServer>(store: &Arc<S::Store>, ttl: Duration) -> Locker {
    let builder = Locker::builder(store.clone()).ttl(ttl).without_hand_over();
    let locker = builder.store_timeout(S::STORE_TIMEOUT).build();
    locker.expect("settings that the store allows")
}

fn is_timeout(error: &Error) {
    let expected = (ErrorKind::Timeout, Effect::Maybe);
    assert_eq!((error.kind(), error.effect()), expected, "{error}");
    assert!(error.to_string().contains("in time"), "{error}");
}

async fn released(guard: Guard) {
    assert!(guard.release().await.is_released());
}

/// During a request: it times out promptly with an unknown effect, and anything it acquired is released.
pub fn while_acquiring<S: SilentServer>() {
    run(async {
        let server = S::start().await;
        let locker = impatient::<S>(&server.store().await, LONG);
        drop(locker.acquire(NAME).await.expect("the lock"));
        server.wait_until_clean().await;
        server.stops();
        is_timeout(
            &soon("an error", locker.acquire(NAME))
                .await
                .expect_err("a timeout"),
        );
        is_timeout(
            &soon("an error", locker.try_acquire(NAME))
                .await
                .expect_err("a timeout"),
        );
        let asked = now();
        let timeout = Duration::from_millis(200);
        is_timeout(
            &locker
                .acquire_within(NAME, timeout)
                .await
                .expect_err("a timeout"),
        );
        assert!(
            now().saturating_duration_since(asked) < Duration::from_secs(1),
            "the caller's own deadline"
        );
        server.goes_on();
        let guard = soon("the lock", locker.acquire(NAME)).await;
        released(guard.expect("the lock")).await;
        server.wait_until_clean().await;
    });
}

/// While a lock is held, for longer than the TTL: the holder knows before the server lets another in, and the next one is
/// served.
pub fn while_holding<S: SilentServer>() {
    run(async {
        let server = S::start().await;
        let locker = impatient::<S>(&server.store().await, Duration::from_millis(1200));
        let guard = locker.acquire(NAME).await.expect("the lock");
        server.stops();
        let lost = soon("the loss", guard.lost()).await;
        assert_eq!(lost.reason(), LostReason::Expired);
        assert!(lost.failed_renewals().is_some(), "it was renewed in vain");
        let fence = guard.fence();
        drop(guard);
        server.goes_on();
        let next = soon("the next", locker.acquire(NAME)).await;
        let next = next.expect("the lock");
        assert!(next.fence() > fence);
        released(next).await;
        server.wait_until_clean().await;
    });
}

/// During a renewal, for less than the TTL: nothing is lost.
pub fn while_renewing<S: SilentServer>() {
    run(async {
        let server = S::start().await;
        let locker = impatient::<S>(&server.store().await, S::TTL);
        let guard = locker.acquire(NAME).await.expect("the lock");
        eventually("a part of a lease", async || {
            server.left_of_lease(&guard).await < S::TTL * 7 / 10
        })
        .await;
        server.stops();
        // A renewal is due, and gets no answer.
        tokio::time::sleep(S::TTL / 4).await;
        server.goes_on();
        eventually("a renewal", async || {
            server.left_of_lease(&guard).await > S::TTL * 8 / 10
        })
        .await;
        assert!(!guard.is_lost());
        released(guard).await;
        server.wait_until_clean().await;
    });
}

/// During a release: the outcome is unknown, promptly, and the lock is free when the server continues.
pub fn while_releasing<S: SilentServer>() {
    run(async {
        let server = S::start().await;
        let locker = impatient::<S>(&server.store().await, LONG);
        let guard = locker.acquire(NAME).await.expect("the lock");
        server.stops();
        match soon("an outcome", guard.release()).await {
            ReleaseOutcome::Unknown(error) => is_timeout(&error),
            other => panic!("{other:?}"),
        }
        server.goes_on();
        server.wait_until_clean().await;
    });
}

/// During a wait, for longer than a connection is trusted: a new request times out, and the wait continues in the old place.
pub fn while_waiting<S: SilentServer>() {
    run(async {
        let server = S::start().await;
        let (one, other) = (server.store().await, server.store().await);
        let held = impatient::<S>(&one, LONG).acquire(NAME).await;
        let held = held.expect("the lock");
        let mut waiting = Vec::new();
        for place in 0..4 {
            let waiter = impatient::<S>([&one, &other][place % 2], LONG);
            waiting.push(tokio::spawn(async move { waiter.acquire(NAME).await }));
            server.wait_for_line(place as i64 + 1).await;
        }
        server.stops();
        let late = impatient::<S>(&one, LONG);
        let timeout = Duration::from_millis(500);
        let in_vain = soon("an answer", late.acquire_within(NAME, timeout)).await;
        is_timeout(&in_vain.expect_err("a timeout"));
        tokio::time::sleep(LONGER_THAN_A_SILENT_CONNECTION_IS_TRUSTED).await;
        server.goes_on();
        server.wait_for_line(4).await;
        released(held).await;
        let mut last = None;
        for (place, waiting) in waiting.into_iter().enumerate() {
            let guard = soon("a turn", waiting).await.expect("a task");
            let guard = guard.expect("the lock");
            assert!(
                last.is_none_or(|last| guard.fence() > last),
                "not in its old place: {place}"
            );
            last = Some(guard.fence());
            released(guard).await;
        }
        server.wait_until_clean().await;
    });
}
