//! Real processes that are stopped or killed while they hold a lease in the table or wait for one.

use std::time::Duration;

use fencepost::pg_tx::PgGate;
use fencepost_rig::{Child, feed};
use fencepost_store_tests::actor::{Part, Task, kill, served, stop, wake, writes_too_late};

use crate::actor::{At, write};
use crate::support::{LONG, NAME, Server, WINDOW, grace, locker, now, run, soon};

fn holder(server: &Server, ttl: Duration) -> Part<At> {
    Part {
        store: At(server.0.url()),
        ttl,
        task: Task::Hold,
    }
}

fn waiter(server: &Server) -> Part<At> {
    let hold = Duration::from_millis(5);
    Part {
        store: At(server.0.url()),
        ttl: LONG,
        task: Task::WaitOnce { waiters: 1, hold },
    }
}

/// The next process gets the lock when the rest of the lease is over, and not before.
pub(crate) fn a_killed_holder() {
    run(async {
        let server = Server::start().await;
        let next = locker(&server.store().await, LONG);
        let plain = server.plain().await;
        let (mut holder, _feed, _) = holder(&server, Duration::from_secs(2)).start_holding();
        let waiting = tokio::spawn(async move { next.acquire(NAME).await.unwrap() });
        server.wait_for_line(1).await;
        kill(&mut holder);
        let rest = Duration::from_millis(plain.left_ms().await.max(0).cast_unsigned());
        let killed = now();
        let guard = soon("the lock", waiting).await.unwrap();
        let took = now().saturating_duration_since(killed);
        println!("kills: {took:?} after a holder was killed with {rest:?} of its lease left");
        assert!(
            took + Duration::from_millis(20) > rest && took < rest + grace(),
            "{took:?}, {rest:?}"
        );
        assert!(guard.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// The process behind it gets the lock after half a second, although the TTL is a minute.
pub(crate) fn a_killed_waiter() {
    run(async {
        let server = Server::start().await;
        let holder = locker(&server.store().await, LONG);
        let behind = locker(&server.store().await, LONG);
        let held = holder.acquire(NAME).await.unwrap();
        let (_feed, sender) = feed();
        let mut dead = waiter(&server).start(0, &sender);
        server.wait_for_line(1).await;
        let waiting = tokio::spawn(async move { behind.acquire(NAME).await.unwrap() });
        server.wait_for_line(2).await;
        kill(&mut dead);
        let released = now();
        assert!(held.release().await.is_released());
        let guard = soon("the lock", waiting).await.unwrap();
        let took = now().saturating_duration_since(released);
        println!("kills: a killed waiter cost {took:?}");
        assert!(took < WINDOW + grace(), "{took:?}");
        assert!(guard.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// Sixteen processes wait, and ten consecutive ones are killed. The other six are served, and all dead together cost little
/// more than a second.
pub(crate) fn ten_of_sixteen() {
    run(async {
        let server = Server::start().await;
        let holder = locker(&server.store().await, LONG);
        let held = holder.acquire(NAME).await.unwrap();
        let (feed, sender) = feed();
        let mut children: Vec<Child> = Vec::new();
        for id in 0..16 {
            children.push(waiter(&server).start(id, &sender));
            server.wait_for_line(id as i64 + 1).await;
        }
        for child in &mut children[3..13] {
            kill(child);
        }
        let mut grants = vec![(i64::MIN, now().as_nanos())];
        assert!(held.release().await.is_released());
        let mut unserved = vec![0, 1, 2, 13, 14, 15];
        while !unserved.is_empty() {
            let (id, served) = served(&feed);
            assert_eq!(served.outcome, "Released");
            grants.push((served.fence, served.granted_ns));
            unserved.retain(|unserved| *unserved != id);
        }
        grants.sort_unstable();
        let gaps = grants
            .windows(2)
            .map(|pair| Duration::from_nanos(pair[1].1.saturating_sub(pair[0].1)));
        let widest = gaps.max().unwrap();
        println!("kills: ten of sixteen waiters killed, the widest gap was {widest:?}");
        assert!(widest < WINDOW + 9 * WINDOW / 8 + grace(), "{widest:?}");
        drop(children);
        server.wait_until_clean().await;
    });
}

/// The process is stopped for longer than its TTL while it holds, and writes as soon as it continues. The resource refuses, and
/// the holder knows.
pub(crate) fn a_holder_stopped_beyond_its_ttl() {
    run(async {
        let server = Server::start().await;
        let mut plain = server.plain().await;
        PgGate::create(&plain.0).await.unwrap();
        plain
            .does("CREATE TABLE note (text text); INSERT INTO note VALUES ('')")
            .await;
        let next = locker(&server.store().await, LONG);
        let (mut stopped, feed, _) = holder(&server, Duration::from_secs(1)).start_holding();
        stop(&stopped);
        let guard = soon("the lock", next.acquire(NAME)).await.unwrap();
        write(&mut plain.0, guard.credential(), "in time")
            .await
            .unwrap();
        writes_too_late(&mut stopped, &feed);
        assert_eq!(plain.text("SELECT text FROM note").await, "in time");
        assert!(guard.release().await.is_released());
        drop(stopped);
        server.wait_until_clean().await;
    });
}

/// The process is stopped when its turn comes. The next one goes first, and when the process continues, it is served in its old
/// place.
pub(crate) fn a_waiter_stopped_across_its_turn() {
    run(async {
        let server = Server::start().await;
        let holder = locker(&server.store().await, LONG);
        let held = holder.acquire(NAME).await.unwrap();
        let (feed, sender) = feed();
        let stopped = waiter(&server).start(0, &sender);
        server.wait_for_line(1).await;
        stop(&stopped);
        // A waiter asks once more when it has its place. If the server answered that only after the release, it would grant the lock to a
        // process that is stopped.
        server.wait_until_idle().await;
        assert!(held.release().await.is_released());
        let asked = now();
        let next = soon("the lock", holder.acquire(NAME)).await.unwrap();
        let cost = now().saturating_duration_since(asked);
        println!("kills: a stopped waiter cost {cost:?}");
        assert!(cost < WINDOW + grace(), "{cost:?}");
        // Behind it in line, once it has continued.
        let late = holder.clone();
        let waiting = tokio::spawn(async move { late.acquire(NAME).await.unwrap() });
        server.wait_for_line(1).await;
        wake(&stopped);
        server.wait_for_line(2).await;
        let fence = next.fence().as_i64();
        assert!(next.release().await.is_released());
        let (_, first) = tokio::task::spawn_blocking(move || served(&feed))
            .await
            .unwrap();
        let last = soon("the last", waiting).await.unwrap();
        assert_eq!(first.outcome, "Released");
        assert!(
            fence < first.fence && first.fence < last.fence().as_i64(),
            "not its old place"
        );
        assert!(last.release().await.is_released());
        drop(stopped);
        server.wait_until_clean().await;
    });
}
