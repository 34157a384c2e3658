//! A Redis server that restarts without its data or its scripts.

use std::time::Duration;

use fencepost::LostReason;
use fencepost_rig::resp::Value;

use crate::support::{LONG, NAME, Server, eventually, locker, run, soon};

/// The server has lost a lock and the connection ends. The holder is notified at once, not at its next renewal.
pub(crate) fn a_loss_is_told_when_the_connection_ends() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let locker = locker(&server.store().await, LONG);
        let (kept, lost) = (
            locker.acquire("kept").await.unwrap(),
            locker.acquire(NAME).await.unwrap(),
        );
        let permit = locker.semaphore("permit", 1).unwrap().acquire(1).await;
        let permit = permit.unwrap();
        plain.does(&["DEL", NAME]);
        plain.does(&["DEL", "fp:{permit}:shares:permit"]);
        plain.does(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        plain.does(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        // The next renewal is due after a third of the TTL.
        let told = soon("the loss", lost.lost()).await;
        assert_eq!(told.reason(), LostReason::Gone);
        let told = soon("the loss of the permit", permit.lost()).await;
        assert_eq!(told.reason(), LostReason::Gone);
        assert!(!kept.is_lost(), "the server still has it");
        assert!(kept.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// The holder is notified, waiters are served, and the fence still increases.
pub(crate) fn with_waiters_and_a_holder() {
    run(async {
        let mut server = Server::start();
        let stores = [server.store().await, server.store().await];
        let holder = locker(&stores[0], Duration::from_secs(3));
        let waiter = locker(&stores[1], Duration::from_secs(3));
        let held = holder.acquire(NAME).await.unwrap();
        let waiting: Vec<_> = (0..8)
            .map(|turn| {
                let waiter = [&holder, &waiter][turn % 2].clone();
                tokio::spawn(async move {
                    let guard = waiter.acquire(NAME).await.unwrap();
                    let fence = guard.fence();
                    (fence, guard.release().await)
                })
            })
            .collect();
        server.wait_for_heartbeats(NAME, 8).await;
        server.0.restart().unwrap();
        let lost = soon("the holder to be told", held.lost()).await;
        assert_eq!(lost.reason(), LostReason::Gone);
        let mut fences = vec![held.fence()];
        drop(held);
        for waiting in waiting {
            let (fence, outcome) = soon("a waiter's turn", waiting).await.unwrap();
            assert!(outcome.is_released(), "{outcome:?}");
            fences.push(fence);
        }
        assert!(fences.iter().all(|fence| *fence >= fences[0]), "{fences:?}");
        fences.sort();
        fences.dedup();
        assert_eq!(fences.len(), 9, "a fence came twice: {fences:?}");
        server.wait_until_clean().await;
    });
}

/// A server numbers its connections from the start again, so the number of our old connection may now belong to another client.
pub(crate) fn strangers_keep_their_connections() {
    run(async {
        let mut server = Server::start();
        // Our connections have all the small numbers.
        let mut stores = Vec::new();
        for _ in 0..10 {
            stores.push(server.store().await);
        }
        let lockers: Vec<_> = stores.iter().map(|store| locker(store, LONG)).collect();
        let name = |number| format!("lock {number}");
        for (number, locker) in lockers.iter().enumerate() {
            drop(locker.acquire(name(number)).await.unwrap());
        }
        server.0.respawn(&[]).unwrap();
        server.0.wait_until_ready().unwrap();
        let mut strangers: Vec<_> = (0..30).map(|_| server.plain()).collect();
        let ids: Vec<_> = strangers
            .iter_mut()
            .map(|plain| plain.number(&["CLIENT", "ID"]))
            .collect();
        for (number, locker) in lockers.iter().enumerate() {
            // The first request may find the old connection broken.
            let taken = soon("an answer", locker.acquire(name(number))).await;
            drop(taken);
            drop(soon("a lock", locker.acquire(name(number))).await.unwrap());
        }
        for (mut stranger, id) in strangers.into_iter().zip(ids) {
            assert_eq!(
                stranger.ask(&["CLIENT", "ID"]),
                Value::Number(id),
                "{id} was ended"
            );
        }
        eventually("the locks to be free", async || {
            server.plain().number(&["EXISTS", "lock 0"]) == 0
        })
        .await;
        server.wait_until_clean().await;
    });
}

/// The server loses its scripts while the lock is wanted and held.
pub(crate) fn scripts_forgotten() {
    run(async {
        let server = Server::start();
        let (one, other) = server.two_lockers().await;
        let mut plain = server.plain();
        let mut held = one.acquire(NAME).await.unwrap();
        for turn in 0..6 {
            let next = [&other, &one][turn % 2].clone();
            let waiting = server.waiter_of(&next).await;
            plain.does(&["SCRIPT", "FLUSH"]);
            held.extend(LONG).await.unwrap();
            plain.does(&["SCRIPT", "FLUSH"]);
            assert!(held.release().await.is_released());
            held = soon("the next grant", waiting).await.unwrap();
            plain.does(&["SCRIPT", "FLUSH"]);
        }
        assert!(held.release().await.is_released());
        server.wait_until_clean().await;
    });
}
