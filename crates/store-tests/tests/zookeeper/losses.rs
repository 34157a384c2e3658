//! Locks that ZooKeeper takes away, which the holder learns long before its next renewal.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::zookeeper::Zookeeper;
use fencepost::{Guard, Locker, LostReason};
use fencepost_store_tests::test_program::{NamedTest, tests};
use zookeeper_client::Client;

use crate::support::{BASE, LONG, NAME, Server, open, run};

pub(crate) const TESTS: &[NamedTest] = tests![
    who_loses_its_session_is_told_at_once,
    who_loses_its_node_is_told_at_once,
];

/// Shorter than a third of the TTL, after which the next renewal is due.
const BEFORE_THE_RENEWAL: Duration = Duration::from_secs(15);

async fn holder(address: SocketAddr) -> (Arc<Zookeeper>, Guard) {
    let store = open(address, LONG).await;
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
        let road = server.proxy();
        let (store, guard) = holder(road.address()).await;
        let session = store.session().await.unwrap();
        let eyes = server.eyes().await;
        // Otherwise the holder could take its session back before the close arrives.
        road.point_at(nowhere());
        road.cut();
        // A client that takes over the session and closes it ends it for everybody. On a busy machine the server may answer too late.
        let address = server.0.address().to_string();
        while !eyes.line().await.is_empty() {
            let steal = Client::connector().with_session(session.clone());
            if let Ok(stolen) = steal.connect(&address).await {
                drop(stolen);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        road.point_at(server.0.address());
        is_told(&guard).await;
    });
}

/// Returns an address at which nobody listens.
fn nowhere() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap()
}

fn who_loses_its_node_is_told_at_once() {
    run(async {
        let server = Server::start();
        let (_store, guard) = holder(server.0.address()).await;
        let eyes = server.eyes().await;
        let node = eyes.line().await.remove(0);
        let path = format!("{BASE}/{NAME}/{node}");
        eyes.0.delete(&path, None).await.unwrap();
        is_told(&guard).await;
    });
}
