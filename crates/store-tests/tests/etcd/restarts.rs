//! A single etcd server that crashes and comes back with its data.

use crate::support::{LONG, NAME, Plain, locker, open, released, run, soon, until_waiting, works};

/// A holder keeps the lock: leases survive, and start again.
pub(crate) fn while_holding() {
    run(async {
        let mut server = fencepost_rig::Etcd::start().unwrap();
        let store = open(&server.url()).await;
        let locker = locker(&store, LONG);
        let guard = locker.acquire(NAME).await.unwrap();
        server.restart().unwrap();
        guard.extend(2 * LONG).await.unwrap();
        assert!(!guard.is_lost());
        assert!(guard.valid_for() > LONG);
        let epoch = guard.fence().epoch();
        released(guard).await;
        works(&store, epoch).await;
        Plain::open(server.address()).await.wait_until_clean().await;
    });
}

/// Waiters keep their places.
pub(crate) fn while_waiting() {
    run(async {
        let mut server = fencepost_rig::Etcd::start().unwrap();
        let store = open(&server.url()).await;
        let locker = locker(&store, LONG);
        let held = locker.acquire(NAME).await.unwrap();
        let mut waiting = Vec::new();
        for number in 1..=3 {
            let locker = locker.clone();
            waiting.push(tokio::spawn(async move {
                let guard = locker.acquire(NAME).await.unwrap();
                let fence = guard.fence();
                released(guard).await;
                fence
            }));
            until_waiting(&store, number).await;
        }
        server.restart().unwrap();
        released(held).await;
        let mut last = None;
        for waiter in waiting {
            let fence = soon("its turn", waiter).await.unwrap();
            assert!(Some(fence) > last, "in their order");
            last = Some(fence);
        }
        Plain::open(server.address()).await.wait_until_clean().await;
    });
}

/// A release that failed while the server was away is completed when the server is back.
pub(crate) fn while_releasing() {
    run(async {
        let mut server = fencepost_rig::Etcd::start().unwrap();
        let store = open(&server.url()).await;
        let locker = locker(&store, LONG);
        let dropped = locker.acquire("dropped").await.unwrap();
        let released = locker.acquire(NAME).await.unwrap();
        server.crash();
        drop(dropped);
        let outcome = released.release().await;
        assert!(!outcome.is_released(), "{outcome:?}");
        server.restart().unwrap();
        // Long before the TTL of a minute.
        Plain::open(server.address()).await.wait_until_clean().await;
    });
}
