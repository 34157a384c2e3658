//! A majority forgets a lock: its holder hears of it long before the next renewal.

use std::time::Duration;

use fencepost::{Guard, LostReason};

use crate::support::{COUNTER, LONG, Servers, eventually, locker, run};

/// Less than the third of the TTL after which the next renewal is due.
const BEFORE_THE_RENEWAL: Duration = Duration::from_secs(15);

async fn is_told(guard: &Guard) {
    let lost = tokio::time::timeout(BEFORE_THE_RENEWAL, guard.lost()).await;
    let lost = lost.expect("told before the next renewal");
    assert_eq!(lost.reason(), LostReason::Gone);
}

/// Whether the server tells our connection about changes: its flags have a `t`.
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
        eventually("all servers tell", || {
            (0..3).all(|at| is_listened_to(&servers, at))
        })
        .await;
        for at in 0..2 {
            let mut plain = servers.plain(at);
            plain.does(&["MULTI"]);
            plain.does(&["FLUSHALL"]);
            // An extension between the two must not get the key back, or a majority would have it all the time.
            let larger = (1_u64 << 45).to_string();
            plain.does(&["HSET", COUNTER, "layout", "2", "count", &larger]);
            plain.does(&["PEXPIRE", COUNTER, "600000"]);
            plain.does(&["EXEC"]);
        }
        is_told(&guard).await;
        drop(guard);
        locker.shutdown().await;
        for at in 0..2 {
            servers.is_clean(at).await;
        }
    });
}

pub(crate) fn a_majority_restarted_empty() {
    run(async {
        let mut servers = Servers::start();
        let store = servers.patient_store().await;
        let locker = locker(&store, LONG);
        let guard = servers.held_everywhere(&locker).await;
        // Both are away before one is back, or an extension in between would put the lock there again.
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
            servers.is_clean(at).await;
        }
    });
}
