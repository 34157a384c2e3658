//! The server has forgotten its fence, or part of it: epochs rise all the same.

use std::time::Duration;

use fencepost::ErrorKind;
use fencepost_rig::{Direction, Proxy};

use crate::support::{LONG, NAME, Server, locker, open, run, soon};

const FENCE: &str = "fp:{stock}:fence:stock";

/// Evicted or deleted while the lock is held, and handed on by the release at once.
pub(crate) fn forgotten_before_a_release() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let store = server.store().await;
        let locker = locker(&store, LONG);
        let held = locker.acquire(NAME).await.unwrap();
        let first = held.fence();
        let waiting = tokio::spawn({
            let locker = locker.clone();
            async move { locker.acquire(NAME).await.unwrap() }
        });
        server.wait_for_line(NAME, 1).await;
        plain.does(&["DEL", FENCE]);
        assert!(held.release().await.is_released());
        let next = soon("the waiter", waiting).await.unwrap();
        assert!(next.fence() > first, "{} after {first}", next.fence());
        assert!(plain.number(&["PTTL", FENCE]) > 0, "a fence that stays");
        assert!(next.release().await.is_released());
        server.is_clean().await;
    });
}

/// A replica that lags behind takes over while the old primary is silent. The signs of life of those who wait must not be
/// the first that the new one hears of a name: they do not lift its epoch.
pub(crate) fn behind_after_a_silent_failover() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let proxy: Proxy = server.proxy();
        // The new primary knows nothing of connections to the old one, and cannot end them.
        plain.does(&["ACL", "SETUSER", "default", "-client|kill"]);
        let (ours, theirs) = (open(proxy.address()).await, server.store().await);
        let held = locker(&theirs, LONG).acquire(NAME).await.unwrap();
        let first = held.fence();
        let waiter = locker(&ours, LONG);
        let waiting = tokio::spawn({
            let waiter = waiter.clone();
            async move { waiter.acquire(NAME).await.unwrap() }
        });
        server.wait_for_signs(NAME, 1).await;
        proxy.swallow(Direction::ToServer);
        // Given up before the sign of life is that was sent after it: its connection goes, and the next is made.
        let asked = waiter.try_acquire("another");
        let silent = tokio::time::timeout(Duration::from_millis(2010), asked).await;
        assert!(silent.is_err(), "somebody answered");
        proxy.heal();
        plain.does(&["SET", FENCE, "5", "PX", "60000"]);
        plain.does(&["DEL", NAME]);
        let other = loop {
            // The first may share an attempt to connect that was swallowed, too.
            match soon("an answer", waiter.acquire("another")).await {
                Ok(guard) => break guard,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        };
        let next = soon("the waiter", waiting).await.unwrap();
        assert!(next.fence() > first, "{} after {first}", next.fence());
        assert!(next.release().await.is_released());
        assert!(other.release().await.is_released());
    });
}
