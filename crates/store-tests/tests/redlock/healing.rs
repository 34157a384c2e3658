//! A lease that not all servers have: extensions take the key where it is missing, and nowhere else.

use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::redlock::Redlock;
use fencepost::{Backend, ErrorKind, Release, Renewal};
use fencepost_rig::{Direction, Proxy};

use crate::support::{
    COUNTER, LONG, NAME, Servers, claim, eventually, is, locker, now, renewed, run, soon,
};

/// A lock is taken while one server is away. Once that one is back the lock outlives the loss of another.
fn outlives_another_loss(mut servers: Servers) {
    run(async {
        let ttl = Duration::from_secs(6);
        let (mine, other) = (servers.patient_store().await, servers.patient_store().await);
        let (mine, other) = (locker(&mine, ttl), locker(&other, ttl));
        servers.0[2].crash();
        let guard = soon("a lock", mine.acquire(NAME)).await.unwrap();
        servers.0[2].restart().unwrap();
        assert_eq!(servers.value(2), None, "it was away");
        eventually("the server that was away", async || {
            servers.held_by(guard.owner()) == [0, 1, 2]
        })
        .await;
        // The extension that took the key has succeeded when the next one is there.
        let mut plain = servers.plain(0);
        let mut left = || plain.number(&["PTTL", NAME]);
        for _ in 0..2 {
            let mut before = left();
            eventually("another extension", async || {
                let after = left();
                after > std::mem::replace(&mut before, after)
            })
            .await;
        }
        servers.0[0].crash();
        // Without extensions by a majority the lease would be over by then.
        let until = now() + ttl + ttl / 4;
        while now() < until {
            match other.try_acquire(NAME).await {
                Ok(refused) => assert!(refused.is_none(), "somebody else got it"),
                // One is lost, and on a busy machine another may be silent.
                Err(error) => is(&error, ErrorKind::Unavailable, ""),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(!guard.is_lost(), "a majority extends it");
        assert!(guard.release().await.is_released());
        mine.shutdown().await;
        servers.is_clean(1).await;
        servers.is_clean(2).await;
    });
}

pub(crate) fn outlives_another_loss_empty() {
    outlives_another_loss(Servers::start());
}

pub(crate) fn outlives_another_loss_durable() {
    outlives_another_loss(Servers::start_durable());
}

/// The key counts from the extension after the one that took it.
pub(crate) fn a_taken_key_does_not_vote_at_once() {
    run(async {
        let servers = Servers::start();
        let store = servers.patient_store().await;
        let claim = claim(LONG);
        assert!(store.try_acquire(&claim).await.unwrap().is_some());
        servers.spread(&store, &claim).await;
        for at in [1, 2] {
            servers.plain(at).does(&["DEL", NAME]);
        }
        assert_eq!(renewed(&store, &claim).await, Renewal::Lost);
        // What it had is not given back: that is up to its holder.
        eventually("what it took in vain is given back", async || {
            servers.held_by(claim.owner) == [0]
        })
        .await;
        assert_eq!(store.release(&claim).await.unwrap(), Release::NotHeld);
        servers.are_clean().await;
    });
}

/// Where a larger count was drawn, somebody else may have held the lock.
pub(crate) fn not_where_a_larger_count_was_drawn() {
    run(async {
        let servers = Servers::start();
        let store = servers.patient_store().await;
        let claim = claim(LONG);
        let grant = store.try_acquire(&claim).await.unwrap().unwrap();
        servers.spread(&store, &claim).await;
        servers.set_count(2, grant.epoch + (1 << 40));
        servers.plain(2).does(&["DEL", NAME]);
        for _ in 0..3 {
            assert_eq!(renewed(&store, &claim).await, Renewal::Extended);
        }
        assert_eq!(servers.held_by(claim.owner), [0, 1]);
        assert_eq!(store.release(&claim).await.unwrap(), Release::Freed);
        servers.are_clean().await;
    });
}

/// A server without a counter may have forgotten a larger one: it counts on from its time, not from the epoch.
pub(crate) fn a_counter_that_is_gone_is_lifted() {
    run(async {
        let servers = Servers::start();
        let store = servers.patient_store().await;
        let claim = claim(LONG);
        let grant = store.try_acquire(&claim).await.unwrap().unwrap();
        servers.spread(&store, &claim).await;
        servers.plain(2).does(&["FLUSHALL"]);
        servers.spread(&store, &claim).await;
        let count = servers.plain(2).text(&["HGET", COUNTER, "count"]);
        let count: u64 = count.unwrap().parse().unwrap();
        assert!(count > grant.epoch, "{count} {}", grant.epoch);
        assert_eq!(store.release(&claim).await.unwrap(), Release::Freed);
        servers.are_clean().await;
    });
}

/// A key that is taken where the counter is gone has a count that does not prove the lease, also where the server's clock is behind the epoch:
/// it is not the epoch.
pub(crate) fn a_counter_that_is_gone_passes_the_epoch() {
    run(async {
        let servers = Servers::start();
        let store = servers.patient_store().await;
        // More than time lifts counters to.
        (0..3).for_each(|at| servers.set_count(at, (1 << 46) + 5));
        let claim = claim(LONG);
        let grant = store.try_acquire(&claim).await.unwrap().unwrap();
        servers.spread(&store, &claim).await;
        servers.plain(2).does(&["FLUSHALL"]);
        servers.spread(&store, &claim).await;
        let count = servers.plain(2).text(&["HGET", COUNTER, "count"]);
        let larger = (grant.epoch + 1).to_string();
        assert_eq!(count.as_deref(), Some(&*larger));
        let key = servers.value(2).unwrap();
        assert_eq!(key.split(' ').nth(1), Some(&*larger), "{key}");
        assert_eq!(store.release(&claim).await.unwrap(), Release::Freed);
        servers.are_clean().await;
    });
}

/// An extension is late, and so is the release behind it: nothing stays.
pub(crate) fn a_late_taking_is_given_back() {
    run(async {
        let servers = Servers::start();
        let roads = servers.roads();
        let store = roads.patient_store().await;
        let claim = claim(LONG);
        assert!(store.try_acquire(&claim).await.unwrap().is_some());
        servers.spread(&store, &claim).await;
        servers.plain(2).does(&["DEL", NAME]);
        roads.0[2].delay(Direction::ToServer, Proxy::FOREVER);
        assert_eq!(renewed(&store, &claim).await, Renewal::Extended);
        assert_eq!(store.release(&claim).await.unwrap(), Release::Freed);
        roads.0[2].heal();
        // What comes after it goes over the same connection, or over one that ends the old one first.
        let next = crate::support::claim(LONG);
        let granted = soon("the next", store.try_acquire(&next)).await;
        assert!(granted.unwrap().is_some());
        assert_eq!(store.release(&next).await.unwrap(), Release::Freed);
        servers.are_clean().await;
    });
}

/// A server that may have forgotten whose the lock is gives no key to an extension either.
pub(crate) fn not_on_a_young_server() {
    run(async {
        let mut servers = Servers::start();
        let delay = Duration::from_secs(4);
        let store = Redlock::builder(&servers.address()).restart_delay(delay);
        let store = store.node_timeout(Duration::from_secs(5));
        let store = Arc::new(store.open().await.unwrap());
        let claim = claim(LONG);
        let granted = async {
            // They are young themselves.
            while !matches!(store.try_acquire(&claim).await, Ok(Some(_))) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        soon("they vote", granted).await;
        servers.0[2].restart().unwrap();
        let started = std::time::Instant::now();
        servers.spread(&store, &claim).await;
        let age = started.elapsed();
        // Its age is told in whole seconds, and counts from before it was ready.
        assert!(age >= delay / 2, "it got the key {age:?} after its start");
        assert_eq!(store.release(&claim).await.unwrap(), Release::Freed);
        servers.are_clean().await;
    });
}
