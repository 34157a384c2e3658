//! Dropped futures and stores leave no waiter and no lock in Postgres.

use std::time::Duration;

use fencepost::Backend;
use fencepost::backend::Wait;

use crate::support::{LONG, NAME, Server, claim, eventually, locker, poll_at_most, run, soon};

/// Futures are dropped after every number of polls, alone and behind a holder. After the release nobody waits and nobody holds.
pub(crate) fn anywhere() {
    run(async {
        let server = Server::start();
        let store = server.store().await;
        let eyes = server.eyes().await;
        let rival = server.store().await;
        for contended in [false, true] {
            for polls in 1..40 {
                let (mine, other) = (claim(NAME, LONG), claim(NAME, LONG));
                if contended {
                    assert!(rival.try_acquire(&other).await.unwrap().is_some());
                }
                let wait = Wait::default();
                let asking = poll_at_most(polls, store.acquire(&mine, &wait));
                let cut = tokio::time::timeout(Duration::from_millis(100), asking).await;
                let done = !matches!(cut, Ok(None));
                soon("a release", store.release(&mine)).await.unwrap();
                assert_eq!(
                    eyes.waiting().await,
                    0,
                    "somebody waits, after {polls} polls"
                );
                if contended {
                    soon("a release", rival.release(&other)).await.unwrap();
                }
                let left = "select count(*) from pg_locks where locktype = 'advisory'";
                assert_eq!(eyes.number(left).await, 0, "after {polls} polls");
                if done {
                    break;
                }
            }
        }
    });
}

/// The whole store is dropped while it holds and waits. The server notices both soon after.
pub(crate) fn a_dropped_store_leaves_no_waiter() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        let rival = locker(&server.store().await, LONG);
        let held = rival.acquire(NAME).await.unwrap();
        let store = server.store().await;
        let (mine, also_mine) = (claim(NAME, LONG), claim("mine", LONG));
        assert!(store.try_acquire(&also_mine).await.unwrap().is_some());
        let task = tokio::spawn({
            let store = store.clone();
            async move { store.acquire(&mine, &Wait::default()).await }
        });
        eyes.wait_for_line(1).await;
        task.abort();
        assert!(task.await.is_err());
        assert_eq!(eyes.waiting().await, 1, "it keeps its place");
        drop(store);
        eventually("nobody waits", async || eyes.waiting().await == 0).await;
        assert!(held.release().await.is_released());
        eyes.wait_until_clean().await;
    });
}

/// A claim whose wait was dropped only tries. That leaves the line, and is not an error.
pub(crate) fn a_dropped_waiter_tries() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        let (store, rival) = (server.store().await, server.store().await);
        let (mine, other) = (claim(NAME, LONG), claim(NAME, LONG));
        assert!(rival.try_acquire(&other).await.unwrap().is_some());
        let task = tokio::spawn({
            let (store, mine) = (store.clone(), mine.clone());
            async move { store.acquire(&mine, &Wait::default()).await }
        });
        eyes.wait_for_line(1).await;
        task.abort();
        assert!(task.await.is_err());
        assert!(store.try_acquire(&mine).await.unwrap().is_none());
        assert_eq!(eyes.waiting().await, 0, "it left the line");
        rival.release(&other).await.unwrap();
        assert!(store.try_acquire(&mine).await.unwrap().is_some());
        store.release(&mine).await.unwrap();
        eyes.wait_until_clean().await;
    });
}
