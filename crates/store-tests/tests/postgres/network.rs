//! Connections to Postgres that are cut, or that stay open but deliver nothing.

use std::time::Duration;

use fencepost::{Backend, LostReason};
use fencepost_rig::{Direction, Proxy};

use crate::support::{
    GRACE, LONG, NAME, Server, claim, eventually, locker, now, open, open_impatient, run, soon,
};

fn through(proxy: &Proxy) -> String {
    format!("postgres://fencepost@{}/postgres", proxy.address())
}

/// The connection is cut while one claim holds and one waits. The holder is notified and the server frees the lock at once; the
/// waiter joins the line again.
pub(crate) fn cut() {
    run(async {
        let server = Server::start();
        let proxy = Proxy::start(server.0.address()).unwrap();
        let ttl = Duration::from_secs(3);
        let cut_off = locker(&open_impatient(&through(&proxy)).await, ttl);
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
        // The server notices within half a second that the first connection is gone.
        eventually("a new place in line", async || {
            proxy.counts().connections >= 4 && eyes.waiting().await == 1
        })
        .await;
        assert!(guard.release().await.is_released());
        let guard = soon("the waiter's turn", waiting).await.unwrap();
        assert!(guard.release().await.is_released());
        eyes.wait_until_clean().await;
    });
}

/// Nothing arrives any more in either direction, and nobody is notified. The holder stops believing and the server terminates
/// the session, both after the TTL.
pub(crate) fn black_hole() {
    run(async {
        let server = Server::start();
        let proxy = Proxy::start(server.0.address()).unwrap();
        let ttl = Duration::from_secs(2);
        let cut_off = locker(&open_impatient(&through(&proxy)).await, ttl);
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
        let cost = granted_at.saturating_duration_since(since);
        println!("black hole: free {cost:?} after it began, TTL {ttl:?}");
        assert!(cost < ttl + GRACE, "{cost:?}");
        // The holder's own deadline is before the server's. After that, its task has to be woken.
        assert!(lost_at.saturating_duration_since(granted_at) < GRACE);
        assert!(guard.fence() > held.fence());
        assert!(guard.release().await.is_released());
        // A request that can be repeated does not hang for ever.
        let store = open(&server.0.url()).await;
        let claim = claim("other", LONG);
        assert!(store.try_acquire(&claim).await.unwrap().is_some());
        proxy.cut();
    });
}
