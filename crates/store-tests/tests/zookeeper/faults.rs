//! Servers that are absent, not ZooKeeper, or refuse us, and operators that delete our nodes.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use fencepost::backend::Wait;
use fencepost::stores::zookeeper::Zookeeper;
use fencepost::{Backend, Effect, Error, ErrorKind, LostReason, Operation};
use zookeeper_client::{Acl, Acls, CreateMode, Permission};

use crate::support::{
    BASE, LONG, NAME, SESSION, Server, assert_error, claim, locker, now, run, soon,
};

async fn refused(address: &str) -> Error {
    let builder = Zookeeper::builder(address).connect_timeout(Duration::from_millis(500));
    soon("an answer", builder.open()).await.unwrap_err()
}

pub(crate) fn absent() {
    run(async {
        let port = {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let error = refused(&format!("zk://user:secret@127.0.0.1:{port}")).await;
        assert_error(&error, ErrorKind::Unavailable, Effect::None, "no ZooKeeper");
        assert_eq!(error.operation(), Operation::Open);
        assert!(!format!("{error:?}").contains("secret"));
    });
}

/// The server is gone before anybody waits: the request fails at once, instead of waiting for the server.
pub(crate) fn absent_when_asked() {
    run(async {
        let mut server = Server::start();
        let address = format!("zk://{}{BASE}", server.0.address());
        let builder = Zookeeper::builder(&address).session_timeout(SESSION);
        let store = builder.open().await.unwrap();
        server.0.crash();
        // Until the client has given up its session, a request waits for the connection.
        tokio::time::sleep(SESSION * 2).await;
        let (claim, wait) = (claim(SESSION), Wait::default());
        let asked = now();
        let error = soon("an error", store.acquire(&claim, &wait)).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
        assert!(now().saturating_duration_since(asked) < LONG / 2);
    });
}

/// The server crashes while a client waits in line. The wait ends after the maximum outage, and the error says that the node of the
/// waiter may still be there when the server comes back.
pub(crate) fn absent_while_waiting() {
    run(async {
        let mut server = Server::start();
        let eyes = server.eyes().await;
        let address = format!("zk://{}{BASE}", server.0.address());
        let store = Zookeeper::builder(&address)
            .session_timeout(SESSION)
            .max_outage(Duration::from_millis(300));
        let store = store.open().await.unwrap();
        let held = locker(&server.store().await, SESSION).acquire(NAME).await;
        let waiting = tokio::spawn(async move {
            let (claim, wait) = (claim(SESSION), Wait::default());
            store.acquire(&claim, &wait).await
        });
        eyes.wait_for_line(2).await;
        server.0.crash();
        let error = soon("an error", waiting).await.unwrap().unwrap_err();
        assert_error(&error, ErrorKind::Unavailable, Effect::Maybe, "ZooKeeper");
        drop(held);
    });
}

/// The server accepts connections but never answers.
pub(crate) fn silent() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = refused(&format!("zk://{}", listener.local_addr().unwrap())).await;
        assert_error(&error, ErrorKind::Unavailable, Effect::None, "no ZooKeeper");
    });
}

pub(crate) fn a_web_server() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 64]);
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            }
        });
        let error = refused(&format!("zk://{address}")).await;
        assert_error(&error, ErrorKind::Unavailable, Effect::None, "no ZooKeeper");
    });
}

pub(crate) fn not_an_address() {
    run(async {
        for address in ["localhost:2181", "zk://user:secret@/x", "zk://h//secret"] {
            let error = refused(address).await;
            assert_error(&error, ErrorKind::InvalidInput, Effect::None, "zk://[USER");
            assert!(!error.to_string().contains("secret"));
        }
        let builder = Zookeeper::builder("zk://h").session_timeout(Duration::ZERO);
        let error = builder.open().await.unwrap_err();
        assert_error(
            &error,
            ErrorKind::InvalidInput,
            Effect::None,
            "session timeout",
        );
    });
}

/// The server would free the lock before the lease is over. The TTL is refused on acquiring and on renewing.
pub(crate) fn a_ttl_beyond_the_session() {
    run(async {
        let server = Server::start();
        let store = server.store().await;
        let long = claim(SESSION + Duration::from_millis(1));
        let error = store.try_acquire(&long).await.unwrap_err();
        assert_error(
            &error,
            ErrorKind::InvalidInput,
            Effect::None,
            "session_timeout",
        );
        let error = locker(&store, LONG).acquire(NAME).await.unwrap_err();
        assert_error(
            &error,
            ErrorKind::InvalidInput,
            Effect::None,
            "session_timeout",
        );
        let guard = locker(&store, SESSION).acquire(NAME).await.unwrap();
        let error = guard.extend(LONG).await.unwrap_err();
        assert_error(
            &error,
            ErrorKind::InvalidInput,
            Effect::None,
            "session_timeout",
        );
        assert!(!guard.is_lost());
        assert!(guard.release().await.is_released());
        server.eyes().await.wait_until_clean().await;
    });
}

/// ZooKeeper accepts every password; the ACLs of the nodes decide.
pub(crate) fn wrong_password() {
    run(async {
        let server = Server::start();
        let address = |user: &str| format!("zk://{user}{}{BASE}", server.0.address());
        let right = Zookeeper::open(&address("anna:right@")).await.unwrap();
        assert!(right.try_acquire(&claim(SESSION)).await.unwrap().is_some());
        for user in ["anna:wrong@", ""] {
            let error = Zookeeper::open(&address(user)).await.unwrap_err();
            assert_error(&error, ErrorKind::Unusable, Effect::None, "not allowed");
        }
    });
}

/// A user that may read but not write gets an error, and does not wait.
pub(crate) fn no_right_to_write() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        let read_only = [Acl::new(
            Permission::READ,
            zookeeper_client::AuthId::anyone(),
        )];
        let how = CreateMode::Persistent.with_acls(Acls::new(&read_only));
        eyes.0.create(BASE, b"", &how).await.unwrap();
        let store = server.store().await;
        let locker = locker(&store, SESSION);
        for error in [
            soon("an error", locker.acquire(NAME)).await.unwrap_err(),
            soon("an error", locker.try_acquire(NAME))
                .await
                .unwrap_err(),
        ] {
            assert_error(&error, ErrorKind::Unusable, Effect::None, "not allowed");
        }
    });
}

/// An ephemeral node of another program is where the lock's folder should be.
pub(crate) fn an_ephemeral_node_in_the_way() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        eyes.make(BASE, "", CreateMode::Persistent).await;
        eyes.make(&format!("{BASE}/{NAME}"), "", CreateMode::Ephemeral)
            .await;
        let locker = locker(&server.store().await, SESSION);
        let error = soon("an error", locker.acquire(NAME)).await.unwrap_err();
        assert_error(&error, ErrorKind::Unusable, Effect::None, "ephemeral");
    });
}

/// An operator deletes the node of the holder. The holder is notified at its next renewal; until then the fence protects.
pub(crate) fn deleted_while_held() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        let locker = locker(&server.store().await, SESSION);
        let guard = locker.acquire(NAME).await.unwrap();
        let node = eyes.line().await.remove(0);
        let path = format!("{BASE}/{NAME}/{node}");
        eyes.0.delete(&path, None).await.unwrap();
        let next = soon("the lock", locker.acquire(NAME)).await.unwrap();
        assert!(next.fence() > guard.fence());
        let lost = soon("the loss", guard.lost()).await;
        assert_eq!(lost.reason(), LostReason::Gone);
        assert!(!guard.release().await.is_released());
        assert!(next.release().await.is_released());
        eyes.wait_until_clean().await;
    });
}

/// An operator deletes the node of a waiter. The waiter joins the line again, at the end.
pub(crate) fn deleted_while_waiting() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        let locker = locker(&server.store().await, SESSION);
        let held = locker.acquire(NAME).await.unwrap();
        let waiting = tokio::spawn({
            let locker = locker.clone();
            async move { locker.acquire(NAME).await.unwrap().release().await }
        });
        eyes.wait_for_line(2).await;
        let node = eyes.line().await.remove(1);
        let path = format!("{BASE}/{NAME}/{node}");
        eyes.0.delete(&path, None).await.unwrap();
        assert!(held.release().await.is_released());
        assert!(soon("the waiter", waiting).await.unwrap().is_released());
        eyes.wait_until_clean().await;
    });
}

/// The right to delete in one folder was revoked. Leases elsewhere end as usual, and this one ends when the right is restored.
pub(crate) fn a_node_that_cannot_be_deleted() {
    run(async {
        let server = Server::start();
        let (store, eyes) = (server.store().await, server.eyes().await);
        let mut other = claim(Duration::from_millis(600));
        other.name = "other".try_into().unwrap();
        let stuck = claim(Duration::from_millis(200));
        let folder = format!("{BASE}/{NAME}");
        assert!(store.try_acquire(&stuck).await.unwrap().is_some());
        let rights = |permission| [Acl::new(permission, zookeeper_client::AuthId::anyone())];
        let all_but_delete =
            Permission::CREATE | Permission::READ | Permission::WRITE | Permission::ADMIN;
        let set = eyes.0.set_acl(&folder, &rights(all_but_delete), None);
        set.await.unwrap();
        assert!(store.try_acquire(&other).await.unwrap().is_some());
        let nodes = async |name: &str| eyes.children(&format!("{BASE}/{name}")).await.len();
        soon("the other lease ends", async {
            while nodes("other").await > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        assert_eq!(nodes(NAME).await, 1, "it could be deleted");
        let set = eyes.0.set_acl(&folder, &rights(Permission::ALL), None);
        set.await.unwrap();
        soon("this one ends", eyes.wait_for_line(0)).await;
    });
}
