//! A network that breaks, at every point of what we say and hear.

use std::time::Duration;

use fencepost_rig::{Amount, Direction, Proxy};

use crate::support::{
    LONG, NAME, Plain, locker, open, released, run, run_within, soon, until_waiting,
};

/// Every so many bytes.
const STEP: usize = 29;

/// Acquisition, renewal and release with a connection that is cut after every number of bytes, either way: whatever is answered, nothing is
/// left, and fences grow.
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
                // One cut is made up for by asking again; a connection cut twice may be an error, but never a wrong answer.
                if let Ok(guard) = soon("an answer", locker.acquire(NAME)).await {
                    assert!(guard.fence().epoch() > last);
                    last = guard.fence().epoch();
                    let _ = soon("an answer", guard.extend(2 * LONG)).await;
                    let outcome = soon("an answer", guard.release()).await;
                    assert!(outcome.is_released(), "{direction:?} {bytes}: {outcome:?}");
                }
                proxy.heal();
                soon("everything to be given back", locker.shutdown()).await;
                plain.is_clean().await;
                if proxy.counts().connections == connections {
                    // All that was said was less.
                    break;
                }
                cuts += 1;
            }
        }
        println!("cut_at_every_byte: cut at {cuts} points");
        assert!(cuts > 20, "it was to be cut more often: {cuts}");
    });
}

/// The connection of one who waits is cut: it keeps its place and hears of its turn over another.
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
        Plain::open(server.address()).await.is_clean().await;
    });
}

/// Answers vanish while the connection stays: it is given up, and everything asked again.
pub(crate) fn answers_swallowed() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let proxy = Proxy::start(server.address()).unwrap();
        let store = open(&format!("etcd://{}", proxy.address())).await;
        let mut plain = Plain::open(server.address()).await;
        let locker = locker(&store, LONG);
        let held = locker.acquire("held").await.unwrap();
        proxy.swallow(Direction::ToClient);
        let asking = tokio::spawn({
            let locker = locker.clone();
            async move { locker.acquire(NAME).await }
        });
        // Its first question is on its way, and never answered.
        tokio::time::sleep(Duration::from_millis(100)).await;
        proxy.heal();
        let guard = soon("the lock", asking).await.unwrap().unwrap();
        released(guard).await;
        held.extend(2 * LONG).await.unwrap();
        released(held).await;
        plain.is_clean().await;
    });
}

trait Line {
    async fn inspect_line(&self) -> usize;
}

impl Line for std::sync::Arc<fencepost::stores::etcd::Etcd> {
    async fn inspect_line(&self) -> usize {
        use fencepost::Backend;
        let record = self.inspect(&NAME.try_into().unwrap()).await.unwrap();
        record.map_or(0, |record| record.waiting.len())
    }
}
