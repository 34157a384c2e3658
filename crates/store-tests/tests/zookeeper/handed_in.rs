//! A ZooKeeper connector that the user passes in, which the store uses for its sessions.

use std::sync::Arc;

use fencepost::stores::zookeeper::Zookeeper;
use fencepost::{Backend, ErrorKind};
use fencepost_store_tests::test_program::{NamedTest, tests};
use zookeeper_client::{Client, Connector};

use crate::support::{BASE, NAME, SESSION, SOON, Server, claim, locker, run, soon};

pub(crate) const TESTS: &[NamedTest] = tests![a_connector, a_session_of_its_own_is_refused,];

fn connector() -> Connector {
    Client::connector().with_auth("digest", b"anna:secret")
}

/// The user comes from the connector. Nodes are private to that user on request, and otherwise open to everybody.
fn a_connector() {
    run(async {
        let server = Server::start();
        let servers = format!("{}{BASE}", server.0.address());
        let open = async |creator_only| {
            let builder = Zookeeper::builder_from(&servers, connector());
            let builder = builder.session_timeout(SESSION).connect_timeout(SOON);
            assert!(!format!("{builder:?}").contains("secret"));
            builder.creator_only(creator_only).open().await.unwrap()
        };
        let store = Arc::new(open(false).await);
        assert_eq!(store.address(), format!("zk://{servers}"));
        let guard = soon("the lock", locker(&store, SESSION).acquire(NAME)).await;
        let guard = guard.unwrap();
        let by_address = locker(&server.store().await, SESSION);
        let busy = soon("a try", by_address.try_acquire(NAME)).await.unwrap();
        assert!(busy.is_none(), "the same lock by another road");
        let fence = guard.fence();
        assert!(guard.release().await.is_released());
        let next = soon("the lock", by_address.acquire(NAME)).await.unwrap();
        assert!(next.fence() > fence);
        assert!(next.release().await.is_released());

        let eyes = server.eyes().await;
        eyes.wait_until_clean().await;
        let store = open(true).await;
        let granted = store.try_acquire(&claim(SESSION)).await.unwrap();
        assert!(granted.is_some());
        eyes.0.auth("digest", b"anna:secret").await.unwrap();
        let (acl, _) = eyes.0.get_acl(&format!("{BASE}/{NAME}")).await.unwrap();
        assert_eq!(acl[0].scheme(), "digest");
        assert!(acl[0].id().starts_with("anna:"));
    });
}

/// A session that is passed in could be ended by others, or outlive the store.
fn a_session_of_its_own_is_refused() {
    run(async {
        let server = Server::start();
        let servers = server.0.address().to_string();
        let theirs = server.eyes().await.0.session().clone();
        for connector in [
            connector().with_session(theirs),
            connector().with_detached(),
        ] {
            let opened = Zookeeper::builder_from(&servers, connector).open().await;
            let error = opened.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        }
        let wrong = Zookeeper::builder_from("u:secret@h", connector());
        let error = wrong.open().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    });
}
