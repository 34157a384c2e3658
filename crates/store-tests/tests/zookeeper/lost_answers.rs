//! Requests that ZooKeeper executed but whose answers were lost: their nodes are found again, and nothing is created twice.

use std::time::Duration;

use fencepost_rig::{Direction, Proxy};
use zookeeper_client::CreateMode;

use crate::support::{
    BASE, Eyes, LONG, NAME, SESSION, Server, eventually, locker, open, run, soon,
};

/// Holds back the answers, and cuts the connection once the server has executed the request.
async fn lose_the_answer(proxy: &Proxy, is_done: impl AsyncFn() -> bool) {
    let deadline = std::time::Instant::now() + LONG;
    while !is_done().await {
        assert!(
            std::time::Instant::now() < deadline,
            "the server was not asked"
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let before = proxy.counts().connections;
    proxy.cut();
    proxy.heal();
    eventually("a new connection", async || {
        proxy.counts().connections > before
    })
    .await;
}

async fn stage() -> (Server, Proxy, Eyes, fencepost::Locker) {
    let server = Server::start();
    let proxy = server.proxy();
    let session = SESSION * 3;
    let store = open(proxy.address(), session).await;
    let eyes = server.eyes().await;
    // This differs from the node we would create: a container may disappear before the next claim comes, and then a different
    // answer would be lost.
    eyes.make(BASE, "", CreateMode::Persistent).await;
    let folder = format!("{BASE}/{NAME}");
    eyes.make(&folder, "", CreateMode::Persistent).await;
    (server, proxy, eyes, locker(&store, session))
}

/// The node was created. It is found by its owner's name, and is the lock.
pub(crate) fn while_acquiring() {
    run(async {
        let (_server, proxy, eyes, ours) = stage().await;
        for only_try in [false, true] {
            proxy.swallow(Direction::ToClient);
            if only_try {
                // The claim first checks whether the lock is free. That answer must pass.
                proxy.heal();
                proxy.delay(Direction::ToClient, Duration::from_millis(300));
            }
            let asking = tokio::spawn({
                let ours = ours.clone();
                async move {
                    if only_try {
                        ours.try_acquire(NAME).await.unwrap().unwrap()
                    } else {
                        ours.acquire(NAME).await.unwrap()
                    }
                }
            });
            lose_the_answer(&proxy, async || eyes.line().await.len() == 1).await;
            let node = eyes.line().await;
            let guard = soon("the lock", asking).await.unwrap();
            assert_eq!(eyes.line().await, node, "one node, the same as before");
            assert!(guard.release().await.is_released());
            eyes.wait_for_line(0).await;
        }
    });
}

/// The place in line is the same.
pub(crate) fn while_waiting() {
    run(async {
        let (server, proxy, eyes, ours) = stage().await;
        let holder = locker(&server.store().await, SESSION);
        let held = holder.acquire(NAME).await.unwrap();
        proxy.swallow(Direction::ToClient);
        let waiting = tokio::spawn({
            let ours = ours.clone();
            async move { ours.acquire(NAME).await.unwrap() }
        });
        lose_the_answer(&proxy, async || eyes.line().await.len() == 2).await;
        let behind = tokio::spawn(async move { holder.acquire(NAME).await.unwrap() });
        eyes.wait_for_line(3).await;
        assert!(held.release().await.is_released());
        let guard = soon("the waiter", waiting).await.unwrap();
        assert!(!behind.is_finished(), "the place was lost with the answer");
        assert!(guard.release().await.is_released());
        let last = soon("the last", behind).await.unwrap();
        assert!(last.release().await.is_released());
        eyes.wait_for_line(0).await;
    });
}

/// The lock was released, and is not released twice: the successor keeps it.
pub(crate) fn while_releasing() {
    run(async {
        let (server, proxy, eyes, ours) = stage().await;
        let guard = ours.acquire(NAME).await.unwrap();
        let rival = locker(&server.store().await, SESSION);
        proxy.swallow(Direction::ToClient);
        let releasing = tokio::spawn(guard.release());
        lose_the_answer(&proxy, async || eyes.line().await.is_empty()).await;
        let next = soon("the rival", rival.acquire(NAME)).await.unwrap();
        let outcome = soon("the release", releasing).await.unwrap();
        assert!(outcome.is_released(), "{outcome:?}");
        assert_eq!(eyes.line().await.len(), 1);
        assert!(next.release().await.is_released());
        eyes.wait_for_line(0).await;
    });
}
