//! The store takes a lock away: its holder hears of it long before the next renewal.

use std::time::Duration;

use fencepost::LostReason;
use fencepost_rig::Etcd;

use crate::support::{LONG, NAME, Plain, locker, open, run};

/// Less than the third of the TTL after which the next renewal is due.
const BEFORE_THE_RENEWAL: Duration = Duration::from_secs(15);

/// An operator revokes the lease.
pub(crate) fn lease_revoked() {
    is_told(|_, lease| vec!["lease".into(), "revoke".into(), format!("{lease:x}")]);
}

/// An operator deletes the key, and leaves the lease alone.
pub(crate) fn key_deleted() {
    is_told(|key, _| vec!["del".into(), key.into()]);
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
        plain.is_clean().await;
    });
}
