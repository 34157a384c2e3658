//! Addresses of the etcd store: users, prefixes, and names that look like one. Also the use without an async runtime.

use std::time::Duration;

use fencepost::Backend;

use crate::faults::with_users;
use crate::support::{LONG, NAME, Plain, locker, open, released, run, soon, works};

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
