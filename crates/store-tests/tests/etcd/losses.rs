//! Locks that etcd takes away, which the holder learns long before its next renewal.

use std::time::Duration;

use fencepost::LostReason;
use fencepost_rig::Etcd;

use crate::support::{LONG, NAME, Plain, locker, open, run};

/// Shorter than a third of the TTL, after which the next renewal is due.
const BEFORE_THE_RENEWAL: Duration = Duration::from_secs(15);

/// An operator revokes the lease.
pub(crate) fn lease_revoked() {
    is_told(|_, lease| vec!["lease".into(), "revoke".into(), format!("{lease:x}")]);
}

/// An operator deletes the key, but not the lease.
pub(crate) fn key_deleted() {
    is_told(|key, _| vec!["del".into(), key.into()]);
}

/// A server allows only a few streams per connection. Held locks do not use them all, so renewals get through, and so do
/// losses.
pub(crate) fn more_holds_than_streams() {
    const STREAMS: &str = "8";
    run(async {
        let limited = Etcd::builder().arguments(["--max-concurrent-streams", STREAMS]);
        let server = limited.start().unwrap();
        let mut plain = Plain::open(server.address()).await;
        let store = open(&server.url()).await;
        let ttl = Duration::from_secs(4);
        let locker = locker(&store, ttl);
        let mut guards = Vec::new();
        for number in 0..40 {
            guards.push(locker.acquire(format!("{NAME}-{number}")).await.unwrap());
        }
        let losses = guards.iter().map(|guard| Box::pin(guard.lost()));
        let losses = futures_util::future::select_all(losses);
        let are_kept = tokio::time::timeout(ttl * 2, losses).await.is_err();
        assert!(are_kept, "a healthy lock was lost");
        for guard in [guards.remove(39), guards.remove(0)] {
            let own = format!("{}/", guard.name());
            let keys = plain.keys("").await;
            let key = keys.iter().find(|key| key.contains(&own)).unwrap();
            let mut delete = server.etcdctl();
            delete.args(["del", key]);
            // On a thread of its own: the locks are renewed while the command runs, however long it takes.
            let deleted = tokio::task::spawn_blocking(move || delete.output());
            assert!(deleted.await.unwrap().unwrap().status.success());
            let lost = tokio::time::timeout(ttl * 10, guard.lost()).await.unwrap();
            assert_eq!(lost.reason(), LostReason::Gone);
        }
        drop(guards);
        locker.shutdown().await;
        plain.wait_until_clean().await;
    });
}

/// The server has compacted the revision of the grant, so it refuses to watch from there.
pub(crate) fn deleted_after_a_compaction() {
    run(async {
        let server = Etcd::start().unwrap();
        let mut plain = Plain::open(server.address()).await;
        let store = open(&server.url()).await;
        let locker = locker(&store, LONG);
        let guard = locker.acquire(NAME).await.unwrap();
        let key = plain.keys("").await.remove(0);
        let ctl = |words: &[&str]| {
            let done = server.etcdctl().args(words).output().unwrap();
            assert!(done.status.success(), "{done:?}");
            String::from_utf8(done.stdout).unwrap()
        };
        for _ in 0..3 {
            ctl(&["put", "elsewhere", "written"]);
        }
        let status = ctl(&["endpoint", "status", "--write-out=json"]);
        let revision = status.split("\"revision\":").nth(1).unwrap();
        let revision: String = revision.chars().take_while(char::is_ascii_digit).collect();
        ctl(&["compact", &revision]);
        ctl(&["del", &key]);
        ctl(&["del", "elsewhere"]);
        let lost = tokio::time::timeout(BEFORE_THE_RENEWAL, guard.lost()).await;
        let lost = lost.expect("told before the next renewal");
        assert_eq!(lost.reason(), LostReason::Gone);
        drop(guard);
        locker.shutdown().await;
        plain.wait_until_clean().await;
    });
}

fn is_told(command: fn(&str, i64) -> Vec<String>) {
    run(async {
        let server = Etcd::start().unwrap();
        let mut plain = Plain::open(server.address()).await;
        let store = open(&server.url()).await;
        let locker = locker(&store, LONG);
        let guard = locker.acquire(NAME).await.unwrap();
        let key = plain.keys("").await.remove(0);
        let lease = plain.leases().await[0];
        let done = server
            .etcdctl()
            .args(command(&key, lease))
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        let lost = tokio::time::timeout(BEFORE_THE_RENEWAL, guard.lost()).await;
        let lost = lost.expect("told before the next renewal");
        assert_eq!(lost.reason(), LostReason::Gone);
        drop(guard);
        locker.shutdown().await;
        plain.wait_until_clean().await;
    });
}
