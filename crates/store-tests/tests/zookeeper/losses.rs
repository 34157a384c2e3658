//! Locks that ZooKeeper takes away, which the holder learns long before its next renewal.

use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::zookeeper::Zookeeper;
use fencepost::{Guard, Locker, LostReason};
use fencepost_store_tests::trials::{NamedTest, tests};
use zookeeper_client::Client;

use crate::support::{BASE, LONG, NAME, Server, open, run};

pub(crate) const TESTS: &[NamedTest] = tests![
    who_loses_its_session_is_told_at_once,
    who_loses_its_node_is_told_at_once,
];

/// Shorter than a third of the TTL, after which the next renewal is due.
const BEFORE_THE_RENEWAL: Duration = Duration::from_secs(15);

const SECOND: Duration = Duration::from_secs(1);

async fn holder(server: &Server) -> (Arc<Zookeeper>, Guard) {
    let store = open(server.0.address(), LONG).await;
    let locker = Locker::builder(store.clone()).ttl(LONG).build().unwrap();
    let guard = locker.acquire(NAME).await.unwrap();
    (store, guard)
}

async fn is_told(guard: &Guard) {
    let lost = tokio::time::timeout(BEFORE_THE_RENEWAL, guard.lost()).await;
    let lost = lost.expect("told before the next renewal");
    assert_eq!(lost.reason(), LostReason::Gone);
}

fn who_loses_its_session_is_told_at_once() {
    run(async {
        let server = Server::start();
        let (store, guard) = holder(&server).await;
        let session = store.session().await.unwrap();
        // A client that takes over the session and closes it ends it for everybody.
        let address = server.0.address().to_string();
        let steal = || Client::connector().with_session(session.clone());
        // On a busy machine the server may answer too late, or the holder takes its session back before the close arrives. Then once more.
        for _ in 0..10 {
            if let Ok(stolen) = steal().connect(&address).await {
                drop(stolen);
            }
            if tokio::time::timeout(SECOND, guard.lost()).await.is_ok() {
                break;
            }
        }
        is_told(&guard).await;
    });
}

fn who_loses_its_node_is_told_at_once() {
    run(async {
        let server = Server::start();
        let (_store, guard) = holder(&server).await;
        let eyes = server.eyes().await;
        let node = eyes.line().await.remove(0);
        let path = format!("{BASE}/{NAME}/{node}");
        eyes.0.delete(&path, None).await.unwrap();
        is_told(&guard).await;
    });
}
