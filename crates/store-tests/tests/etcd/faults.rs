//! Servers that are absent, wrong, full or stopped, servers that are not etcd, and operators that change our keys.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use fencepost::backend::{Release, Wait};
use fencepost::stores::etcd::Etcd;
use fencepost::{Backend, Effect, ErrorKind, Locker, LostReason};
use fencepost_rig::Signal;

use crate::support::{
    LONG, NAME, Plain, assert_error, claim, locker, open, released, run, soon, until_waiting, works,
};

/// Nothing listens at the address. New requests fail at once, waiters fail after the maximum outage, and holders lose the lock
/// when their lease ends.
pub(crate) fn absent() {
    run(async {
        let mut server = fencepost_rig::Etcd::start().unwrap();
        let store = Etcd::builder(&server.url()).max_outage(Duration::from_millis(300));
        let store = Arc::new(store.open().await.unwrap());
        let locker = locker(&store, Duration::from_secs(2));
        let held = locker.acquire("held").await.unwrap();
        let _blocked = locker.acquire(NAME).await.unwrap();
        let waiting = tokio::spawn({
            let locker = locker.clone();
            async move { locker.acquire(NAME).await }
        });
        until_waiting(&store, 1).await;
        server.crash();

        let error = soon("an error", Etcd::open(&server.url()))
            .await
            .unwrap_err();
        assert_error(
            &error,
            ErrorKind::Unavailable,
            Effect::None,
            "nothing listens there",
        );
        let error = soon("an error", locker.acquire("other")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let error = soon("an error", waiting).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let lost = soon("the loss", held.lost()).await;
        assert_eq!(lost.reason(), LostReason::Expired);
        assert!(lost.failed_renewals().is_some());
    });
}

/// The server accepts connections but never answers.
pub(crate) fn silent() {
    run(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("etcd://{}", listener.local_addr().unwrap());
        let error = soon("an error", Etcd::open(&url)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("no server answers"), "{error}");
    });
}

/// A different kind of server listens at the address.
pub(crate) fn a_web_server() {
    run(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("etcd://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut stream = stream;
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
                // If the server closed before reading everything, its answer would be discarded.
                let _ = stream.read_to_end(&mut Vec::new());
            }
        });
        let error = soon("an error", Etcd::open(&url)).await.unwrap_err();
        // Whether the client sees the answer before the connection closes is a race inside the client.
        let kinds = [ErrorKind::Unusable, ErrorKind::Unavailable];
        assert!(kinds.contains(&error.kind()), "{error}");
        assert_error(&error, error.kind(), Effect::None, "TLS");
    });
}

/// Creates a user `ci` with the password `secret` that may do everything below `mine/`, and enables authentication.
pub(crate) fn with_users(server: &fencepost_rig::Etcd) {
    let etcdctl = |words: &[&str]| {
        let mut said = String::new();
        // On a busy machine, an answer may arrive too late, and the second attempt then finds that the first succeeded.
        for _ in 0..5 {
            let output = server.etcdctl().args(words).output().unwrap();
            said = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() || said.contains("already") || said.contains("user name") {
                return;
            }
        }
        panic!("{words:?}: {said}");
    };
    etcdctl(&["user", "add", "root:toor"]);
    etcdctl(&["user", "grant-role", "root", "root"]);
    etcdctl(&["role", "add", "locks"]);
    etcdctl(&[
        "role",
        "grant-permission",
        "locks",
        "--prefix=true",
        "readwrite",
        "mine/",
    ]);
    etcdctl(&["user", "add", "ci:secret"]);
    etcdctl(&["user", "grant-role", "ci", "locks"]);
    etcdctl(&["auth", "enable"]);
}

pub(crate) fn wrong_password() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let address = server.address();
        let error = Etcd::open(&format!("etcd://ci:secret@{address}")).await;
        let error = error.unwrap_err();
        assert_error(
            &error,
            ErrorKind::Unusable,
            Effect::None,
            "leave user and password out",
        );
        with_users(&server);
        let error = Etcd::open(&format!("etcd://ci:wrong@{address}"))
            .await
            .unwrap_err();
        assert_error(
            &error,
            ErrorKind::Unusable,
            Effect::None,
            "user or password is wrong",
        );
        assert!(!format!("{error:?}").contains("wrong@"), "{error:?}");
        let error = Etcd::open(&server.url()).await.unwrap_err();
        assert_error(
            &error,
            ErrorKind::Unusable,
            Effect::None,
            "wants a user and a password",
        );
    });
}

/// The user has no right to write there.
pub(crate) fn no_rights() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        with_users(&server);
        let url = format!("etcd://ci:secret@{}/others", server.address());
        let locker = locker(&open(&url).await, LONG);
        let error = soon("an error", locker.acquire(NAME)).await.unwrap_err();
        assert_error(
            &error,
            ErrorKind::Unusable,
            Effect::None,
            "may not do what locks need",
        );
    });
}

/// The server has no space left. Nothing can be acquired, but held locks can be released, and renewed unless they were granted after a
/// wait.
pub(crate) fn full() {
    run(async {
        let small = fencepost_rig::Etcd::builder().arguments(["--quota-backend-bytes=200000"]);
        let server = small.start().unwrap();
        let mut plain = Plain::open(server.address()).await;
        let store = open(&server.url()).await;
        let [locker, rival] = [(), ()].map(|()| locker(&store, LONG));
        let held = locker.acquire("held").await.unwrap();
        let awaited = locker.acquire(NAME).await.unwrap();
        let waiting = tokio::spawn({
            let rival = rival.clone();
            async move { rival.acquire(NAME).await }
        });
        until_waiting(&store, 1).await;
        let big = "x".repeat(100_000);
        // The server measures its size about ten times a second, however much is written in between.
        let filled = async {
            for key in ["odd", "even"].iter().cycle() {
                if plain.0.put(*key, big.clone(), None).await.is_err() {
                    break;
                }
            }
        };
        soon("it to be full", filled).await;
        let error = soon("an error", locker.acquire("new")).await.unwrap_err();
        assert_error(
            &error,
            ErrorKind::Unusable,
            Effect::None,
            "the server is full",
        );
        let renewed = held.extend(Duration::from_secs(30)).await;
        renewed.expect("a lease that is kept alive takes no room");
        released(held).await;

        // A client that has waited has a short lease, and the server has no room for a longer one.
        released(awaited).await;
        let granted = soon("a grant", waiting).await.unwrap().unwrap();
        let error = granted.extend(LONG).await.unwrap_err();
        assert!(error.message().contains("the server is full"), "{error}");
        let lost = soon("the end of the short lease", granted.lost()).await;
        assert_eq!(lost.reason(), LostReason::Expired);
        drop(granted);
        for locker in [locker, rival] {
            soon("everything to be given back", locker.shutdown()).await;
        }
        let ended = async {
            while !plain.leases().await.is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        soon("no lease to be left", ended).await;
    });
}

/// The server is stopped for longer than the TTL. The holder is notified in time, and the lock is available when the server
/// continues.
pub(crate) fn stopped_while_holding() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let store = open(&server.url()).await;
        let locker = locker(&store, Duration::from_secs(2));
        let guard = locker.acquire(NAME).await.unwrap();
        let until = crate::support::now() + guard.valid_for();
        server.signal(Signal::SIGSTOP).unwrap();
        assert!(server.wait_stopped(LONG));
        let lost = soon("the loss", guard.lost()).await;
        assert_eq!(lost.reason(), LostReason::Expired);
        assert!(crate::support::now() >= until, "not before its time");
        server.signal(Signal::SIGCONT).unwrap();
        let epoch = guard.fence().epoch();
        drop(guard);
        soon("everything to be given back", locker.shutdown()).await;
        works(&store, epoch).await;
        Plain::open(server.address()).await.wait_until_clean().await;
    });
}

/// An operator revokes the lease. The holder is notified at its next renewal. A waiter is not granted the lock with a dead
/// lease (etcd#11456), but joins the line again.
pub(crate) fn a_lease_taken_away() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let mut plain = Plain::open(server.address()).await;
        let store = open(&server.url()).await;
        let locker = locker(&store, LONG);
        let guard = locker.acquire(NAME).await.unwrap();
        let waiter = claim(Duration::from_secs(30));
        let waiting = {
            let (store, waiter) = (store.clone(), waiter.clone());
            tokio::spawn(async move { store.acquire(&waiter, &Wait::default()).await })
        };
        plain.wait_for_line(2).await;
        let held_by = plain.leases_of_line().await;
        let first_place =
            plain.0.get(waiter_key(&waiter), None).await.unwrap().kvs()[0].create_revision();
        plain.0.lease_revoke(held_by[1]).await.unwrap();
        // It notices at its next heartbeat, and joins the line again.
        plain.wait_for_line(2).await;
        plain.0.lease_revoke(held_by[0]).await.unwrap();
        let error = soon("an answer", guard.extend(2 * LONG)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
        let grant = soon("the lock", waiting).await.unwrap().unwrap();
        assert!(
            grant.epoch > first_place.cast_unsigned(),
            "a place that was lost is no grant"
        );
        assert_eq!(store.release(&waiter).await.unwrap(), Release::Freed);
        drop(guard);
        soon("everything to be given back", locker.shutdown()).await;
        plain.wait_until_clean().await;
    });
}

fn waiter_key(claim: &fencepost::Claim) -> String {
    let owner = claim.owner.to_string();
    let number = u64::from_str_radix(&owner[16..], 16).unwrap() & (u64::MAX >> 1);
    format!("{NAME}/{number:x}")
}

impl Plain {
    /// Returns the leases of the claims in line, in order.
    async fn leases_of_line(&mut self) -> Vec<i64> {
        let options = fencepost::stores::etcd::client::GetOptions::new().with_prefix();
        let found = self.0.get(format!("{NAME}/"), Some(options)).await.unwrap();
        let mut found: Vec<_> = found.kvs().iter().collect();
        found.sort_by_key(|kv| kv.create_revision());
        found.iter().map(|kv| kv.lease()).collect()
    }
}

/// An operator deletes the key. The lock is lost although its lease is alive.
pub(crate) fn a_key_taken_away() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let mut plain = Plain::open(server.address()).await;
        let store = open(&server.url()).await;
        let locker = locker(&store, LONG);
        let guard = locker.acquire(NAME).await.unwrap();
        let keys = plain.keys(NAME).await;
        plain.0.delete(keys[0].as_str(), None).await.unwrap();
        let error = soon("an answer", guard.extend(2 * LONG)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
        assert_eq!(guard.lost().await.reason(), LostReason::Gone);
        drop(guard);
        soon("everything to be given back", locker.shutdown()).await;
        plain.wait_until_clean().await;
    });
}

/// Somebody overwrites our key without a lease. The next renewal attaches the lease again.
pub(crate) fn a_key_written_into() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let mut plain = Plain::open(server.address()).await;
        let store = open(&server.url()).await;
        let held = claim(Duration::from_secs(30));
        let grant = store.try_acquire(&held).await.unwrap().unwrap();
        let key = plain.keys(NAME).await.remove(0);
        plain.put(&key, "scribble").await;
        let renewed = store.renew(std::slice::from_ref(&held)).await.remove(0);
        assert_eq!(renewed.unwrap(), fencepost::backend::Renewal::Extended);
        let record = store.inspect(&held.name).await.unwrap().unwrap();
        let holder = record.holder.unwrap();
        assert_eq!(
            (holder.owner, holder.epoch),
            (Some(held.owner), Some(grant.epoch))
        );
        assert!(holder.ttl_left.is_some());
        plain.put(&key, "scribble").await;
        assert_eq!(store.release(&held).await.unwrap(), Release::Freed);
        plain.wait_until_clean().await;
    });
}

/// The history that a waiter watches is compacted.
pub(crate) fn compacted_while_waiting() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let mut plain = Plain::open(server.address()).await;
        let store = open(&server.url()).await;
        let locker: Locker = locker(&store, LONG);
        let held = locker.acquire(NAME).await.unwrap();
        let waiting = tokio::spawn({
            let locker = locker.clone();
            async move { locker.acquire(NAME).await }
        });
        plain.wait_for_line(2).await;
        plain.put("a", "1").await;
        let put = plain.0.put("a", "2", None).await.unwrap();
        let revision = put.header().unwrap().revision();
        plain.0.compact(revision, None).await.unwrap();
        plain.0.delete("a", None).await.unwrap();
        released(held).await;
        let guard = soon("the lock", waiting).await.unwrap().unwrap();
        released(guard).await;
        plain.wait_until_clean().await;
    });
}
