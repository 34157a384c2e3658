//! Servers on which the lease table cannot be used: absent, refusing connections, or refusing writes.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::postgres_table::PostgresTable;
use fencepost::{Backend, Effect, Error, ErrorKind};

use crate::support::{
    LONG, NAME, Server, assert_error, claim, eventually, grace, locker, now, outlives_its_ttl,
    patient, run, soon,
};

async fn refused(url: &str) -> Error {
    let builder = PostgresTable::builder(url).create_table(true);
    soon("an error", builder.open()).await.unwrap_err()
}

pub(crate) fn absent() {
    run(async {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        drop(socket);
        let error = refused(&format!("postgres://u:secret@{address}/d")).await;
        assert_error(
            &error,
            ErrorKind::Unavailable,
            Effect::None,
            "nothing listens",
        );
        assert!(!format!("{error:?}").contains("secret"));
    });
}

pub(crate) fn a_web_server() {
    run(async {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = socket.accept() {
                let _request = stream.read(&mut [0; 1024]);
                let _sent = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
                // Keeps the connection until the client has read the answer and closes.
                let _rest = stream.read(&mut [0; 1024]);
            }
        });
        // The text could be the beginning of a very long message, which never ends. The error says so.
        let error = refused(&format!("postgres://u@{address}/d")).await;
        assert_error(
            &error,
            ErrorKind::Unavailable,
            Effect::None,
            "does not answer",
        );
    });
}

pub(crate) fn no_address() {
    run(async {
        for address in ["redis://localhost", "postgres://u:secret@h:port/d"] {
            let error = refused(address).await;
            assert_error(
                &error,
                ErrorKind::InvalidInput,
                Effect::None,
                "expected postgres://",
            );
            assert!(!error.to_string().contains("secret"));
        }
        let error = refused("postgres://u@localhost/d?table=a.b.c").await;
        assert_error(
            &error,
            ErrorKind::InvalidInput,
            Effect::None,
            "names no table",
        );
    });
}

pub(crate) fn wrong_password() {
    run(async {
        // The server reads the file as a different user.
        let folder = tempfile::tempdir().unwrap();
        let readable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), readable).unwrap();
        let rules = folder.path().join("pg_hba.conf");
        let text =
            "host all fencepost 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
        std::fs::write(&rules, text).unwrap();
        let server = Server::bare(&[&format!("hba_file={}", rules.display())]);
        let plain = server.plain().await;
        plain
            .does("CREATE ROLE app LOGIN PASSWORD 'right'; GRANT ALL ON SCHEMA public TO app")
            .await;
        let address = server.0.address();
        let error = refused(&format!("postgres://app:wrong@{address}/postgres")).await;
        assert_error(
            &error,
            ErrorKind::Unusable,
            Effect::None,
            "user or password is wrong",
        );
        assert!(!format!("{error:?}").contains("wrong@"));
        let error = refused(&format!("postgres://app@{address}/postgres")).await;
        assert_error(&error, ErrorKind::Unusable, Effect::None, "password");
        let right = format!("postgres://app:right@{address}/postgres");
        let store = PostgresTable::builder(&right)
            .create_table(true)
            .open()
            .await;
        let store = store.unwrap();
        assert_eq!(store.address(), format!("postgres://{address}/postgres"));
        assert!(!format!("{store:?}").contains("right"));
    });
}

pub(crate) fn no_such_database() {
    run(async {
        let server = Server::bare(&[]);
        let url = format!("postgres://fencepost@{}/nothing", server.0.address());
        let error = refused(&url).await;
        assert_error(
            &error,
            ErrorKind::Unusable,
            Effect::None,
            "no such database",
        );
    });
}

/// Another session keeps the row locked in an open transaction. A try fails soon, a waiter continues to wait, and a holder of
/// other locks keeps them.
pub(crate) fn a_row_that_stays_locked() {
    run(async {
        let server = Server::start().await;
        let store = server.store().await;
        // More than three refusals of 0.5 s.
        let ttl = Duration::from_secs(2);
        let locker = locker(&store, ttl);
        let guard = locker.acquire(NAME).await.unwrap();
        assert!(guard.release().await.is_released());
        let other = locker.acquire("another").await.unwrap();
        let plain = server.plain().await;
        plain
            .does("BEGIN; SELECT 1 FROM shedlock WHERE name = 'stock' FOR UPDATE")
            .await;
        let asked = now();
        let error = soon("an error", locker.try_acquire(NAME))
            .await
            .unwrap_err();
        assert_error(&error, ErrorKind::Timeout, Effect::None, "lock_timeout");
        assert!(now().saturating_duration_since(asked) < Duration::from_millis(500) + grace());
        let waiter = locker.clone();
        let waiting = tokio::spawn(async move { waiter.acquire(NAME).await });
        outlives_its_ttl(&other, ttl).await;
        assert!(!waiting.is_finished());
        plain.does("COMMIT").await;
        let guard = soon("the lock", waiting).await.unwrap().unwrap();
        assert!(guard.release().await.is_released());
        assert!(other.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// A row that stays locked is not an outage. When the session of the waiter is terminated after a long time, the outage begins
/// then.
pub(crate) fn a_locked_row_is_no_outage() {
    run(async {
        let server = Server::start().await;
        let outage = Duration::from_millis(300);
        let store = patient(&server.0.url()).max_outage(outage).open().await;
        let waiter = locker(&Arc::new(store.unwrap()), LONG);
        let guard = waiter.acquire(NAME).await.unwrap();
        assert!(guard.release().await.is_released());
        let plain = server.plain().await;
        plain
            .does("BEGIN; SELECT 1 FROM shedlock WHERE name = 'stock' FOR UPDATE")
            .await;
        let waiting = tokio::spawn(async move { waiter.acquire(NAME).await });
        // The server refuses a row after 0.5 s. This is enough for two refusals, and for several times the maximum outage after the first.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let other = server.plain().await;
        let session = "SELECT coalesce(max(pid), 0)::text FROM pg_stat_activity WHERE application_name LIKE 'fencepost%'";
        let terminated = other.text(session).await;
        assert_ne!(terminated, "0", "the waiter has a session");
        other
            .does(&format!("SELECT pg_terminate_backend({terminated})"))
            .await;
        eventually("a new session", async || {
            let pid = other.text(session).await;
            pid != "0" && pid != terminated
        })
        .await;
        tokio::time::sleep(outage).await;
        assert!(!waiting.is_finished(), "the waiter was thrown out");
        plain.does("COMMIT").await;
        let guard = soon("the lock", waiting).await.unwrap().unwrap();
        assert!(guard.release().await.is_released());
    });
}

/// The server's own timeout is shorter than ours.
pub(crate) fn statement_timeout() {
    run(async {
        let server = Server::start().await;
        let plain = server.plain().await;
        plain
            .does("ALTER ROLE fencepost SET statement_timeout = '80ms'")
            .await;
        let locker = locker(&server.store().await, LONG);
        let guard = locker.acquire(NAME).await.unwrap();
        assert!(guard.release().await.is_released());
        plain
            .does("BEGIN; SELECT 1 FROM shedlock WHERE name = 'stock' FOR UPDATE")
            .await;
        let error = soon("an error", locker.try_acquire(NAME))
            .await
            .unwrap_err();
        assert_error(
            &error,
            ErrorKind::Timeout,
            Effect::None,
            "statement_timeout",
        );
        plain.does("COMMIT").await;
        let guard = soon("the lock", locker.acquire(NAME)).await.unwrap();
        assert!(guard.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// As after a switch to another primary: a holder learns that it cannot renew, and loses the lock at its TTL, not earlier.
pub(crate) fn became_read_only() {
    run(async {
        let server = Server::start().await;
        let store = server.store().await;
        let locker = locker(&store, Duration::from_secs(2));
        let guard = locker.acquire(NAME).await.unwrap();
        let plain = server.plain().await;
        plain
            .does("ALTER SYSTEM SET default_transaction_read_only = on")
            .await;
        plain.does("SELECT pg_reload_conf()").await;
        let error = async || locker.try_acquire("another").await.err();
        eventually("the new setting", async || error().await.is_some()).await;
        assert_error(
            &error().await.unwrap(),
            ErrorKind::Unusable,
            Effect::None,
            "read-only",
        );
        assert!(!guard.is_lost());
        soon("the loss", guard.lost()).await;
        let plain = server.plain().await;
        plain.does("SET default_transaction_read_only = off").await;
        plain
            .does("ALTER SYSTEM RESET default_transaction_read_only")
            .await;
        plain.does("SELECT pg_reload_conf()").await;
        let answer = async || locker.try_acquire(NAME).await.ok().flatten();
        eventually("the lock", async || answer().await.is_some()).await;
        drop(guard);
        locker.shutdown().await;
        server.wait_until_clean().await;
    });
}

/// A standby is reported when the store is opened.
pub(crate) fn a_standby() {
    run(async {
        let mut server = Server::start().await;
        let plain = server.plain().await;
        let data = plain.text("SHOW data_directory").await;
        std::fs::write(format!("{data}/standby.signal"), "").unwrap();
        server.0.restart().unwrap();
        let error = refused(&server.0.url()).await;
        assert_error(&error, ErrorKind::Unusable, Effect::None, "standby");
    });
}

/// Whatever the defaults of a role: a statement sees what was committed before it, and a grant is on disk.
pub(crate) fn odd_defaults() {
    run(async {
        let server = Server::start().await;
        let plain = server.plain().await;
        for setting in [
            "default_transaction_isolation = 'serializable'",
            "synchronous_commit = off",
            "timezone = 'Asia/Kathmandu'",
            "datestyle = 'German'",
            "intervalstyle = 'sql_standard'",
            "standard_conforming_strings = off",
            "search_path = public, pg_catalog",
        ] {
            plain
                .does(&format!("ALTER ROLE fencepost SET {setting}"))
                .await;
        }
        let (one, other) = (server.store().await, server.store().await);
        let ttl = Duration::from_secs(20);
        let (holder, waiter) = (locker(&one, ttl), locker(&other, ttl));
        for _ in 0..5 {
            let held = soon("the lock", holder.acquire(NAME)).await.unwrap();
            let left = plain.left_ms().await;
            assert!((15_000..=20_001).contains(&left), "{left}");
            let waiter = waiter.clone();
            let waiting = tokio::spawn(async move { waiter.acquire(NAME).await.unwrap() });
            server.wait_for_line(1).await;
            assert!(held.release().await.is_released());
            let next = soon("the next", waiting).await.unwrap();
            assert!(next.release().await.is_released());
        }
        // All request a free lock at once. One gets it, the others are refused, and none gets an error.
        let stores = [
            server.store().await,
            server.store().await,
            one.clone(),
            other.clone(),
        ];
        let crowd = stores.map(|store| {
            tokio::spawn(async move {
                for _ in 0..150 {
                    let claim = claim(ttl);
                    if store.try_acquire(&claim).await.unwrap().is_some() {
                        store.release(&claim).await.unwrap();
                    }
                }
            })
        });
        for turns in crowd {
            soon("everybody's turns", turns).await.unwrap();
        }
        let claim = claim(ttl);
        assert!(one.try_acquire(&claim).await.unwrap().is_some());
        let record = other.inspect(&claim.name).await.unwrap().unwrap();
        assert_eq!(record.holder.unwrap().owner, Some(claim.owner));
        one.release(&claim).await.unwrap();
        server.wait_until_clean().await;
    });
}
