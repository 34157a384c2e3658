//! Addresses and options of the ZooKeeper store, and what inspection shows.

use std::time::Duration;

use fencepost::stores::zookeeper::Zookeeper;
use fencepost::{Backend, Claim, DEFAULT_TTL, Renewal};
use fencepost_rig::{Direction, Proxy};
use fencepost_store_tests::claim_on;
use futures_util::future::join_all;
use zookeeper_client::CreateMode;

use crate::support::{
    BASE, NAME, SESSION, Server, claim, eventually, locker, open, run, soon, until_quiet,
};

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

/// A holder of another program is shown and excludes us. It cannot be released through the library.
pub(crate) fn what_others_hold_is_shown() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        eyes.make(BASE, "", CreateMode::Persistent).await;
        let folder = format!("{BASE}/{NAME}");
        eyes.make(&folder, "", CreateMode::Persistent).await;
        eyes.make(
            &format!("{folder}/_c_6a1b2a94-0c5f-4a87-9f39-2f2f0d6e7c11-lock-"),
            "10.0.0.7",
            CreateMode::EphemeralSequential,
        )
        .await;
        // This node is not in line, whatever it is.
        eyes.make(&format!("{folder}/leases"), "", CreateMode::Persistent)
            .await;
        let store = server.store().await;
        let ours = claim(SESSION);
        assert!(store.try_acquire(&ours).await.unwrap().is_none());
        let record = store.inspect(&ours.name).await.unwrap().unwrap();
        let holder = record.holder.unwrap();
        assert_eq!((holder.owner, &*holder.label), (None, "10.0.0.7"));
        assert!(record.waiting.is_empty());
        assert!(store.list(None).await.unwrap().is_empty(), "none of ours");
        let listed = store.list(Some("sto*")).await.unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].name, NAME);
        let locker = locker(&store, SESSION);
        let waiting = tokio::spawn(async move { locker.acquire(NAME).await.unwrap() });
        eyes.wait_for_line(3).await;
        assert_eq!(
            store.list(None).await.unwrap().len(),
            1,
            "one of ours waits"
        );
        let node = eyes
            .line()
            .await
            .into_iter()
            .find(|node| node.contains("6a1b2a94"));
        let node = node.unwrap();
        eyes.0
            .delete(&format!("{folder}/{node}"), None)
            .await
            .unwrap();
        let guard = soon("the lock", waiting).await.unwrap();
        assert!(guard.release().await.is_released());
    });
}

/// A release wakes only the next waiter: all others send nothing.
pub(crate) fn one_waiter_is_woken() {
    run(async {
        let server = Server::start();
        let session = Duration::from_secs(60);
        let holder = crate::support::open(server.0.address(), session).await;
        let held = locker(&holder, session).acquire(NAME).await.unwrap();
        let eyes = server.eyes().await;
        let mut waiters = Vec::new();
        for length in 2..=6 {
            // A long session sends no heartbeat during the test.
            let proxy = server.proxy();
            let store = crate::support::open(proxy.address(), session).await;
            let locker = locker(&store, session);
            let task = tokio::spawn(async move { locker.acquire(NAME).await.unwrap() });
            eyes.wait_for_line(length).await;
            waiters.push((proxy, task));
        }
        // Until they have set their watches.
        let sent = sent_when_quiet(waiters.iter().map(|(proxy, _)| proxy)).await;
        assert!(held.release().await.is_released());
        eventually("the first waiter", async || waiters[0].1.is_finished()).await;
        let now = sent_when_quiet(waiters.iter().map(|(proxy, _)| proxy)).await;
        // The second looks once more, because the first has noted in its node that it now holds the lock.
        assert!(now[0] > sent[0]);
        assert_eq!(now[2..], sent[2..], "a herd was woken");
        for (_, task) in waiters {
            let guard = soon("its turn", task).await.unwrap();
            assert!(guard.release().await.is_released());
        }
        eyes.wait_until_clean().await;
    });
}

async fn sent_when_quiet<'a>(roads: impl Iterator<Item = &'a Proxy>) -> Vec<u64> {
    let looks = roads.map(|road| async {
        until_quiet(road).await;
        road.counts().to_server.bytes
    });
    futures_util::future::join_all(looks).await
}

/// Two transactions for an uncontended lock, three for one that was waited for. Fences count them.
pub(crate) fn transactions_are_few() {
    run(async {
        let server = Server::start_with(&["-Dznode.container.checkIntervalMs=3600000"]);
        let locker = locker(&server.store().await, SESSION);
        // Creates the folder.
        drop(locker.acquire(NAME).await.unwrap());
        let eyes = server.eyes().await;
        eyes.wait_for_line(0).await;
        let first = locker.acquire(NAME).await.unwrap();
        let before = first.fence().epoch();
        assert!(first.release().await.is_released());
        let second = locker.acquire(NAME).await.unwrap();
        assert_eq!(second.fence().epoch() - before, 2, "make, delete");
        let waiting = tokio::spawn({
            let locker = locker.clone();
            async move { locker.acquire(NAME).await.unwrap().release().await }
        });
        eyes.wait_for_line(2).await;
        let before = second.fence().epoch();
        assert!(second.release().await.is_released());
        assert!(soon("its turn", waiting).await.unwrap().is_released());
        let last = locker.acquire(NAME).await.unwrap();
        assert_eq!(last.fence().epoch() - before, 2 + 3, "make, note, delete");
        assert!(last.release().await.is_released());
    });
}

/// More leases than one transaction renews: the second transaction does not wait for the answer to the first. The answers are in the order of
/// the claims.
pub(crate) fn batches_are_renewed_side_by_side() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        let session = SESSION * 10;
        let store = open(proxy.address(), session).await;
        let eyes = server.eyes().await;
        let ttl = session / 2;
        let mut claims: Vec<Claim> = (0..store.renew_batch_size() + 1)
            .map(|number| claim_on(&format!("lock-{number}"), ttl))
            .collect();
        let granted = join_all(claims.iter().map(|claim| store.try_acquire(claim))).await;
        assert!(granted.into_iter().all(|grant| grant.unwrap().is_some()));
        let [gone, .., last] = &claims[..] else {
            unreachable!("at least two claims")
        };
        let node = async |claim: &Claim| {
            let folder = format!("{BASE}/{}", claim.name);
            format!("{folder}/{}", eyes.children(&folder).await[0])
        };
        eyes.0.delete(&node(gone).await, None).await.unwrap();
        let last = node(last).await;
        // A longer lease is written to its node, where it can be seen.
        claims.iter_mut().for_each(|claim| claim.ttl = session);
        proxy.delay(Direction::ToClient, Proxy::FOREVER);
        let renewing = tokio::spawn(async move { store.renew(&claims).await });
        eventually("the second transaction", async || {
            let stat = eyes.0.check_stat(&last).await.unwrap();
            stat.is_some_and(|stat| stat.version > 0)
        })
        .await;
        proxy.heal();
        for (at, answer) in soon("answers", renewing)
            .await
            .unwrap()
            .into_iter()
            .enumerate()
        {
            let expected = if at == 0 {
                Renewal::Lost
            } else {
                Renewal::Extended
            };
            assert_eq!(answer.unwrap(), expected, "{at}");
        }
    });
}
