//! A claim for a row of the lease table waits while a standby replaces the primary.

use fencepost_rig::Proxy;

use crate::support::{LONG, NAME, Plain, Server, eventually, locker, open, run, soon};

/// The address leads to the standby before it is promoted. A waiter retries until then.
pub(crate) fn a_waiter_meets_a_standby() {
    run(async {
        let mut primary = Server::start().await;
        let proxy = Proxy::start(primary.0.address()).unwrap();
        let store = open(proxy.address()).await;
        let held = locker(&store, LONG).acquire(NAME).await.unwrap();
        let waiter = locker(&store, LONG);
        let waiting = tokio::spawn(async move { waiter.acquire(NAME).await });
        primary.wait_for_line(1).await;
        // A copy of the primary, with the holder's row.
        let standby = primary.0.standby().unwrap();
        primary.0.crash();
        proxy.point_at(standby.address());
        let before = proxy.counts().connections;
        eventually("the waiter has met the standby", async || {
            waiting.is_finished() || proxy.counts().connections >= before + 3
        })
        .await;
        if waiting.is_finished() {
            panic!("it was thrown out: {:?}", waiting.await);
        }
        let promoted = Plain::open(&standby.url()).await;
        promoted.does("SELECT pg_promote()").await;
        let released = soon("the release", held.release()).await;
        assert!(released.is_released(), "{released:?}");
        let guard = soon("the waiter's turn", waiting).await.unwrap().unwrap();
        assert!(guard.release().await.is_released());
    });
}
