//! Connections to etcd that are cut or go silent at every point of the protocol.

use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::etcd::Etcd;
use fencepost_rig::{Amount, Direction, Proxy};
use fencepost_store_tests::eventually;

use crate::support::{
    LONG, NAME, Plain, locker, open, released, run, run_within, soon, until_waiting, works,
};

/// The distance between two cuts, in bytes.
const STEP: usize = 29;

/// Acquires, renews and releases over a connection that is cut after every number of bytes, in either direction. Whatever the
/// answer, nothing is left, and fences increase.
pub(crate) fn cut_at_every_byte() {
    run_within(4 * LONG, async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let proxy = Proxy::start(server.address()).unwrap();
        let mut plain = Plain::open(server.address()).await;
        let store = open(&format!("etcd://{}", proxy.address())).await;
        let mut last = 0;
        let mut cuts = 0;
        for direction in [Direction::ToServer, Direction::ToClient] {
            for bytes in (0_u64..).step_by(STEP) {
                let locker = locker(&store, LONG);
                let connections = proxy.counts().connections;
                proxy.cut_after(direction, Amount::Bytes(bytes));
                // The client recovers from one cut by asking again. A connection that is cut twice may cause an error, but
                // never a wrong answer.
                if let Ok(guard) = soon("an answer", locker.acquire(NAME)).await {
                    assert!(guard.fence().epoch() > last);
                    last = guard.fence().epoch();
                    let _ = soon("an answer", guard.extend(2 * LONG)).await;
                    let outcome = soon("an answer", guard.release()).await;
                    assert!(outcome.is_released(), "{direction:?} {bytes}: {outcome:?}");
                }
                proxy.heal();
                soon("everything to be given back", locker.shutdown()).await;
                plain.wait_until_clean().await;
                if proxy.counts().connections == connections {
                    // The whole conversation was shorter than this.
                    break;
                }
                cuts += 1;
            }
        }
        println!("cut_at_every_byte: cut at {cuts} points");
        assert!(cuts > 20, "it was to be cut more often: {cuts}");
    });
}

/// The first answer takes longer than an answer of an open store may. The limit for connecting applies.
pub(crate) fn slow_to_connect() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let proxy = Proxy::start(server.address()).unwrap();
        for direction in [Direction::ToServer, Direction::ToClient] {
            proxy.delay(direction, Duration::from_millis(1_200));
        }
        let store = Etcd::builder(&format!("etcd://{}", proxy.address()));
        let store = store.connect_timeout(Duration::from_secs(20)).open();
        let store = tokio::time::timeout(LONG, store).await;
        let store = Arc::new(store.expect("an answer").unwrap());
        proxy.heal();
        works(&store, 0).await;
    });
}

/// The connection of a waiter is cut. It keeps its place and learns of its turn over another connection.
pub(crate) fn cut_while_waiting() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let proxy = Proxy::start(server.address()).unwrap();
        let (holder, waiter) = (
            open(&server.url()).await,
            open(&format!("etcd://{}", proxy.address())).await,
        );
        let held = locker(&holder, LONG).acquire(NAME).await.unwrap();
        let waiting = tokio::spawn({
            let locker = locker(&waiter, LONG);
            async move { locker.acquire(NAME).await }
        });
        until_waiting(&holder, 1).await;
        let first = holder.inspect_line().await;
        proxy.cut();
        tokio::time::timeout(LONG, async {
            while proxy.counts().connections < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("a new connection");
        assert_eq!(holder.inspect_line().await, first, "the same place");
        released(held).await;
        let guard = soon("the lock", waiting).await.unwrap().unwrap();
        released(guard).await;
        Plain::open(server.address()).await.wait_until_clean().await;
    });
}

/// Answers disappear while the connection stays open. The client abandons it and repeats all requests.
pub(crate) fn answers_swallowed() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let proxy = Proxy::start(server.address()).unwrap();
        let store = open(&format!("etcd://{}", proxy.address())).await;
        let mut plain = Plain::open(server.address()).await;
        let locker = locker(&store, LONG);
        let held = locker.acquire("held").await.unwrap();
        proxy.swallow(Direction::ToClient);
        let before = proxy.counts().to_client.swallowed;
        let asking = tokio::spawn({
            let locker = locker.clone();
            async move { locker.acquire(NAME).await }
        });
        eventually("an answer to its first request is lost", async || {
            proxy.counts().to_client.swallowed > before
        })
        .await;
        proxy.heal();
        let guard = soon("the lock", asking).await.unwrap().unwrap();
        released(guard).await;
        held.extend(2 * LONG).await.unwrap();
        released(held).await;
        plain.wait_until_clean().await;
    });
}

trait Line {
    async fn inspect_line(&self) -> usize;
}

impl Line for Arc<Etcd> {
    async fn inspect_line(&self) -> usize {
        use fencepost::Backend;
        let record = self.inspect(&NAME.try_into().unwrap()).await.unwrap();
        record.map_or(0, |record| record.waiting.len())
    }
}
