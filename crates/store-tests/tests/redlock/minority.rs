//! One of three Redlock servers is lost, slow, silent, cut off or restarted, and clients do not notice.

use std::time::{Duration, Instant};

use fencepost::backend::{Release, Renewal};
use fencepost::stores::redlock::Redlock;
use fencepost::{Backend, Claim, Grant};
use fencepost_rig::{Amount, Direction, Proxy, Signal};

use crate::support::{COUNTER, LONG, NAME, Servers, claim, eventually, locker, run, soon};

/// A server is lost before anybody connects, and under a holder that keeps its lock for several TTLs.
pub(crate) fn lost() {
    run(async {
        let ttl = Duration::from_secs(1);
        let mut servers = Servers::start();
        servers.0[1].crash();
        let (mine, other) = (servers.store().await, servers.store().await);
        let (mine, other) = (locker(&mine, ttl), locker(&other, ttl));
        let first = soon("a lock on two of three", mine.acquire(NAME))
            .await
            .unwrap();
        assert_eq!(other.try_acquire(NAME).await.unwrap().map(drop), None);
        let fence = first.fence();
        assert!(first.release().await.is_released());

        servers.0[1].restart().unwrap();
        // A grant does not wait for a server that is still reconnecting. It would then be on two servers, and the next loss
        // would be one too many.
        let second = servers.held_everywhere(&other).await;
        assert!(second.fence() > fence);
        servers.0[0].crash();
        let refused = mine.acquire_within(NAME, 3 * ttl).await.unwrap();
        assert!(refused.is_none(), "somebody else got it");
        assert!(!second.is_lost(), "a majority extends it");
        let seen = mine
            .backend()
            .inspect(&NAME.try_into().unwrap())
            .await
            .unwrap();
        let holder = seen.unwrap().holder.unwrap();
        assert_eq!(holder.owner, Some(second.owner()));
        let fence = second.fence();
        assert!(second.release().await.is_released());
        let third = soon("the next", mine.acquire(NAME)).await.unwrap();
        assert!(third.fence() > fence);
        drop(third);
        mine.shutdown().await;
        servers.wait_until_clean(1).await;
        servers.wait_until_clean(2).await;
    });
}

/// Clients do not wait for a slow server. What it does late is reverted in turn.
pub(crate) fn slow() {
    run(async {
        let servers = Servers::start();
        let roads = servers.roads();
        let locker = locker(&roads.store().await, LONG);
        roads.0[0].delay(Direction::ToServer, Proxy::FOREVER);
        for _ in 0..3 {
            let guard = soon("a lock", locker.acquire(NAME)).await.unwrap();
            assert!(guard.release().await.is_released());
        }
        assert_eq!(servers.value(0), None, "nothing has arrived there yet");
        roads.0[0].heal();
        let mut seen = servers.plain(0);
        eventually("the late requests", async || {
            seen.number(&["EXISTS", COUNTER]) == 1
        })
        .await;
        servers.are_clean().await;
    });
}

/// A server is stopped, and everything continues. When it continues, nothing remains on it.
pub(crate) fn stopped() {
    run(async {
        let servers = Servers::start();
        let locker = locker(&servers.store().await, LONG);
        drop(locker.acquire(NAME).await.unwrap());
        servers.0[2].signal(Signal::SIGSTOP).unwrap();
        let started = Instant::now();
        let turns = 60;
        for _ in 0..turns {
            let guard = soon("a lock", locker.acquire(NAME)).await.unwrap();
            assert!(guard.release().await.is_released());
        }
        // Half a second for the first client that finds it silent and hardly anything for the others, rather than half a second
        // for each.
        assert!(
            started.elapsed() < Duration::from_millis(500) * turns * 2 / 3,
            "{:?}",
            started.elapsed()
        );
        servers.0[2].signal(Signal::SIGCONT).unwrap();
        servers.are_clean().await;
        // Its connection is opened again while the others continue.
        let guard = servers.held_everywhere(&locker).await;
        assert!(guard.release().await.is_released());
        locker.shutdown().await;
        servers.are_clean().await;
    });
}

/// A server comes back with its data. The lock is where it was.
pub(crate) fn restarted_with_its_data() {
    run(async {
        let ttl = Duration::from_secs(2);
        let mut servers = Servers::start_durable();
        let (mine, other) = (servers.store().await, servers.store().await);
        let (mine, other) = (locker(&mine, ttl), locker(&other, ttl));
        let guard = servers.held_everywhere(&mine).await;
        for at in 0..3 {
            servers.0[at].restart().unwrap();
            assert!(other.try_acquire(NAME).await.unwrap().is_none());
        }
        let refused = other.acquire_within(NAME, ttl * 3 / 2).await.unwrap();
        assert!(refused.is_none() && !guard.is_lost());
        let fence = guard.fence();
        assert!(guard.release().await.is_released());
        let next = soon("the next", other.acquire(NAME)).await.unwrap();
        assert!(next.fence() > fence);
        drop(next);
        other.shutdown().await;
        servers.are_clean().await;
    });
}

/// Connections break at each message of an acquisition and its release. Locks are acquired and released nevertheless.
pub(crate) fn cut_at_every_message() {
    run(async {
        let servers = Servers::start();
        let roads = servers.roads();
        let locker = locker(&roads.store().await, LONG);
        let mut last = None;
        for direction in [Direction::ToServer, Direction::ToClient] {
            for message in 1..5 {
                for road in &roads.0 {
                    road.cut_after(direction, Amount::Messages(message));
                    for _ in 0..2 {
                        let guard = soon("a lock", locker.acquire(NAME)).await.unwrap();
                        assert!(Some(guard.fence()) > last);
                        last = Some(guard.fence());
                        drop(guard.release().await);
                    }
                    road.heal();
                }
            }
        }
        locker.shutdown().await;
        servers.are_clean().await;
    });
}

/// All connections break under a holder. It keeps its lock.
pub(crate) fn cut_under_a_holder() {
    run(async {
        let ttl = Duration::from_secs(2);
        let servers = Servers::start();
        let roads = servers.roads();
        let mine = locker(&roads.store().await, ttl);
        let other = locker(&servers.store().await, ttl);
        let guard = mine.acquire(NAME).await.unwrap();
        for _ in 0..4 {
            roads.0.iter().for_each(Proxy::cut);
            let refused = other.acquire_within(NAME, ttl / 2).await.unwrap();
            assert!(refused.is_none());
        }
        assert!(!guard.is_lost());
        assert!(guard.release().await.is_released());
        servers.are_clean().await;
    });
}

/// The request for a key arrives after everybody has abandoned it. Its release arrives right after it.
pub(crate) fn a_late_key_is_given_back() {
    run(async {
        let servers = Servers::start();
        let roads = servers.roads();
        let store = roads.store().await;
        let claim = claim(LONG);
        roads.0[2].delay(Direction::ToServer, Proxy::FOREVER);
        assert!(store.try_acquire(&claim).await.unwrap().is_some());
        assert_eq!(servers.held_by(claim.owner), [0, 1]);
        assert_eq!(store.release(&claim).await.unwrap(), Release::Freed);
        roads.0[2].heal();
        let mut seen = servers.plain(2);
        eventually("the late requests", async || {
            seen.number(&["EXISTS", COUNTER]) == 1
        })
        .await;
        servers.are_clean().await;
    });
}

/// A release is lost on its way, together with the connection. The server receives it again, long before the TTL ends the key.
pub(crate) fn a_lost_release_is_sent_again() {
    run(async {
        let servers = Servers::start();
        let roads = servers.roads();
        let store = roads.patient_store().await;
        let claim = claim(LONG);
        assert!(store.try_acquire(&claim).await.unwrap().is_some());
        eventually("all three", async || {
            servers.held_by(claim.owner).len() == 3
        })
        .await;
        roads.0[2].swallow(Direction::ToServer);
        assert_eq!(store.release(&claim).await.unwrap(), Release::Freed);
        assert_eq!(servers.held_by(claim.owner), [2]);
        roads.0[2].heal();
        roads.0[2].cut();
        servers.are_clean().await;
    });
}

/// A lock that a minority does not extend is kept, one that a majority has lost is lost, and an undecided extension removes no
/// key.
pub(crate) fn extensions() {
    run(async {
        let mut servers = Servers::start();
        let store = servers.patient_store().await;
        let claim = claim(LONG);
        assert!(store.try_acquire(&claim).await.unwrap().is_some());
        servers.spread(&store, &claim).await;
        let renewed = async || store.renew(std::slice::from_ref(&claim)).await.remove(0);
        // Another client may have held the lock there.
        servers.set_count(0, 1 << 45);
        servers.plain(0).does(&["DEL", NAME]);
        assert_eq!(renewed().await.unwrap(), Renewal::Extended);
        assert_eq!(servers.held_by(claim.owner), [1, 2]);
        servers.0[2].crash();
        let error = renewed().await.unwrap_err();
        assert!(error.to_string().contains("2 must agree"), "{error}");
        assert!(
            servers.value(1).is_some(),
            "an undecided extension takes nothing away"
        );
        servers.plain(1).does(&["DEL", NAME]);
        assert_eq!(renewed().await.unwrap(), Renewal::Lost);
    });
}

/// A server that answers late has drawn a larger count for the same owner. An owner that asks again has the lease it had. If a
/// majority has lost the key meanwhile, it is a different lease, with a different epoch.
pub(crate) fn asking_again_keeps_the_epoch() {
    run(async {
        let servers = Servers::start();
        // Patient, so that the late answer does not find its connection given up.
        let store = servers.patient_store().await;
        servers.set_count(2, 1 << 45);
        let (claim, first) = granted_before_the_third_answers(&servers, &store).await;
        for _ in 0..20 {
            let again = store.try_acquire(&claim).await.unwrap().unwrap();
            assert_eq!(again.epoch, first.epoch);
        }
        for at in 0..2 {
            servers.plain(at).does(&["DEL", NAME]);
        }
        let other = store.try_acquire(&claim).await.unwrap().unwrap();
        assert!(other.epoch > first.epoch);
        assert_eq!(store.release(&claim).await.unwrap(), Release::Freed);
        servers.are_clean().await;
    });
}

/// Takes the lock on two servers while the third is stopped, and lets the request reach the third afterwards. On a busy machine the grant
/// may be known before that request is written; then it never is, and another claim is tried.
async fn granted_before_the_third_answers(servers: &Servers, store: &Redlock) -> (Claim, Grant) {
    for _ in 0..10 {
        let claim = claim(LONG);
        servers.0[2].signal(Signal::SIGSTOP).unwrap();
        let grant = store.try_acquire(&claim).await.unwrap().unwrap();
        servers.0[2].signal(Signal::SIGCONT).unwrap();
        let arrives = async {
            while servers.held_by(claim.owner).len() < 3 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(2), arrives)
            .await
            .is_ok()
        {
            return (claim, grant);
        }
        assert_eq!(store.release(&claim).await.unwrap(), Release::Freed);
    }
    panic!("the request never reached the third server");
}

/// A majority has keys of the owner, but one of them arrived late, after another client had held the lock with a larger epoch.
/// That is not the lease it had. Found by the model.
pub(crate) fn a_late_key_is_not_the_lease() {
    run(async {
        let servers = Servers::start();
        let store = servers.store().await;
        let claim = claim(LONG);
        let first = store.try_acquire(&claim).await.unwrap().unwrap();
        let honest = servers.held_by(claim.owner)[0];
        let lease = servers.value(honest).unwrap();
        // What the other client leaves behind and, on one of its servers, the late request.
        let others = first.epoch + 10;
        let [emptied, late] = [1, 2].map(|step| (honest + step) % 3);
        for (at, count) in [(emptied, others), (late, others + 1)] {
            servers.set_count(at, count);
            servers.plain(at).does(&["DEL", NAME]);
        }
        let key = lease.replacen(&first.epoch.to_string(), &(others + 1).to_string(), 1);
        let mut plain = servers.plain(late);
        plain.does(&["SET", NAME, &key, "PX", "60000"]);
        let again = store.try_acquire(&claim).await.unwrap().unwrap();
        assert!(again.epoch > others, "{} after {others}", again.epoch);
        assert_eq!(store.release(&claim).await.unwrap(), Release::Freed);
        servers.are_clean().await;
    });
}
