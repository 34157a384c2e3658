//! The parent nodes of the lines at ZooKeeper, which come and go.

use std::time::Duration;

use zookeeper_client::CreateMode;

use crate::support::{BASE, LONG, NAME, SESSION, Server, locker, run, soon};

/// The store removes them if the server is slow to do it.
pub(crate) fn removed_when_idle() {
    run(async {
        let server = Server::start_with(&["-Dznode.container.checkIntervalMs=3600000"]);
        let locker = locker(&server.store().await, SESSION);
        for name in [NAME, "another"] {
            assert!(
                locker
                    .acquire(name)
                    .await
                    .unwrap()
                    .release()
                    .await
                    .is_released()
            );
        }
        let eyes = server.eyes().await;
        assert_eq!(eyes.children(BASE).await.len(), 2, "kept for the next one");
        let started = std::time::Instant::now();
        while !eyes.children(BASE).await.is_empty() {
            assert!(started.elapsed() < LONG, "nobody removes them");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(
            started.elapsed() > 2 * SESSION,
            "removed while it may be wanted again"
        );
        assert!(
            locker
                .acquire(NAME)
                .await
                .unwrap()
                .release()
                .await
                .is_released()
        );
    });
}

/// kazoo creates a parent node that is not a container, and expects it to stay.
pub(crate) fn of_others_are_left_alone() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        eyes.make(BASE, "", CreateMode::Persistent).await;
        let folder = format!("{BASE}/{NAME}");
        eyes.make(&folder, "", CreateMode::Persistent).await;
        let locker = locker(&server.store().await, SESSION);
        assert!(
            locker
                .acquire(NAME)
                .await
                .unwrap()
                .release()
                .await
                .is_released()
        );
        assert!(
            locker
                .acquire("ours")
                .await
                .unwrap()
                .release()
                .await
                .is_released()
        );
        let started = std::time::Instant::now();
        while eyes.children(BASE).await != [NAME] {
            assert!(started.elapsed() < LONG, "ours is not removed");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
}

/// The folder is deleted again and again. Each new claim creates it again.
pub(crate) fn vanish_under_a_newcomer() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        let locker = locker(&server.store().await, SESSION);
        let folder = format!("{BASE}/{NAME}");
        let deleting = tokio::spawn(async move {
            loop {
                let _ = eyes.0.delete(&folder, None).await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        for _ in 0..100 {
            let guard = soon("the lock", locker.acquire(NAME)).await.unwrap();
            assert!(guard.release().await.is_released());
        }
        deleting.abort();
        server.eyes().await.wait_until_clean().await;
    });
}
