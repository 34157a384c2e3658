//! Connections to Redlock servers that die silently under a holder.

use std::time::Duration;

use fencepost_store_tests::redis::dies_silently;

use crate::support::{NAME, Servers, eventually, locker, run};

/// All connections die silently at once. The renewal without an answer replaces them, and the next one is in time.
pub(crate) fn a_dead_connection_does_not_lose_a_lock() {
    run(async {
        let servers = Servers::start();
        for ttl in [3000, 4000].map(Duration::from_millis) {
            let roads = servers.roads();
            let locker = locker(&roads.store().await, ttl);
            let guard = servers.held_everywhere(&locker).await;
            roads.0.iter().for_each(dies_silently);
            let is_held = || assert!(!guard.is_lost(), "lost with a TTL of {ttl:?}");
            eventually("other connections", async || {
                is_held();
                roads.0.iter().all(|road| road.counts().connections >= 2)
            })
            .await;
            let mut plain = [0, 1, 2].map(|at| servers.plain(at));
            let enough = i64::try_from(ttl.as_millis()).unwrap() * 8 / 10;
            eventually("a renewal", async || {
                is_held();
                let mut left = plain.iter_mut().map(|plain| plain.number(&["PTTL", NAME]));
                left.all(|left| left > enough)
            })
            .await;
            assert!(guard.release().await.is_released());
            locker.shutdown().await;
        }
        servers.are_clean().await;
    });
}
