//! Writes into etcd that depend on a lock.

use std::time::Duration;

use fencepost::stores::etcd::client::TxnOp;
use fencepost::{Backend, ErrorKind};

use crate::support::{LONG, NAME, Plain, claim, locker, open, run};

/// A write that is conditional on the lock succeeds while the lock is held, and never afterwards.
pub(crate) fn writes_while_held() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let mut plain = Plain::open(server.address()).await;
        let store = open(&server.url()).await;
        let locker = locker(&store, Duration::from_secs(20));
        let put = |value: &str| [TxnOp::put("data", value.to_owned(), None)];
        let first = locker.acquire(NAME).await.unwrap();
        store
            .write_while_held(first.name(), first.credential(), put("one"))
            .await
            .unwrap();
        assert_eq!(plain.get("data").await.as_deref(), Some("one"));
        // Also under an extended lease, and through the caller's own client.
        first.extend(LONG).await.unwrap();
        let transaction = fencepost::stores::etcd::client::Txn::new()
            .when([store.while_held(first.name(), first.credential())])
            .and_then(put("two"));
        assert!(plain.0.txn(transaction.clone()).await.unwrap().succeeded());
        // A forced release, as an operator would do it.
        let mut operator = claim(LONG);
        operator.owner = first.owner();
        store.release(&operator).await.unwrap();
        let error = store
            .write_while_held(first.name(), first.credential(), put("three"))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
        let second = locker.acquire(NAME).await.unwrap();
        let error = store
            .write_while_held(first.name(), first.credential(), put("four"))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
        assert!(!plain.0.txn(transaction).await.unwrap().succeeded());
        store
            .write_while_held(second.name(), second.credential(), put("five"))
            .await
            .unwrap();
        assert_eq!(plain.get("data").await.as_deref(), Some("five"));
    });
}
