//! Clusters of three servers, some of which die, stop, or lose contact with the others.

use std::time::{Duration, Instant};

use fencepost::stores::etcd::client::TxnOp;
use fencepost::{ErrorKind, LostReason};
use fencepost_rig::{EtcdCluster, Signal};

use crate::support::{LONG, NAME, Plain, locker, open, released, run, soon, until_waiting, works};

/// Long enough for an election on a busy machine.
const TTL: Duration = Duration::from_secs(10);

/// The first server in the address is dead. Clients do not notice.
pub(crate) fn one_of_three_is_dead() {
    run(async {
        let mut cluster = EtcdCluster::start(3).unwrap();
        let leader = cluster.leader().unwrap();
        let follower = (leader + 1) % 3;
        cluster.member(follower).crash();
        // With the dead server first.
        let mut addresses: Vec<String> = cluster
            .addresses()
            .iter()
            .map(ToString::to_string)
            .collect();
        addresses.swap(0, follower);
        let store = open(&format!("etcd://{}", addresses.join(","))).await;
        works(&store, 0).await;
        Plain::open(cluster.members()[leader].address())
            .await
            .wait_until_clean()
            .await;
    });
}

/// The leader is killed while one client holds the lock, one waits, and others come and go. Nobody loses anything, and waiters
/// see no error.
pub(crate) fn leader_killed() {
    run(async {
        let mut cluster = EtcdCluster::start(3).unwrap();
        let store = open(&cluster.url()).await;
        let locker = locker(&store, TTL);
        let guard = locker.acquire(NAME).await.unwrap();
        let dropped = locker.acquire("dropped").await.unwrap();
        let waiting = tokio::spawn({
            let locker = locker.clone();
            async move { locker.acquire(NAME).await }
        });
        until_waiting(&store, 1).await;
        let leader = cluster.leader().unwrap();
        cluster.member(leader).crash();
        drop(dropped);
        let killed = Instant::now();
        let other = soon("another lock", locker.acquire("other")).await.unwrap();
        println!(
            "leader_killed: the next acquisition took {:?}",
            killed.elapsed()
        );
        released(other).await;
        guard.extend(LONG).await.unwrap();
        assert!(!guard.is_lost());
        let epoch = guard.fence().epoch();
        released(guard).await;
        let next = soon("the lock", waiting).await.unwrap().unwrap();
        assert!(next.fence().epoch() > epoch);
        released(next).await;
        cluster.member(leader).restart().unwrap();
        let alive = cluster.members()[leader].address();
        Plain::open(alive).await.wait_until_clean().await;
    });
}

/// The server that we are connected to is stopped. The client switches to another before the lease ends, even if the lease is
/// short.
pub(crate) fn member_stopped() {
    stopped(|leader| (leader + 1) % 3);
}

/// The same test with the leader.
pub(crate) fn leader_stopped() {
    stopped(|leader| leader);
}

fn stopped(choose: fn(usize) -> usize) {
    run(async {
        let cluster = EtcdCluster::start(3).unwrap();
        let victim = choose(cluster.leader().unwrap());
        let mut addresses: Vec<String> = cluster
            .addresses()
            .iter()
            .map(ToString::to_string)
            .collect();
        addresses.swap(0, victim);
        let store = open(&format!("etcd://{}", addresses.join(","))).await;
        let locker = locker(&store, TTL);
        let guard = locker.acquire(NAME).await.unwrap();
        let waiting = tokio::spawn({
            let locker = locker.clone();
            async move { locker.acquire(NAME).await }
        });
        until_waiting(&store, 1).await;
        let member = &cluster.members()[victim];
        member.signal(Signal::SIGSTOP).unwrap();
        assert!(member.wait_stopped(LONG));
        // Long enough that the lease would have ended without renewals through another server.
        let until = Instant::now() + TTL + TTL / 4;
        while Instant::now() < until {
            assert!(!guard.is_lost(), "{:?}", guard.failed_renewals());
            assert!(!waiting.is_finished());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let epoch = guard.fence().epoch();
        assert!(soon("a release", guard.release()).await.is_released());
        let next = soon("the lock", waiting).await.unwrap().unwrap();
        assert!(next.fence().epoch() > epoch);
        released(next).await;
        member.signal(Signal::SIGCONT).unwrap();
        let mut plain = Plain::open(cluster.members()[(victim + 1) % 3].address()).await;
        plain.wait_until_clean().await;
        works(&store, epoch).await;
    });
}

/// The majority is lost. New requests fail in time, a holder learns when its lease ends, and the minority grants nothing. When
/// the majority is back, the lock works again.
pub(crate) fn majority_lost() {
    run(async {
        let mut cluster = EtcdCluster::start(3).unwrap();
        let store = open(&cluster.url()).await;
        let short = locker(&store, Duration::from_secs(2));
        let guard = short.acquire(NAME).await.unwrap();
        let epoch = guard.fence().epoch();
        let leader = cluster.leader().unwrap();
        let (survivor, dead) = ((leader + 1) % 3, [leader, (leader + 2) % 3]);
        for member in dead {
            cluster.member(member).crash();
        }
        let newcomer = locker(&store, LONG);
        let error = soon("an error", newcomer.acquire("other"))
            .await
            .unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout),
            "{error}"
        );
        let lost = soon("the loss", guard.lost()).await;
        assert_eq!(lost.reason(), LostReason::Expired);
        let alone = format!("etcd://{}", cluster.members()[survivor].address());
        let alone = soon("an error", fencepost::stores::etcd::Etcd::open(&alone)).await;
        assert_eq!(alone.unwrap_err().kind(), ErrorKind::Unavailable);
        for member in dead {
            cluster.member(member).respawn().unwrap();
        }
        for member in 0..3 {
            cluster.member(member).wait_until_ready().unwrap();
        }
        drop(guard);
        works(&store, epoch).await;
        let address = cluster.members()[survivor].address();
        Plain::open(address).await.wait_until_clean().await;
    });
}

/// The leader is stopped for longer than the TTL while the holder renews with its successor, and then continues. Some versions
/// of etcd then end a lease that was kept alive (etcd#15247). If so, the holder is notified, and its writes are refused.
pub(crate) fn old_leader_wakes() {
    run(async {
        let ttl = Duration::from_secs(4);
        let cluster = EtcdCluster::start(3).unwrap();
        let leader = cluster.leader().unwrap();
        let mut addresses: Vec<String> = cluster
            .addresses()
            .iter()
            .map(ToString::to_string)
            .collect();
        addresses.remove(leader);
        let store = open(&format!("etcd://{}", addresses.join(","))).await;
        let locker = locker(&store, ttl);
        let guard = locker.acquire(NAME).await.unwrap();
        let member = &cluster.members()[leader];
        member.signal(Signal::SIGSTOP).unwrap();
        assert!(member.wait_stopped(LONG));
        let until = Instant::now() + ttl + ttl / 2;
        while Instant::now() < until {
            assert!(!guard.is_lost(), "{:?}", guard.failed_renewals());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        member.signal(Signal::SIGCONT).unwrap();
        let told = tokio::time::timeout(ttl, guard.lost()).await;
        let put = [TxnOp::put("written", "1", None)];
        let written = store
            .write_while_held(guard.name(), guard.credential(), put)
            .await;
        println!(
            "old_leader_wakes: told lost: {}, written: {}",
            told.is_ok(),
            written.is_ok()
        );
        assert_ne!(told.is_ok(), written.is_ok());
    });
}
