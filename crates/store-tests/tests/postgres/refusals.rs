//! Servers that the Postgres store refuses, with the error that explains each refusal.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::time::Duration;

use fencepost::stores::postgres::Postgres;
use fencepost::{Effect, ErrorKind};
use fencepost_rig::{Direction, Proxy, folder};

use crate::support::{LONG, NAME, SOON, Server, assert_error, locker, open, run, soon, works};

async fn refused(url: &str) -> fencepost::Error {
    let opened = soon("an error", Postgres::open(url)).await;
    opened.expect_err("a refusal")
}

/// The server accepts connections but never answers.
pub(crate) fn silent() {
    run(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("postgres://u@{}/d", listener.local_addr().unwrap());
        let timeout = Duration::from_millis(300);
        let opened = Postgres::builder(&url).connect_timeout(timeout).open();
        let error = soon("an error", opened).await.unwrap_err();
        assert_error(
            &error,
            ErrorKind::Unavailable,
            Effect::None,
            "does not answer",
        );
    });
}

/// The network is slow: an answer takes longer than the store waits before it looks whether a pooler has no session left.
pub(crate) fn a_slow_network_is_no_pooler() {
    run(async {
        let server = Server::start();
        let proxy = Proxy::start(server.0.address()).unwrap();
        for direction in [Direction::ToServer, Direction::ToClient] {
            proxy.delay(direction, Duration::from_millis(150));
        }
        let url = format!("postgres://fencepost@{}/postgres", proxy.address());
        let opening = Postgres::builder(&url).connect_timeout(SOON / 2).open();
        let store = tokio::time::timeout(LONG, opening).await;
        works(&store.expect("a connection").unwrap()).await;
    });
}

/// Starts a server that sends this text to every client and closes the connection.
fn answers(text: &'static str) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let _ = client.read(&mut [0; 100]);
            let _ = client.write_all(text.as_bytes());
        }
    });
    address
}

/// A web server listens on the port.
pub(crate) fn a_web_server() {
    run(async {
        let address = answers("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        let error = refused(&format!("postgres://u@{address}/d")).await;
        assert_error(
            &error,
            ErrorKind::Unusable,
            Effect::None,
            "does not talk like Postgres",
        );
        let address = answers("");
        let error = refused(&format!("postgres://u@{address}/d")).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    });
}

pub(crate) fn wrong_password() {
    run(async {
        let folder = folder().unwrap();
        let rules = folder.path().join("hba.conf");
        let text = "host all shop all scram-sha-256\nhost all all all trust\n";
        std::fs::write(&rules, text).unwrap();
        // The server may run as a different user.
        for path in [folder.path(), &rules] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let server = Server::start_with(&[&format!("hba_file={}", rules.display())]);
        let eyes = server.eyes().await;
        eyes.text("create role shop login password 'secret'").await;
        eyes.text("grant create on schema public to shop").await;
        let error = refused(&server.url_of("shop:secret-no")).await;
        assert_error(
            &error,
            ErrorKind::Unusable,
            Effect::None,
            "password is wrong",
        );
        let error = refused(&server.url_of("shop")).await;
        assert_error(&error, ErrorKind::Unusable, Effect::None, "password");
        let store = open(&server.url_of("shop:secret")).await;
        assert!(!format!("{store:?} {}", store.address()).contains("secret"));
        works(&*store).await;
    });
}

pub(crate) fn no_such_database() {
    run(async {
        let server = Server::start();
        let url = server.0.url().replace("/postgres", "/nowhere");
        assert_error(
            &refused(&url).await,
            ErrorKind::Unusable,
            Effect::None,
            "no such database",
        );
    });
}

pub(crate) fn no_connection_left() {
    run(async {
        let server = Server::start_with(&["max_connections=5", "superuser_reserved_connections=0"]);
        let mut taken = Vec::new();
        for _ in 0..5 {
            taken.push(server.eyes().await);
        }
        let error = refused(&server.0.url()).await;
        assert_error(
            &error,
            ErrorKind::Unavailable,
            Effect::None,
            "max_connections",
        );
    });
}

/// A standby has advisory locks but no fences. The store refuses it before anybody relies on it.
pub(crate) fn a_standby() {
    run(async {
        let mut server = Server::start_with(&["hot_standby=on"]);
        let eyes = server.eyes().await;
        let data = eyes.text("show data_directory").await;
        eyes.text("checkpoint").await;
        server.0.crash();
        let sign = std::path::Path::new(&data).join("standby.signal");
        std::fs::write(&sign, "").unwrap();
        let owner = std::fs::metadata(&data).unwrap();
        use std::os::unix::fs::MetadataExt;
        chown(&sign, Some(owner.uid()), Some(owner.gid())).unwrap();
        server.0.restart().unwrap();
        let error = refused(&server.0.url()).await;
        assert_error(&error, ErrorKind::Unusable, Effect::None, "standby");
    });
}

/// Timeouts that an administrator set against runaway statements do not cut a wait short.
pub(crate) fn timeouts_of_the_role() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        for setting in [
            "statement_timeout = '50ms'",
            "lock_timeout = '50ms'",
            // It applies until our own setting takes effect, so it must be longer than a busy machine takes from connecting to
            // the first statement.
            "idle_session_timeout = '2s'",
            "default_transaction_read_only = on",
            "synchronous_commit = off",
        ] {
            eyes.text(&format!("alter role fencepost set {setting}"))
                .await;
        }
        let store = server.store().await;
        let keeps_its_place = format!("{}?requeue_after=never", server.0.url());
        let (one, other) = (&store, &open(&keeps_its_place).await);
        let (one, other) = (locker(one, LONG), locker(other, LONG));
        let held = one.acquire(NAME).await.unwrap();
        let waiting = tokio::spawn(async move { other.acquire(NAME).await.unwrap() });
        eyes.wait_for_line(1).await;
        let place = "select l.pid || ' ' || a.query_start from pg_locks l join pg_stat_activity a on a.pid = l.pid where not granted";
        let before = eyes.text(place).await;
        // Longer than any of the timeouts.
        tokio::time::sleep(Duration::from_millis(2500)).await;
        assert_eq!(eyes.text(place).await, before, "it lost its place");
        assert!(!held.is_lost());
        assert!(held.release().await.is_released());
        let guard = soon("the lock", waiting).await.unwrap();
        assert!(guard.release().await.is_released());
    });
}
