//! The kinds of Redis addresses; each is tested with a lock that is acquired, awaited, renewed and released.

use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::redis::Redis;

use crate::support::{NAME, Server, eventually, locker, outlives_its_ttl, run, soon};

/// Two stores hand a lock back and forth, and one keeps it beyond its TTL.
pub(crate) async fn works(one: Redis, other: Redis) {
    let ttl = Duration::from_secs(2);
    let lockers = [one, other].map(|store| locker(&Arc::new(store), ttl));
    let mut held = soon("the lock", lockers[0].acquire(NAME)).await.unwrap();
    for turn in 1..=4 {
        let next = lockers[turn % 2].clone();
        let waiting = tokio::spawn(async move { next.acquire(NAME).await.unwrap() });
        let backend = lockers[0].backend().clone();
        loop {
            let name = NAME.try_into().unwrap();
            let record = soon("a look", backend.inspect(&name)).await.unwrap();
            if record.is_some_and(|record| record.waiting.len() == 1) {
                break;
            }
        }
        let fence = held.fence();
        assert!(held.release().await.is_released());
        held = soon("a turn", waiting).await.unwrap();
        assert!(held.fence() > fence);
    }
    outlives_its_ttl(&held, ttl).await;
    assert!(held.release().await.is_released());
}

pub(crate) fn unix_socket() {
    run(async {
        let server = Server::start_with(["--unixsocket", "FOLDER/redis.sock"]);
        let path = server.0.folder().join("redis.sock");
        let url = format!("unix:{}", path.display());
        let open = async || soon("a connection", Redis::open(&url)).await.unwrap();
        let (one, other) = (open().await, open().await);
        assert_eq!(one.address(), url);
        works(one, other).await;
        server.wait_until_clean().await;
    });
}

pub(crate) fn user_and_password() {
    run(async {
        let server = Server::start();
        // The rights that locks need, and no others.
        let rights = "on >se:cr@t ~* &fp:* +@all -@admin -@dangerous +client|kill +client|info";
        let words: Vec<_> = ["ACL", "SETUSER", "app"]
            .into_iter()
            .chain(rights.split(' '))
            .collect();
        server.plain().does(&words);
        server.plain().does(&["ACL", "SETUSER", "default", "off"]);
        let url = format!("redis://app:se%3Acr%40t@{}", server.0.address());
        let open = async || soon("a connection", Redis::open(&url)).await.unwrap();
        let (one, other) = (open().await, open().await);
        assert!(!one.address().contains("app"));
        works(one, other).await;
    });
}

pub(crate) fn database_number() {
    run(async {
        let server = Server::start();
        let url = format!("{}/7", server.0.url());
        let open = async || soon("a connection", Redis::open(&url)).await.unwrap();
        works(open().await, open().await).await;
        let held = locker(&Arc::new(open().await), Duration::from_secs(5));
        let held = held.acquire(NAME).await.unwrap();
        let elsewhere = locker(&server.store().await, Duration::from_secs(5));
        let free = soon("a try", elsewhere.try_acquire(NAME)).await.unwrap();
        assert!(free.is_some(), "another database has other locks");
        let mut plain = server.plain();
        plain.does(&["SELECT", "7"]);
        assert_eq!(plain.number(&["EXISTS", NAME]), 1);
        assert!(held.release().await.is_released());
        eventually("its end", async || plain.number(&["EXISTS", NAME]) == 0).await;
    });
}
