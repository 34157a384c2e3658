//! An ensemble of three ZooKeeper servers that lose contact with each other.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost::clock::Moment;
use fencepost::stores::zookeeper::Zookeeper;
use fencepost::{Guard, Locker, LostReason};
use fencepost_rig::{Direction, Proxy, Signal, ZookeeperEnsemble};
use fencepost_store_tests::actor::{stop, wake};
use fencepost_store_tests::eventually;

use crate::kills::{is_served_after, waiting};
use crate::support::{
    BASE, Eyes, GRACE, LONG, NAME, SESSION, locker, now, open, run, soon, take, until_quiet,
};

struct Ensemble(ZookeeperEnsemble);

impl Ensemble {
    fn start() -> Self {
        Self(ZookeeperEnsemble::start().unwrap())
    }

    /// Starts an ensemble whose first server can be cut off.
    fn start_apart() -> Self {
        Self(ZookeeperEnsemble::start_apart().unwrap())
    }

    /// Returns the first server, which is a follower while the others are there.
    fn first(&self) -> SocketAddr {
        self.0.servers[0].address()
    }

    fn leader(&self) -> SocketAddr {
        self.0.servers[self.0.leader().unwrap()].address()
    }

    async fn everywhere(&self, session: Duration) -> Arc<Zookeeper> {
        let hosts: Vec<String> = self
            .0
            .servers
            .iter()
            .map(|server| server.address().to_string())
            .collect();
        let address = format!("zk://{}{BASE}", hosts.join(","));
        let builder = Zookeeper::builder(&address).session_timeout(session);
        let builder = builder.connect_timeout(LONG);
        Arc::new(builder.open().await.unwrap())
    }
}

/// Another leader is elected, and held locks stay held.
pub(crate) fn leader_killed() {
    run(async {
        let mut ensemble = Ensemble::start();
        let session = LONG;
        let patient = async || {
            let builder = Locker::builder(ensemble.everywhere(session).await);
            let builder = builder.ttl(session).without_hand_over();
            builder.store_timeout(session).build().unwrap()
        };
        let (ours, rival) = (patient().await, patient().await);
        let guard = ours.acquire(NAME).await.unwrap();
        let waiting = tokio::spawn(async move { rival.acquire(NAME).await.unwrap() });
        // A waiter that was told that it waits does so through an election; one that was not may give up.
        Eyes::open(ensemble.leader()).await.wait_for_line(2).await;
        let leader = ensemble.0.leader().unwrap();
        ensemble.0.servers[leader].crash();
        let crashed = now();
        // Confirmed by a majority of the remaining servers.
        while guard.extend(session).await.is_err() {
            assert!(
                !guard.is_lost(),
                "lost although its session lasts for {session:?}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        println!(
            "the leader was killed: a renewal was answered {:?} later",
            now().saturating_duration_since(crashed)
        );
        assert!(!waiting.is_finished());
        let fence = guard.fence();
        assert!(guard.release().await.is_released());
        let next = tokio::time::timeout(LONG, waiting).await.unwrap().unwrap();
        assert!(next.fence() > fence);
        assert!(next.release().await.is_released());
        let last = soon("the lock", ours.acquire(NAME)).await.unwrap();
        // The upper half of a transaction number counts elections.
        assert!(last.fence().epoch() >> 32 > fence.epoch() >> 32);
    });
}

/// The server that we are connected to still answers, but cannot keep a lock alive alone.
pub(crate) fn majority_lost() {
    run(async {
        let ensemble = Ensemble::start();
        let ours = locker(&open(ensemble.first(), SESSION).await, SESSION);
        let eyes = Eyes::open(ensemble.first()).await;
        let guard = ours.acquire(NAME).await.unwrap();
        let stopped = now();
        for server in &ensemble.0.servers[1..] {
            server.signal(Signal::SIGSTOP).unwrap();
        }
        let lost = soon("the loss", guard.lost()).await;
        let told = now().saturating_duration_since(stopped);
        assert_eq!(lost.reason(), LostReason::Expired);
        assert!(told < SESSION + GRACE, "{told:?}");
        assert_eq!(eyes.line().await.len(), 1, "it still answers");
        for server in &ensemble.0.servers[1..] {
            server.signal(Signal::SIGCONT).unwrap();
        }
        let next = take(&ours).await;
        assert!(next.fence() > guard.fence());
        assert!(next.release().await.is_released());
    });
}

/// A follower loses contact with the others but continues to answer. A holder that uses it is notified before the others grant
/// the lock.
pub(crate) fn follower_cut_off() {
    run(async {
        let ensemble = Ensemble::start_apart();
        let ours = locker(&open(ensemble.first(), SESSION).await, SESSION);
        let rival = locker(&open(ensemble.leader(), SESSION).await, SESSION);
        let eyes = Eyes::open(ensemble.first()).await;
        let guard = Arc::new(ours.acquire(NAME).await.unwrap());
        let waiting = tokio::spawn({
            let guard = guard.clone();
            async move {
                let next = rival.acquire(NAME).await.unwrap();
                assert!(guard.is_lost(), "two holders at a time");
                (now(), next)
            }
        });
        eyes.wait_for_line(2).await;
        let cut = now();
        ensemble.0.cut_off_the_first();
        soon("the loss", guard.lost()).await;
        let told_at = now();
        let (granted_at, next) = soon("the rival", waiting).await.unwrap();
        assert_eq!(
            eyes.line().await.len(),
            2,
            "the follower knows nothing of that"
        );
        let after = |moment: Moment| moment.saturating_duration_since(cut);
        println!(
            "a follower was cut off: its client told after {:?}, the rival served after {:?}",
            after(told_at),
            after(granted_at)
        );
        assert!(next.fence() > guard.fence());
        ensemble.0.heal();
        assert!(next.release().await.is_released());
        let again = take(&ours).await;
        assert!(again.release().await.is_released());
    });
}

/// The waiter's turn has come, but the notification arrives late, from a server that has lost contact with the leader since. It
/// is unknown how much longer the leader waits for its session.
pub(crate) fn turn_told_late_by_a_follower_cut_off() {
    run(async {
        let ensemble = Ensemble::start_apart();
        let (session, long) = (SESSION * 2, SESSION * 10);
        let holder = locker(&open(ensemble.leader(), long).await, long);
        let held = holder.acquire(NAME).await.unwrap();
        let road = Proxy::start(ensemble.first()).unwrap();
        let here = Eyes::open(ensemble.first()).await;
        let got: Arc<Mutex<Option<Guard>>> = Arc::default();
        let waiting = tokio::spawn({
            let waiter = locker(&open(road.address(), session).await, session);
            let got = got.clone();
            async move {
                let guard = waiter.acquire(NAME).await.unwrap();
                *got.lock().unwrap() = Some(guard);
            }
        });
        here.wait_for_line(2).await;
        until_quiet(&road).await;
        road.delay(Direction::ToClient, Proxy::FOREVER);
        // Whether it was answered in time does not matter here: the server has carried it out when the line is shorter.
        let _ = held.release().await;
        here.wait_for_line(1).await;
        ensemble.0.cut_off_the_first();
        // Not so late that its client would switch to another server.
        tokio::time::sleep(session / 4).await;
        road.heal();
        let next = soon("the lock", holder.acquire(NAME)).await.unwrap();
        let is_believed = |guard: &Guard| !guard.is_lost();
        assert!(
            !got.lock().unwrap().as_ref().is_some_and(is_believed),
            "two holders at a time"
        );
        ensemble.0.heal();
        let fence = next.fence();
        assert!(next.release().await.is_released());
        tokio::time::timeout(LONG, waiting).await.unwrap().unwrap();
        let late = got.lock().unwrap().take().unwrap();
        assert!(late.fence() > fence);
        assert!(late.release().await.is_released());
    });
}

/// It finds the notification that its turn has come, from a server that does not know that its session is over.
pub(crate) fn waiter_stopped_at_a_follower_cut_off() {
    run(async {
        let ensemble = Ensemble::start_apart();
        let session = SESSION * 10;
        let there = Eyes::open(ensemble.leader()).await;
        let holder = locker(&open(ensemble.leader(), session).await, session);
        let held = holder.acquire(NAME).await.unwrap();
        let (mut waiter, feed) = waiting(ensemble.first());
        // Opened before the waiter stops: its session must not end before the server is cut off.
        let here = Eyes::open(ensemble.first()).await;
        there.wait_for_line(2).await;
        // Only a waiter that knows that it waits sits out an outage.
        let server = &ensemble.0.servers[0];
        eventually("a waiter that watches the holder", async || {
            server.watching_clients() == Some(1)
        })
        .await;
        stop(&waiter);
        assert!(held.release().await.is_released());
        here.wait_for_line(1).await;
        ensemble.0.cut_off_the_first();
        there.wait_for_line(0).await;
        let next = soon("the lock", holder.acquire(NAME)).await.unwrap();
        assert_eq!(
            here.line().await.len(),
            1,
            "the follower knows nothing of that"
        );
        wake(&waiter);
        // Long enough for it to mistake an old turn for a lock.
        if let Ok(heard) = feed.next(SESSION) {
            panic!("it did not go on waiting: {heard:?}");
        }
        ensemble.0.heal();
        let fence = next.fence().as_i64();
        assert!(next.release().await.is_released());
        is_served_after(fence, &mut waiter, &feed);
    });
}
