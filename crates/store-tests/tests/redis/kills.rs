//! Real processes that are stopped or killed while they wait for a lock in Redis or hold it.

use std::time::Duration;

use fencepost::resource::RedisRegister;
use fencepost_rig::{Child, Feed, Signal, feed};
use fencepost_store_tests::actor::{kill, served, stop, wake, writes_too_late};

use crate::actor::{At, Part, Task, free_if_long_held};
use crate::support::{
    LONG, NAME, Server, WAITER_LEASE, eventually, kept_for, locker, now, run, soon,
};

fn grace() -> Duration {
    fencepost_store_tests::grace(Duration::from_millis(500))
}

fn waiter(server: &Server, hold: Duration) -> Part {
    Part {
        store: At(server.0.url()),
        ttl: LONG,
        task: Task::WaitOnce { waiters: 1, hold },
    }
}

/// A waiter is stopped when the lock is handed to it, and continues when that lease is over. The grant it then receives is
/// worthless, but it is served nevertheless.
pub(crate) fn a_waiter_stopped_across_its_grant() {
    run(async {
        let server = Server::start();
        let holder = locker(&server.store().await, LONG);
        let held = holder.acquire(NAME).await.unwrap();
        let (feed, sender) = feed();
        let stopped = waiter(&server, Duration::ZERO).start(0, &sender);
        server.wait_for_line(NAME, 1).await;
        // Its last heartbeat was only a moment ago.
        stop(&stopped);
        assert!(held.release().await.is_released());
        let handed_on = server.plain().text(&["GET", NAME]);
        assert!(
            handed_on.is_some(),
            "a stopped one counts as alive for a while"
        );

        // The others wait no longer than two waiter leases for it.
        let asked = now();
        let next = soon("the lock", holder.acquire(NAME)).await.unwrap();
        let cost = now().saturating_duration_since(asked);
        assert!(cost < 2 * WAITER_LEASE + grace(), "cost {cost:?}");
        wake(&stopped);
        server.wait_for_line(NAME, 1).await;
        let mut plain = server.plain();
        eventually("the full lease", async || {
            kept_for(&mut plain, next.owner()) > WAITER_LEASE
        })
        .await;
        assert!(!next.is_lost());
        let fence = next.fence().as_i64();
        assert!(next.release().await.is_released());
        let (_, late) = tokio::task::spawn_blocking(move || served(&feed))
            .await
            .unwrap();
        assert_eq!(late.outcome, "Released");
        assert!(late.fence > fence, "it took its old grant for a lock");
        drop(stopped);
        server.wait_until_clean().await;
    });
}

/// The holder is stopped for longer than its TTL, and writes as soon as it continues. The resource refuses, and the holder
/// knows.
pub(crate) fn a_holder_stopped_beyond_its_ttl() {
    run(async {
        let server = Server::start();
        let store = server.store().await;
        let register = RedisRegister::new(&store, "count");
        let next = locker(&store, LONG);
        let part = Part {
            store: At(server.0.url()),
            ttl: Duration::from_secs(1),
            task: Task::Hold,
        };
        let (mut stopped, feed, _) = part.start_holding();
        stop(&stopped);
        let guard = soon("the lock", next.acquire(NAME)).await.unwrap();
        register.write(guard.credential(), "in time").await.unwrap();
        writes_too_late(&mut stopped, &feed);
        assert_eq!(
            register.read(guard.credential()).await.unwrap().as_deref(),
            Some(&b"in time"[..])
        );
        assert!(guard.release().await.is_released());
    });
}

pub(crate) fn at_once() {
    ten_of_sixteen(Manner::AtOnce);
}

pub(crate) fn one_by_one() {
    ten_of_sixteen(Manner::OneByOne);
}

/// A monitor subscribes to every channel, so that the channels of dead waiters look alive.
pub(crate) fn under_a_monitor() {
    ten_of_sixteen(Manner::UnderMonitor);
}

pub(crate) fn one_by_one_under_a_monitor() {
    ten_of_sixteen(Manner::OneByOneUnderMonitor);
}

enum Manner {
    AtOnce,
    OneByOne,
    UnderMonitor,
    OneByOneUnderMonitor,
}

impl Manner {
    fn is_monitored(&self) -> bool {
        matches!(self, Self::UnderMonitor | Self::OneByOneUnderMonitor)
    }
}

/// Returns the widest gap between two grants until all of these are served.
fn widest_gap(released_ns: u64, feed: &Feed, living: &[(usize, Child)]) -> Duration {
    let mut grants = vec![(i64::MIN, released_ns)];
    let mut unserved: Vec<usize> = living.iter().map(|(id, _)| *id).collect();
    while !unserved.is_empty() {
        let (id, served) = served(feed);
        assert_eq!(served.outcome, "Released");
        grants.push((served.fence, served.granted_ns));
        unserved.retain(|unserved| *unserved != id);
    }
    // Sorted by fence, because a process may report late.
    grants.sort_unstable();
    let gaps = grants.windows(2).map(|pair| {
        assert!(pair[0].0 < pair[1].0, "a fence came twice");
        Duration::from_nanos(pair[1].1.saturating_sub(pair[0].1))
    });
    gaps.max().unwrap()
}

/// Sixteen processes wait, and ten are killed. The other six are served, and no dead waiter costs a TTL.
fn ten_of_sixteen(manner: Manner) {
    run(async {
        let server = Server::start();
        let mut monitor = server.plain();
        if manner.is_monitored() {
            monitor.does(&["PSUBSCRIBE", "*"]);
        }
        let holder = locker(&server.store().await, LONG);
        let held = holder.acquire(NAME).await.unwrap();
        let (feed, sender) = feed();
        let mut children: Vec<Child> = Vec::new();
        for id in 0..16 {
            children.push(waiter(&server, Duration::from_millis(5)).start(id, &sender));
            server.wait_for_line(NAME, id as i64 + 1).await;
        }
        // The killed ones are next to each other in line: if each cost its own lease, the costs would add up.
        let (mut living, mut dying): (Vec<_>, Vec<_>) = children
            .into_iter()
            .enumerate()
            .partition(|(id, _)| !(3..13).contains(id));
        assert_eq!((living.len(), dying.len()), (6, 10));
        let released_ns = match manner {
            Manner::OneByOne | Manner::OneByOneUnderMonitor => {
                let released_ns = now().as_nanos();
                assert!(held.release().await.is_released());
                for at in 0..dying.len() {
                    kill(&mut dying[at].1);
                    free_if_long_held(&server, dying[..=at].iter().map(|(_, child)| child));
                }
                released_ns
            }
            _ => {
                for (_, child) in &dying {
                    child.signal(Signal::SIGKILL).unwrap();
                }
                let released_ns = now().as_nanos();
                assert!(held.release().await.is_released());
                released_ns
            }
        };
        let widest = widest_gap(released_ns, &feed, &living);
        println!("ten of sixteen killed: the widest gap was {widest:?}");
        assert!(widest < 2 * WAITER_LEASE + grace(), "a gap of {widest:?}");
        for (_, child) in &mut living {
            eventually("the end of a child", async || child.status().is_some()).await;
        }
        drop((living, dying));
        server.wait_until_clean().await;
    });
}
