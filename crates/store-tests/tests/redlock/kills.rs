//! Holders that are killed or stopped.

use std::time::Duration;

use fencepost::resource::RedisRegister;
use fencepost::stores::redis::Redis;
use fencepost_rig::{Child, Feed, Signal, feed};

use crate::actor::{Part, Report, hear};
use crate::support::{LONG, NAME, Servers, is_soak, locker, now, run, soon};

const TTL: Duration = Duration::from_secs(2);

/// What a busy machine may add to what is promised. In a soak the tests are alone.
fn grace() -> Duration {
    Duration::from_millis(if is_soak() { 700 } else { 3_000 })
}

fn holder(servers: &Servers) -> (Child, Feed) {
    let part = Part {
        address: servers.address(),
        register: servers.0[0].url(),
        ttl: TTL,
    };
    let (feed, ears) = feed();
    let child = part.start(&ears);
    assert_eq!(hear(&feed, LONG), Some(Report::Holds));
    (child, feed)
}

/// A killed holder costs the rest of its lease.
pub(crate) fn a_killed_holder() {
    run(async {
        let servers = Servers::start();
        let next = locker(&servers.store().await, LONG);
        let (mut child, _feed) = holder(&servers);
        child.signal(Signal::SIGKILL).unwrap();
        child.wait(LONG).unwrap();
        let killed = now();
        let guard = soon("the lock", next.acquire(NAME)).await.unwrap();
        let cost = now().since(killed);
        println!("a killed holder with a TTL of {TTL:?} cost {cost:?}");
        assert!(cost < TTL + grace(), "{cost:?}");
        assert!(guard.release().await.is_released());
        servers.are_clean().await;
    });
}

/// A holder is stopped beyond its TTL, and writes as soon as it wakes: the resource refuses, and it knows that it has lost the lock.
pub(crate) fn a_stopped_holder() {
    run(async {
        let servers = Servers::start();
        let next = locker(&servers.store().await, LONG);
        let register = Redis::open(&servers.0[0].url()).await.unwrap();
        let register = RedisRegister::new(&register, "count");
        let (mut child, feed) = holder(&servers);
        child.signal(Signal::SIGSTOP).unwrap();
        assert!(child.wait_stopped(LONG));
        let guard = soon("the lock", next.acquire(NAME)).await.unwrap();
        register.write(guard.credential(), "in time").await.unwrap();
        child.send(&"write").unwrap();
        child.signal(Signal::SIGCONT).unwrap();
        assert_eq!(hear(&feed, LONG), Some(Report::Refused));
        assert_eq!(hear(&feed, LONG), Some(Report::Lost));
        let kept = register.read(guard.credential()).await.unwrap();
        assert_eq!(kept.as_deref(), Some(&b"in time"[..]));
        assert!(guard.release().await.is_released());
    });
}
