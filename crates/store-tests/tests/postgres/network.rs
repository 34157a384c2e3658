//! Connections that break, or only seem to live.

use std::time::Duration;

use fencepost::{Backend, LostReason};
use fencepost_rig::{Direction, Proxy};

use crate::support::{GRACE, LONG, NAME, Server, claim, eventually, locker, now, open, run, soon};

fn through(proxy: &Proxy) -> String {
    format!("postgres://fencepost@{}/postgres", proxy.address())
}

/// Cut while one holds and one waits: the holder is told and the server frees at once; the waiter stands in line again.
pub(crate) fn cut() {
    run(async {
        let server = Server::start();
        let proxy = Proxy::start(server.0.address()).unwrap();
        let ttl = Duration::from_secs(3);
        let cut_off = locker(&open(&through(&proxy)).await, ttl);
        let direct = locker(&server.store().await, LONG);
        let eyes = server.eyes().await;
        let held = cut_off.acquire(NAME).await.unwrap();
        proxy.cut();
        let lost = soon("the loss", held.lost()).await;
        assert_eq!(lost.reason(), LostReason::Gone);
        let guard = soon("the lock", direct.acquire(NAME)).await.unwrap();
        assert!(guard.fence() > held.fence());
        drop(held);

        let waiting = tokio::spawn({
            let cut_off = cut_off.clone();
            async move { cut_off.acquire(NAME).await.unwrap() }
        });
        eyes.wait_for_line(1).await;
        proxy.cut();
        // The server notices within half a second that the first one is gone.
        eventually("a new place in line", async || {
            proxy.counts().connections >= 4 && eyes.waiting().await == 1
        })
        .await;
        assert!(guard.release().await.is_released());
        let guard = soon("the waiter's turn", waiting).await.unwrap();
        assert!(guard.release().await.is_released());
        eyes.is_clean().await;
    });
}

/// Nothing arrives any more, either way, and nobody is told: the holder stops believing, the server ends the session, both by the TTL.
pub(crate) fn black_hole() {
    run(async {
        let server = Server::start();
        let proxy = Proxy::start(server.0.address()).unwrap();
        let ttl = Duration::from_secs(2);
        let cut_off = locker(&open(&through(&proxy)).await, ttl);
        let direct = locker(&server.store().await, LONG);
        let held = cut_off.acquire(NAME).await.unwrap();
        proxy.swallow(Direction::ToServer);
        proxy.swallow(Direction::ToClient);
        let since = now();
        let waiting = tokio::spawn(async move {
            let guard = direct.acquire(NAME).await.unwrap();
            (guard, now())
        });
        let lost = soon("the loss", held.lost()).await;
        assert_eq!(lost.reason(), LostReason::Expired);
        let lost_at = now();
        let (guard, granted_at) = soon("the lock", waiting).await.unwrap();
        let cost = granted_at.since(since);
        println!("black hole: free {cost:?} after it began, TTL {ttl:?}");
        assert!(cost < ttl + GRACE, "{cost:?}");
        // The holder's own count ends before the server's; then its task has to be woken.
        assert!(lost_at.since(granted_at) < Duration::from_secs(1));
        assert!(guard.fence() > held.fence());
        assert!(guard.release().await.is_released());
        // What can be asked again does not hang for ever.
        let store = open(&server.0.url()).await;
        let claim = claim("other", LONG);
        assert!(store.try_acquire(&claim).await.unwrap().is_some());
        proxy.cut();
    });
}
