//! Addresses and options of the etcd store: users, prefixes, nested names, conditional writes and short TTLs.

use std::time::{Duration, Instant};

use fencepost::stores::etcd::client::TxnOp;
use fencepost::{Backend, ErrorKind};

use crate::faults::with_users;
use crate::support::{
    LONG, NAME, Plain, claim, locker, noticed_within, open, released, run, soon, works,
};

/// A user with rights below a prefix. The server forgets its token on restart, and the client requests a new one.
pub(crate) fn user_and_password() {
    run(async {
        let mut server = fencepost_rig::Etcd::start().unwrap();
        with_users(&server);
        let url = format!("etcd://ci:secret@{}/mine", server.address());
        let store = open(&url).await;
        assert_eq!(store.address(), format!("etcd://{}/mine", server.address()));
        assert!(!format!("{store:?}").contains("secret"));
        let last = works(&store, 0).await;
        let guard = locker(&store, Duration::from_secs(20))
            .acquire("held")
            .await
            .unwrap();
        server.restart().unwrap();
        guard.extend(LONG).await.unwrap();
        released(guard).await;
        works(&store, last).await;
    });
}

/// Locks below a prefix are separate from those beside it. A listing below the prefix shows all of them.
pub(crate) fn prefix() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let root = open(&server.url()).await;
        let [one, other] = ["team/a", "team/b"].map(|prefix| format!("{}/{prefix}", server.url()));
        let (one, other) = (open(&one).await, open(&other).await);
        let guard = locker(&one, LONG).acquire(NAME).await.unwrap();
        let held = locker(&other, LONG).try_acquire(NAME).await.unwrap();
        assert!(held.is_some());
        let seen = locker(&root, LONG)
            .try_acquire("team/a/stock")
            .await
            .unwrap();
        assert!(seen.is_none(), "the same key by another road");
        let names = async |store: &fencepost::stores::etcd::Etcd| -> Vec<String> {
            let listed = store.list(None).await.unwrap();
            listed.into_iter().map(|lock| lock.name).collect()
        };
        assert_eq!(names(&one).await, [NAME]);
        assert_eq!(names(&root).await, ["team/a/stock", "team/b/stock"]);
        drop((guard, held));
    });
}

/// A lock whose name starts with another's name and a slash is a different lock, even if it comes and goes meanwhile.
pub(crate) fn nested_names() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let store = open(&server.url()).await;
        let locker = locker(&store, LONG);
        let inner = locker.acquire("stock/shelf").await.unwrap();
        let outer = soon("the lock", locker.acquire(NAME)).await.unwrap();
        let third = soon("the lock", locker.acquire("stock/shelf/ab"))
            .await
            .unwrap();
        let record = store
            .inspect(&NAME.try_into().unwrap())
            .await
            .unwrap()
            .unwrap();
        assert!(record.waiting.is_empty(), "{record:?}");
        let waiting = tokio::spawn({
            let locker = locker.clone();
            async move { locker.acquire(NAME).await }
        });
        crate::support::until_waiting(&store, 1).await;
        released(inner).await;
        assert!(!waiting.is_finished());
        released(outer).await;
        let outer = soon("the lock", waiting).await.unwrap().unwrap();
        for guard in [outer, third] {
            released(guard).await;
        }
        Plain::open(server.address()).await.wait_until_clean().await;
    });
}

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

/// A TTL shorter than etcd supports: the holder believes in it for that long, and the lock is free within the documented time.
pub(crate) fn short_ttl() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let store = open(&server.url()).await;
        let ttl = Duration::from_millis(100);
        let short = fencepost::Locker::builder(store.clone())
            .ttl(ttl)
            .keep_alive(false);
        let short = short.build().unwrap();
        let guard = short.acquire(NAME).await.unwrap();
        assert!(guard.valid_for() <= ttl);
        let granted = Instant::now();
        let next = soon("the lock", locker(&store, LONG).acquire(NAME))
            .await
            .unwrap();
        let took = granted.elapsed();
        println!("short_ttl: free after {took:?} with a TTL of {ttl:?}");
        assert!(guard.is_lost());
        assert!(took < Duration::from_secs(2) + noticed_within(), "{took:?}");
        released(next).await;
    });
}

/// Use from a program without an async runtime.
pub(crate) fn no_runtime() {
    let server = fencepost_rig::Etcd::start().unwrap();
    let store = fencepost::stores::etcd::Etcd::open_blocking(&server.url()).unwrap();
    let locker = fencepost::blocking::Locker::new(std::sync::Arc::new(store)).unwrap();
    for _ in 0..3 {
        let guard = locker.acquire(NAME).unwrap();
        assert!(guard.release().is_released());
    }
}
