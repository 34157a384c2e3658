//! Redlock extensions that restore the key on servers that lack it, where that is safe.

use std::sync::Arc;
use std::time::Duration;

use fencepost::backend::{Release, Renewal};
use fencepost::stores::redlock::Redlock;
use fencepost::{Backend, ErrorKind};
use fencepost_rig::{Direction, Proxy};

use crate::support::{
    COUNTER, LONG, NAME, Servers, claim, eventually, locker, now, renewed, run, soon,
};

/// A lock is acquired while one server is away. Once that server is back, the lock survives the loss of another.
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
        // When the next extension arrives, the one that set the key has succeeded.
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
        // Without extensions by a majority, the lease would be over by then.
        let until = now() + ttl + ttl / 4;
        while now() < until {
            match other.try_acquire(NAME).await {
                Ok(refused) => assert!(refused.is_none(), "somebody else got it"),
                // One server is lost, and on a busy machine another may be silent.
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(!guard.is_lost(), "a majority extends it");
        assert!(guard.release().await.is_released());
        mine.shutdown().await;
        servers.wait_until_clean(1).await;
        servers.wait_until_clean(2).await;
    });
}

pub(crate) fn outlives_another_loss_empty() {
    outlives_another_loss(Servers::start());
}

pub(crate) fn outlives_another_loss_durable() {
    outlives_another_loss(Servers::start_durable());
}

/// The key counts only from the extension after the one that set it.
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
        // The keys it had are not released; that is up to the holder.
        eventually("what it took in vain is given back", async || {
            servers.held_by(claim.owner) == [0]
        })
        .await;
        assert_eq!(store.release(&claim).await.unwrap(), Release::NotHeld);
        servers.are_clean().await;
    });
}

/// If a server has drawn a larger count, another client may have held the lock.
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

/// A server without a counter may have forgotten a larger one. It counts from its clock, not from the epoch.
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

/// A key that is set where the counter is missing has a count that does not prove the lease. This also holds if the server's
/// clock is behind the epoch: the count is not the epoch.
pub(crate) fn a_counter_that_is_gone_passes_the_epoch() {
    run(async {
        let servers = Servers::start();
        let store = servers.patient_store().await;
        // More than the clock raises counters to.
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

/// An extension is late, and so is the release behind it. Nothing remains.
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
        // Later requests use the same connection, or one that first ends the old one.
        let next = crate::support::claim(LONG);
        let granted = soon("the next", store.try_acquire(&next)).await;
        assert!(granted.unwrap().is_some());
        assert_eq!(store.release(&next).await.unwrap(), Release::Freed);
        servers.are_clean().await;
    });
}

/// A server that may have forgotten the owner of the lock sets no key on an extension either.
pub(crate) fn not_on_a_young_server() {
    run(async {
        let mut servers = Servers::start();
        let delay = Duration::from_secs(4);
        let store = Redlock::builder(&servers.address()).restart_delay(delay);
        let store = store.server_timeout(Duration::from_secs(5));
        let store = Arc::new(store.open().await.unwrap());
        let claim = claim(LONG);
        let granted = async {
            // The servers themselves have just been started.
            while !matches!(store.try_acquire(&claim).await, Ok(Some(_))) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        soon("they vote", granted).await;
        servers.0[2].restart().unwrap();
        let started = std::time::Instant::now();
        servers.spread(&store, &claim).await;
        let age = started.elapsed();
        // Its age is reported in whole seconds, and counts from before it was ready.
        assert!(age >= delay / 2, "it got the key {age:?} after its start");
        assert_eq!(store.release(&claim).await.unwrap(), Release::Freed);
        servers.are_clean().await;
    });
}
