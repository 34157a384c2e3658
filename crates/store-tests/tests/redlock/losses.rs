//! A majority of the Redlock servers forgets a lock: the holder learns it long before the next renewal, and it stays lost.

use std::time::Duration;

use fencepost::backend::{Release, Renewal};
use fencepost::stores::redlock::Redlock;
use fencepost::{Backend, Guard, LostReason};
use fencepost_rig::{Direction, Fate, Proxy};

use crate::support::{
    COUNTER, LONG, NAME, Servers, claim, contains, eventually, locker, renewed, run, soon,
};

/// Shorter than a third of the TTL, after which the next renewal is due.
const BEFORE_THE_RENEWAL: Duration = Duration::from_secs(15);

async fn is_told(guard: &Guard) {
    let lost = tokio::time::timeout(BEFORE_THE_RENEWAL, guard.lost()).await;
    let lost = lost.expect("told before the next renewal");
    assert_eq!(lost.reason(), LostReason::Gone);
}

/// Returns whether the server notifies our connection about changes: its flags contain a `t`.
fn is_listened_to(servers: &Servers, at: usize) -> bool {
    let clients = servers.plain(at).text(&["CLIENT", "LIST"]).unwrap();
    let ours = clients
        .lines()
        .filter(|line| line.contains("name=fencepost "));
    let mut flags = ours.filter_map(|line| line.split(" flags=").nth(1)?.split(' ').next());
    flags.any(|flags| flags.contains('t'))
}

pub(crate) fn a_majority_flushed() {
    run(async {
        let servers = Servers::start();
        let store = servers.patient_store().await;
        let locker = locker(&store, LONG);
        let guard = servers.held_everywhere(&locker).await;
        eventually("all servers tell", async || {
            (0..3).all(|at| is_listened_to(&servers, at))
        })
        .await;
        for at in 0..2 {
            let mut plain = servers.plain(at);
            plain.does(&["MULTI"]);
            plain.does(&["FLUSHALL"]);
            // An extension between the two must not restore the key, or a majority would have it all the time.
            let larger = (1_u64 << 45).to_string();
            plain.does(&["HSET", COUNTER, "layout", "2", "count", &larger]);
            plain.does(&["PEXPIRE", COUNTER, "600000"]);
            plain.does(&["EXEC"]);
        }
        is_told(&guard).await;
        drop(guard);
        locker.shutdown().await;
        for at in 0..2 {
            servers.wait_until_clean(at).await;
        }
    });
}

pub(crate) fn a_majority_restarted_empty() {
    run(async {
        let mut servers = Servers::start();
        let store = servers.patient_store().await;
        let locker = locker(&store, LONG);
        let guard = servers.held_everywhere(&locker).await;
        // Both are away before one is back; otherwise an extension in between would restore the lock there.
        for at in 0..2 {
            servers.0[at].crash();
        }
        for at in 0..2 {
            servers.0[at].restart().unwrap();
        }
        is_told(&guard).await;
        drop(guard);
        locker.shutdown().await;
        for at in 0..2 {
            servers.wait_until_clean(at).await;
        }
    });
}

/// Text that only occurs in the script that releases a key.
const RELEASE: &str = "redis.call('DEL'";

/// Keys that were acquired for a lost lease, and could not be released at once, do not vote in a later extension. They are
/// released as soon as the server can be reached.
pub(crate) fn a_loss_is_remembered() {
    run(async {
        let servers = Servers::start();
        let roads = servers.roads();
        let store = roads.patient_store().await;
        let claim = claim(LONG);
        assert!(store.try_acquire(&claim).await.unwrap().is_some());
        servers.spread(&store, &claim).await;
        roads.0[2].judge(Direction::ToServer, |message| {
            if contains(message, RELEASE) {
                Fate::Cut
            } else {
                Fate::Pass
            }
        });
        for at in [1, 2] {
            servers.plain(at).does(&["DEL", NAME]);
        }
        assert_eq!(renewed(&store, &claim).await, Renewal::Lost);
        // Whether or not the first answer arrived.
        for _ in 0..3 {
            assert_eq!(renewed(&store, &claim).await, Renewal::Lost);
        }
        roads.0[2].heal();
        eventually("what was taken in vain is given back", async || {
            servers.held_by(claim.owner) == [0]
        })
        .await;
        assert_eq!(store.release(&claim).await.unwrap(), Release::NotHeld);
        servers.are_clean().await;
    });
}

/// Once a majority has decided, nobody waits for a silent server, neither for its vote nor to release what was acquired in
/// vain. A release that arrives before those keys are gone does not mistake them for the lock.
pub(crate) fn a_loss_is_told_without_waiting() {
    run(async {
        let servers = Servers::start();
        let roads = servers.roads();
        let store = Redlock::builder(&roads.address()).server_timeout(LONG);
        let store = store.open().await.unwrap();
        let claim = claim(2 * LONG);
        assert!(store.try_acquire(&claim).await.unwrap().is_some());
        servers.spread(&store, &claim).await;
        for at in [0, 1] {
            servers.plain(at).does(&["DEL", NAME]);
        }
        roads.0[2].delay(Direction::ToServer, Proxy::FOREVER);
        let told = soon("the loss", renewed(&store, &claim)).await;
        assert_eq!(told, Renewal::Lost);
        roads.0[2].heal();
        let released = soon("the release", store.release(&claim)).await;
        assert_eq!(released.unwrap(), Release::NotHeld);
        servers.are_clean().await;
    });
}
