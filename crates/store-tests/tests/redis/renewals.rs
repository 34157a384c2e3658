//! Renewals of many leases at a Redis server with high latency.

use std::time::{Duration, Instant};

use fencepost::{Guard, Locker};
use fencepost_rig::Direction;
use futures_util::{StreamExt, stream};

use crate::support::{LONG, Server, open, run};

/// Renewing one after another would take longer than one renewal may. They are sent together, and each answer counts
/// separately.
pub(crate) fn many_at_a_distance() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        // A renewal has a quarter of the TTL for its answer: several round trips, with time to spare on a busy machine.
        let ttl = Duration::from_secs(16);
        let locker = Locker::builder(open(proxy.address()).await).ttl(ttl);
        let locker = locker.store_timeout(LONG).build().unwrap();
        let taking = (0..5_000).map(|number| locker.acquire(format!("stock:{number}")));
        let taking = stream::iter(taking).buffer_unordered(256);
        let guards: Vec<Guard> = taking.map(Result::unwrap).collect().await;
        for direction in [Direction::ToServer, Direction::ToClient] {
            proxy.delay(direction, Duration::from_millis(500));
        }
        // A lease that is valid after that has been renewed.
        let since = Instant::now();
        while since.elapsed() <= ttl {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let lost = guards.iter().filter(|guard| guard.is_lost()).count();
            assert_eq!(lost, 0, "lost though the server answers");
        }
        proxy.heal();
        drop(guards);
        locker.shutdown().await;
        server.wait_until_clean().await;
    });
}
