//! Connections to ZooKeeper that are cut, and connections that deliver nothing any more.

use std::sync::Arc;

use fencepost::LostReason;
use fencepost_rig::Direction;

use crate::support::{GRACE, NAME, SESSION, Server, eventually, locker, now, open, run, soon};

/// Connections are cut repeatedly. The session continues, and nothing is lost.
pub(crate) fn cut_while_holding() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        let session = SESSION * 3;
        let store = open(proxy.address(), session).await;
        let ours = locker(&store, session);
        let guard = ours.acquire(NAME).await.unwrap();
        let eyes = server.eyes().await;
        let node = eyes.line().await;
        for _ in 0..5 {
            let before = proxy.counts().connections;
            proxy.cut();
            eventually("a new connection", async || {
                proxy.counts().connections > before
            })
            .await;
            guard.extend(session).await.unwrap();
        }
        assert!(!guard.is_lost());
        assert_eq!(eyes.line().await, node);
        assert!(guard.release().await.is_released());
        eyes.wait_until_clean().await;
    });
}

/// The watch is set again on every connection, and events in between are not missed.
pub(crate) fn cut_while_waiting() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        let session = SESSION * 3;
        let store = open(proxy.address(), session).await;
        let holder = locker(&server.store().await, SESSION);
        let eyes = server.eyes().await;
        for cut_first in [true, false] {
            let held = holder.acquire(NAME).await.unwrap();
            let waiting = tokio::spawn({
                let locker = locker(&store, session);
                async move { locker.acquire(NAME).await.unwrap() }
            });
            eyes.wait_for_line(2).await;
            let before = proxy.counts().connections;
            if cut_first {
                proxy.cut();
                eventually("a new connection", async || {
                    proxy.counts().connections > before
                })
                .await;
                assert!(held.release().await.is_released());
            } else {
                // The notification of the release is lost with the connection.
                proxy.swallow(Direction::ToClient);
                assert!(held.release().await.is_released());
                eyes.wait_for_line(1).await;
                proxy.cut();
                proxy.heal();
            }
            let guard = soon("the waiter", waiting).await.unwrap();
            assert!(guard.release().await.is_released());
        }
        eyes.wait_until_clean().await;
    });
}

/// Nothing gets through any more, and nobody closes the connection. The holder is notified before the server lets the next one
/// in.
pub(crate) fn cut_off_while_holding() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        let store = open(proxy.address(), SESSION).await;
        let ours = locker(&store, SESSION);
        let rival = locker(&server.store().await, SESSION);
        let guard = Arc::new(ours.acquire(NAME).await.unwrap());
        let eyes = server.eyes().await;
        let waiting = tokio::spawn({
            let guard = guard.clone();
            async move {
                let next = rival.acquire(NAME).await.unwrap();
                assert!(guard.is_lost(), "two holders at a time");
                (now(), next)
            }
        });
        eyes.wait_for_line(2).await;
        let cut_at = now();
        proxy.swallow(Direction::ToServer);
        proxy.swallow(Direction::ToClient);
        let lost = soon("the loss", guard.lost()).await;
        let told_at = now();
        assert_eq!(lost.reason(), LostReason::Expired);
        let (granted_at, next) = soon("the rival", waiting).await.unwrap();
        let (told, granted) = (
            told_at.saturating_duration_since(cut_at),
            granted_at.saturating_duration_since(cut_at),
        );
        println!("cut off while holding: told after {told:?}, the rival served after {granted:?}");
        assert!(granted < SESSION + GRACE, "{granted:?}");
        assert!(next.fence() > guard.fence());
        // The network is back: there is a new session, and everything works.
        proxy.heal();
        proxy.cut();
        assert!(next.release().await.is_released());
        let again = soon("the lock", ours.acquire(NAME)).await.unwrap();
        assert!(again.release().await.is_released());
        drop(guard);
        eyes.wait_until_clean().await;
    });
}

/// The session expires during a wait. The waiter does not mistake its old place for a lock, and joins the line again.
pub(crate) fn cut_off_while_waiting() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        let store = open(proxy.address(), SESSION).await;
        let session = SESSION * 5;
        let holder = locker(&open(server.0.address(), session).await, session);
        let held = holder.acquire(NAME).await.unwrap();
        let waiting = tokio::spawn({
            let locker = locker(&store, SESSION);
            async move { locker.acquire(NAME).await.unwrap() }
        });
        let eyes = server.eyes().await;
        eyes.wait_for_line(2).await;
        let before = eyes.line().await;
        proxy.swallow(Direction::ToServer);
        proxy.swallow(Direction::ToClient);
        eyes.wait_for_line(1).await;
        assert!(!waiting.is_finished());
        proxy.heal();
        proxy.cut();
        eyes.wait_for_line(2).await;
        assert_ne!(eyes.line().await[1], before[1]);
        assert!(!waiting.is_finished());
        let fence = held.fence();
        assert!(held.release().await.is_released());
        let guard = soon("the waiter", waiting).await.unwrap();
        assert!(guard.fence() > fence);
        assert!(guard.release().await.is_released());
        eyes.wait_until_clean().await;
    });
}
