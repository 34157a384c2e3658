//! A Redis server that has no memory for new keys.

use std::time::Duration;

use fencepost::stores::redis::Redis;
use fencepost::{Backend, Effect, ErrorKind};

use crate::faults::impatient;
use crate::support::{
    LONG, NAME, Server, assert_error, claim, locker, outlives_its_ttl, releases, run, soon,
};

/// Nothing new can be acquired; held locks are kept and released; waiters are notified.
pub(crate) fn out_of_memory() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let ttl = Duration::from_secs(2);
        let locker = impatient(&server.store().await, ttl);
        let held = locker.acquire(NAME).await.unwrap();
        let free = locker.acquire("free").await.unwrap();
        let waiting = tokio::spawn({
            let locker = locker.clone();
            async move { locker.acquire(NAME).await }
        });
        server.wait_for_heartbeats(NAME, 1).await;
        plain.does(&["CONFIG", "SET", "maxmemory", "1"]);
        for name in ["other", NAME] {
            let error = soon("an error", locker.acquire(name)).await.unwrap_err();
            assert_error(&error, ErrorKind::Unusable, Effect::None, "out of memory");
        }
        let error = soon("an error", locker.try_acquire("other"))
            .await
            .unwrap_err();
        assert_error(&error, ErrorKind::Unusable, Effect::None, "out of memory");
        let error = soon("the waiter", waiting).await.unwrap().unwrap_err();
        assert_error(&error, ErrorKind::Unusable, Effect::Maybe, "out of memory");
        // A renewal needs no memory.
        outlives_its_ttl(&held, ttl).await;
        assert!(held.release().await.is_released());
        assert!(free.release().await.is_released());
        plain.does(&["CONFIG", "SET", "maxmemory", "0"]);
        server.wait_until_clean().await;
    });
}

/// A release that hands the lock to the next in line needs memory. It must not stop half-way.
pub(crate) fn handed_on_out_of_memory() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let (one, other) = server.two_lockers().await;
        let held = one.acquire(NAME).await.unwrap();
        let waiting = tokio::spawn(async move { other.acquire(NAME).await });
        server.wait_for_line(NAME, 1).await;
        plain.does(&["CONFIG", "SET", "maxmemory", "1"]);
        assert!(held.release().await.is_released());
        // Granted, unless its own heartbeat was refused before.
        let outcome = soon("the waiter", waiting).await.unwrap();
        plain.does(&["CONFIG", "SET", "maxmemory", "0"]);
        match outcome {
            Ok(guard) => assert!(guard.release().await.is_released()),
            Err(error) => assert_error(&error, ErrorKind::Unusable, Effect::Maybe, "out of memory"),
        }
        server.wait_until_clean().await;
    });
}

/// The same if the lock becomes free for a while, and if the connection is new.
pub(crate) fn given_back_out_of_memory() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let gapped = || async {
            let every = Duration::from_secs(5);
            let builder = Redis::builder(&server.0.url()).leave_gap(every, every / 50);
            std::sync::Arc::new(builder.open().await.unwrap())
        };
        let (one, other) = (gapped().await, gapped().await);
        let claim = claim(LONG);
        assert!(one.try_acquire(&claim).await.unwrap().is_some());
        let waiting = tokio::spawn(async move { locker(&other, LONG).acquire(NAME).await });
        server.wait_for_line(NAME, 1).await;
        plain.does(&["CONFIG", "SET", "maxmemory", "1"]);
        assert_eq!(
            releases(&*gapped().await, &claim).await,
            fencepost::backend::Release::Freed
        );
        plain.does(&["CONFIG", "SET", "maxmemory", "0"]);
        if let Ok(guard) = soon("the waiter", waiting).await.unwrap() {
            assert!(guard.release().await.is_released());
        }
    });
}
