//! Real processes that are killed or stopped while they hold a Redlock.

use std::time::Duration;

use fencepost::resource::RedisRegister;
use fencepost::stores::redis::Redis;
use fencepost_rig::{Child, Feed};
use fencepost_store_tests::actor::{Part, Task, kill, stop, writes_too_late};

use crate::actor::At;
use crate::support::{LONG, NAME, Servers, locker, now, run, soon};

const TTL: Duration = Duration::from_secs(2);

fn grace() -> Duration {
    fencepost_store_tests::grace(Duration::from_millis(700))
}

fn holder(servers: &Servers) -> (Child, Feed) {
    let part = Part {
        store: At {
            servers: servers.address(),
            register: servers.0[0].url(),
        },
        ttl: TTL,
        task: Task::Hold,
    };
    let (child, feed, _) = part.start_holding();
    (child, feed)
}

/// A killed holder costs the rest of its lease.
pub(crate) fn a_killed_holder() {
    run(async {
        let servers = Servers::start();
        let next = locker(&servers.store().await, LONG);
        let (mut child, _feed) = holder(&servers);
        kill(&mut child);
        let killed = now();
        let guard = soon("the lock", next.acquire(NAME)).await.unwrap();
        let cost = now().saturating_duration_since(killed);
        println!("a killed holder with a TTL of {TTL:?} cost {cost:?}");
        assert!(cost < TTL + grace(), "{cost:?}");
        assert!(guard.release().await.is_released());
        servers.are_clean().await;
    });
}

/// A holder is stopped for longer than its TTL, and writes as soon as it continues. The resource refuses, and the holder knows
/// that it has lost the lock.
pub(crate) fn a_stopped_holder() {
    run(async {
        let servers = Servers::start();
        let next = locker(&servers.store().await, LONG);
        let register = Redis::open(&servers.0[0].url()).await.unwrap();
        let register = RedisRegister::new(&register, "count");
        let (mut child, feed) = holder(&servers);
        stop(&child);
        let guard = soon("the lock", next.acquire(NAME)).await.unwrap();
        register.write(guard.credential(), "in time").await.unwrap();
        writes_too_late(&mut child, &feed);
        let kept = register.read(guard.credential()).await.unwrap();
        assert_eq!(kept.as_deref(), Some(&b"in time"[..]));
        assert!(guard.release().await.is_released());
    });
}
