//! Addresses of the ZooKeeper store: bases, several hosts, and users.

use fencepost::stores::zookeeper::Zookeeper;
use fencepost::{Backend, DEFAULT_TTL};

use crate::support::{BASE, NAME, Server, claim, run, soon};

/// Stores with different bases are independent. The same base is the same however it is configured.
pub(crate) fn a_base_of_its_own() {
    run(async {
        let server = Server::start();
        let address = server.0.address();
        let at = async |base: &str| {
            Zookeeper::open(&format!("zk://{address}{base}"))
                .await
                .unwrap()
        };
        let (one, same, other, default) = (
            at("/deep/down/locks").await,
            at("/deep/down/locks/").await,
            at("/deep/down").await,
            at("").await,
        );
        assert_eq!(one.address(), format!("zk://{address}/deep/down/locks"));
        let held = claim(DEFAULT_TTL);
        assert!(one.try_acquire(&held).await.unwrap().is_some());
        assert!(
            same.try_acquire(&claim(DEFAULT_TTL))
                .await
                .unwrap()
                .is_none()
        );
        for store in [&other, &default] {
            assert!(
                store
                    .try_acquire(&claim(DEFAULT_TTL))
                    .await
                    .unwrap()
                    .is_some()
            );
        }
        let eyes = server.eyes().await;
        for folder in [
            "/deep/down/locks/stock",
            "/deep/down/stock",
            "/fencepost/stock",
        ] {
            assert_eq!(eyes.children(folder).await.len(), 1, "{folder}");
        }
        assert_eq!(one.list(None).await.unwrap().len(), 1);
        one.release(&held).await.unwrap();
        assert!(
            same.try_acquire(&claim(DEFAULT_TTL))
                .await
                .unwrap()
                .is_some()
        );
    });
}

/// Without a base, beside the server's own node.
pub(crate) fn the_root() {
    run(async {
        let server = Server::start();
        let address = format!("zk://{}/", server.0.address());
        let store = Zookeeper::open(&address).await.unwrap();
        for name in [NAME, "zookeeper", "a/b", "."] {
            let mut claim = claim(DEFAULT_TTL);
            claim.name = name.try_into().unwrap();
            assert!(store.try_acquire(&claim).await.unwrap().is_some(), "{name}");
        }
        let mut names: Vec<String> = store
            .list(None)
            .await
            .unwrap()
            .into_iter()
            .map(|lock| lock.name)
            .collect();
        names.sort();
        assert_eq!(names, [".", "a/b", NAME, "zookeeper"]);
        let eyes = server.eyes().await;
        assert_eq!(
            eyes.children("/zookeeper").await.len(),
            2,
            "config and quota, as ever"
        );
    });
}

/// A dead host among several costs little time.
pub(crate) fn several_hosts() {
    run(async {
        let server = Server::start();
        let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let hosts = format!("{},{}", dead.local_addr().unwrap(), server.0.address());
        drop(dead);
        for _ in 0..4 {
            let store = soon("a session", Zookeeper::open(&format!("zk://{hosts}{BASE}"))).await;
            let store = store.unwrap();
            let held = claim(DEFAULT_TTL);
            assert!(store.try_acquire(&held).await.unwrap().is_some());
            store.release(&held).await.unwrap();
        }
        server.eyes().await.wait_until_clean().await;
    });
}

/// With a password that must be percent-encoded in an address. Created nodes are private to the user.
pub(crate) fn user_and_password() {
    run(async {
        let server = Server::start();
        let address = format!("zk://anna:p%40ss%3Aw@{}{BASE}", server.0.address());
        let store = Zookeeper::open(&address).await.unwrap();
        assert!(!store.address().contains("anna"));
        assert!(!format!("{store:?} {:?}", Zookeeper::builder(&address)).contains("p%40ss"));
        let held = claim(DEFAULT_TTL);
        assert!(store.try_acquire(&held).await.unwrap().is_some());
        let eyes = server.eyes().await;
        eyes.0.auth("digest", b"anna:p@ss:w").await.unwrap();
        let (acl, _) = eyes.0.get_acl(&format!("{BASE}/{NAME}")).await.unwrap();
        assert_eq!(acl[0].scheme(), "digest");
        assert!(acl[0].id().starts_with("anna:"));
        assert_eq!(eyes.line().await.len(), 1);
        let same = Zookeeper::open(&address).await.unwrap();
        assert!(
            same.try_acquire(&claim(DEFAULT_TTL))
                .await
                .unwrap()
                .is_none()
        );
    });
}
