//! Redlock addresses, and servers that cannot take part.

use std::time::Duration;

use fencepost::stores::redlock::Redlock;
use fencepost::{Effect, ErrorKind};
use fencepost_rig::Redis;

use crate::support::{
    LONG, NAME, Servers, assert_error, assert_kind, eventually, locker, run, soon,
};

pub(crate) fn that_cannot_be() {
    run(async {
        for (address, word) in [
            ("redis://127.0.0.1:1", "not an address of Redlock"),
            ("redlock://127.0.0.1:1,127.0.0.1:2", "2 servers are too few"),
            (
                "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:1",
                "would vote twice",
            ),
            (
                "redlock://127.0.0.1:1,,127.0.0.1:2",
                "not an address of Redlock",
            ),
            (
                "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:x",
                "not an address",
            ),
            ("redlock://bob:secret@127.0.0.1:1,127.0.0.1:2", "too few"),
        ] {
            let error = Redlock::open(address).await.unwrap_err();
            assert_error(&error, ErrorKind::InvalidInput, Effect::None, word);
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    });
}

/// Two names of one server count as one vote.
pub(crate) fn one_server_with_two_names() {
    run(async {
        let servers = Servers::start();
        let [a, b] = [0, 1].map(|at| servers.0[at].address());
        let address = format!("redlock://{a},{b},localhost:{}", b.port());
        let error = Redlock::open(&address).await.unwrap_err();
        assert_error(
            &error,
            ErrorKind::InvalidInput,
            Effect::None,
            "are the same server",
        );
    });
}

/// A replica cannot vote, and this must be reported before another server fails.
pub(crate) fn a_replica() {
    run(async {
        let servers = Servers::start();
        let [primary, replica] = [1, 2].map(|at| servers.0[at].address());
        let (host, port) = (primary.ip().to_string(), primary.port().to_string());
        servers.plain(2).does(&["REPLICAOF", &host, &port]);
        let error = Redlock::open(&servers.address()).await.unwrap_err();
        assert_error(&error, ErrorKind::Unusable, Effect::None, "is a replica");
        assert!(error.to_string().contains(&replica.to_string()), "{error}");
        servers.plain(2).does(&["REPLICAOF", "NO", "ONE"]);
        servers.store().await;
    });
}

/// Each server has its own user and password, and all have the same database. None of the passwords is shown.
pub(crate) fn users_and_passwords() {
    run(async {
        let servers = Servers::start();
        for (at, password) in ["one,1", "two", "three"].into_iter().enumerate() {
            let password = format!(">{password}");
            let user = [
                "ACL", "SETUSER", "bob", "on", &password, "~*", "&*", "+@all",
            ];
            servers.plain(at).does(&user);
        }
        let [a, b, c] = servers.0.each_ref().map(Redis::address);
        let address = format!("redlock://bob:one%2C1@{a},bob:two@{b},bob:three@{c}/5");
        let store = std::sync::Arc::new(Redlock::open(&address).await.unwrap());
        assert_eq!(store.address(), format!("redlock://{a},{b},{c}"));
        assert!(!format!("{store:?} {:?}", Redlock::builder(&address)).contains("two"));
        // A server that answers too late gets the lock with an extension.
        let ttl = Duration::from_secs(6);
        let guard = locker(&store, ttl).acquire(NAME).await.unwrap();
        eventually("all three", async || {
            let mut plain = servers.plain(2);
            plain.does(&["SELECT", "5"]);
            plain.text(&["GET", NAME]).is_some()
        })
        .await;
        assert!(guard.release().await.is_released());

        let wrong = address.replace("bob:two", "bob:too");
        let error = soon("an error", Redlock::open(&wrong)).await.unwrap_err();
        assert_error(
            &error,
            ErrorKind::Unusable,
            Effect::None,
            "user or password is wrong",
        );
        assert!(error.to_string().contains(&b.to_string()), "{error}");
        assert!(!error.to_string().contains("too@"), "{error}");
    });
}

/// A name that is the key of a different type, and one that looks like one of our keys.
pub(crate) fn names_that_are_taken() {
    run(async {
        let servers = Servers::start();
        let store = servers.patient_store().await;
        let locker = locker(&store, LONG);
        for at in 0..3 {
            servers.plain(at).does(&["LPUSH", NAME, "a"]);
        }
        let error = locker.try_acquire(NAME).await.unwrap_err();
        assert_kind(&error, ErrorKind::Unusable, "something other than a lock");
        let error = locker.try_acquire("fp:{a}:quorum:a").await.unwrap_err();
        assert_error(
            &error,
            ErrorKind::InvalidInput,
            Effect::None,
            "must not begin with `fp:{`",
        );
        assert_eq!(servers.plain(0).number(&["LLEN", NAME]), 1);
    });
}

/// All servers lose their scripts at once. Clients do not notice.
pub(crate) fn scripts_forgotten() {
    run(async {
        let servers = Servers::start();
        let locker = locker(&servers.store().await, LONG);
        for _ in 0..3 {
            let guard = soon("a lock", locker.acquire(NAME)).await.unwrap();
            for at in 0..3 {
                servers.plain(at).does(&["SCRIPT", "FLUSH"]);
            }
            assert!(guard.release().await.is_released());
            let guard = soon("a lock", locker.acquire(NAME)).await.unwrap();
            assert!(guard.release().await.is_released());
            for at in 0..3 {
                servers.plain(at).does(&["SCRIPT", "FLUSH"]);
            }
        }
        servers.are_clean().await;
    });
}
