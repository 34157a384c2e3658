//! Watching over a lock that is held, so that its holder hears before the next renewal that somebody has deleted the node.

use std::sync::Arc;

use super::link::Link;
use super::place::Place;

/// Runs until the lock is not held any more, or the session is over.
pub(super) async fn keep(link: &Link, place: Arc<Place>) {
    while let Some((node, _)) = place.held_node() {
        let path = format!("{}/{}", place.folder, node.name);
        // A failure says that the connection broke, which the session may survive.
        let Ok((stat, watcher)) = link.client.check_and_watch_stat(&path).await else {
            return place.watch_later();
        };
        if stat.is_none() {
            return link.losses.ring(&[place.owner]);
        }
        // Also when it was written to.
        link.changed(watcher).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fencepost_rig::Zookeeper as Server;
    use zookeeper_client::Client;

    use crate::error::Operation;
    use crate::stores::zookeeper::Zookeeper;
    use crate::{Guard, Locker, LostReason};

    /// The TTL, and the session timeout.
    const LONG: Duration = Duration::from_secs(60);
    /// Less than the third of the TTL after which the next renewal is due.
    const BEFORE_THE_RENEWAL: Duration = Duration::from_secs(15);

    async fn holder() -> (Server, Arc<Zookeeper>, Guard) {
        let server = Server::start().expect("a private ZooKeeper");
        let address = format!("zk://{}", server.address());
        let store = Zookeeper::builder(&address).session_timeout(LONG);
        let store = Arc::new(store.open().await.expect("a session"));
        let locker = Locker::builder(store.clone()).ttl(LONG);
        let locker = locker.build().expect("a locker");
        let guard = locker.acquire("stock").await.expect("the lock");
        (server, store, guard)
    }

    async fn is_told(guard: &Guard) {
        let lost = tokio::time::timeout(BEFORE_THE_RENEWAL, guard.lost()).await;
        let lost = lost.expect("told before the next renewal");
        assert_eq!(lost.reason(), LostReason::Gone);
    }

    use super::*;

    #[tokio::test]
    async fn who_loses_its_session_is_told_at_once() {
        let (server, store, guard) = holder().await;
        let link = store.hub.link(Operation::Open).await.expect("a session");
        let session = link.client.session().clone();
        drop(link);
        // Whoever takes the session over and closes it ends it for everybody.
        let address = server.address().to_string();
        let steal = || Client::connector().with_session(session.clone());
        // On a busy machine the server may take longer to answer than the client waits.
        while steal().connect(&address).await.map(drop).is_err() {}
        is_told(&guard).await;
    }

    #[tokio::test]
    async fn who_loses_its_node_is_told_at_once() {
        let (_server, store, guard) = holder().await;
        let link = store.hub.link(Operation::Open).await.expect("a session");
        let place = link.place(guard.owner()).expect("a place");
        let (node, _) = place.held_node().expect("a node");
        let path = format!("{}/{}", place.folder, node.name);
        link.client.delete(&path, None).await.expect("deleted");
        is_told(&guard).await;
    }
}
