//! A private ZooKeeper server, sessions through a proxy, and an independent client that inspects the tree.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost::stores::zookeeper::Zookeeper;
use fencepost::{Guard, Locker};
use fencepost_rig::Proxy;
use fencepost_store_tests::until_nothing_is_left;
pub(crate) use fencepost_store_tests::{
    LONG, NAME, SOON, assert_error, claim, eventually, is_soak, locker, now, poll_at_most, run,
    run_within, soon,
};
use zookeeper_client::{Acls, Client, CreateMode, Error};

/// The session timeout of most stores here, and the longest TTL.
pub(crate) const SESSION: Duration = Duration::from_secs(2);
/// The delay that a busy machine and the server's tick may add to what the protocol promises.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// The parent node of all locks.
pub(crate) const BASE: &str = "/locks";

/// A private server.
pub(crate) struct Server(pub(crate) fencepost_rig::Zookeeper);

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(settings: &[&str]) -> Self {
        Self(fencepost_rig::Zookeeper::start_with(settings).unwrap())
    }

    pub(crate) fn proxy(&self) -> Proxy {
        Proxy::start(self.0.address()).unwrap()
    }

    pub(crate) async fn store(&self) -> Arc<Zookeeper> {
        open(self.0.address(), SESSION).await
    }

    /// Opens a client that is independent of the store.
    pub(crate) async fn eyes(&self) -> Eyes {
        Eyes::open(self.0.address()).await
    }
}

/// A client that inspects and changes the tree.
pub(crate) struct Eyes(pub(crate) Client);

impl Eyes {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let connector = Client::connector().with_session_timeout(LONG);
        Self(connector.connect(&address.to_string()).await.unwrap())
    }

    /// Returns the children of a node; empty if the node does not exist.
    pub(crate) async fn children(&self, path: &str) -> Vec<String> {
        match self.0.list_children(path).await {
            Ok(mut children) => {
                // Sorted by sequence number, whichever program created them.
                children
                    .sort_by_key(|name| name.len().checked_sub(10).map(|at| name[at..].to_owned()));
                children
            }
            Err(Error::NoNode) => Vec::new(),
            Err(error) => panic!("{path}: {error}"),
        }
    }

    /// Returns the nodes in the line of the lock, first to last.
    pub(crate) async fn line(&self) -> Vec<String> {
        self.children(&format!("{BASE}/{NAME}")).await
    }

    pub(crate) async fn wait_for_line(&self, length: usize) {
        eventually(&format!("a line of {length}"), async || {
            self.line().await.len() == length
        })
        .await;
    }

    /// Waits until nothing is left below the base. The server removes empty containers.
    pub(crate) async fn wait_until_clean(&self) {
        until_nothing_is_left(SOON, async || {
            let mut left = Vec::new();
            for folder in self.children(BASE).await {
                left.extend(self.children(&format!("{BASE}/{folder}")).await);
                left.push(folder);
            }
            left.join(", ")
        })
        .await;
    }

    pub(crate) async fn make(&self, path: &str, data: &str, mode: CreateMode) {
        let how = mode.with_acls(Acls::anyone_all());
        self.0.create(path, data.as_bytes(), &how).await.unwrap();
    }
}

/// Opens a store with its own session.
pub(crate) async fn open(address: SocketAddr, session: Duration) -> Arc<Zookeeper> {
    let builder = Zookeeper::builder(&format!("zk://{address}{BASE}"));
    // Longer than the default, because other tests may keep the machine busy.
    let builder = builder.session_timeout(session).connect_timeout(SOON);
    Arc::new(builder.open().await.unwrap())
}

/// Returns a locker with a short timeout.
pub(crate) fn impatient(store: &Arc<Zookeeper>, ttl: Duration) -> Locker {
    let builder = Locker::builder(store.clone()).ttl(ttl).without_hand_over();
    builder
        .store_timeout(Duration::from_millis(500))
        .build()
        .unwrap()
}

/// Acquires the lock through an impatient locker, however busy machine and server are.
pub(crate) async fn take(locker: &Locker) -> Guard {
    let started = Instant::now();
    loop {
        match locker.acquire(NAME).await {
            Ok(guard) => return guard,
            Err(error) => assert!(started.elapsed() < LONG, "{error}"),
        }
    }
}

/// Waits until nothing was sent for a while, which means that a waiter has asked for everything it needs to know.
pub(crate) async fn until_quiet(road: &Proxy) {
    let mut sent = 0;
    let mut quiet_looks = 0;
    while quiet_looks < 5 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = road.counts().to_server.bytes;
        quiet_looks = if now == sent { quiet_looks + 1 } else { 0 };
        sent = now;
    }
}
