//! Redis servers that are absent, wrong, full or busy, and servers that are not Redis. Each test checks the kind and effect of
//! the error, its timing, and that nothing outlives its TTL.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use fencepost::stores::redis::Redis;
use fencepost::{Backend, Effect, ErrorKind, Locker, LostReason, ReleaseOutcome};
use fencepost_rig::resp::Value;

use crate::support::{
    LONG, NAME, Plain, Server, assert_error, eventually, outlives_its_ttl, run, soon,
};

/// Returns a locker with a short timeout.
pub(crate) fn impatient(store: &std::sync::Arc<Redis>, ttl: Duration) -> Locker {
    let builder = Locker::builder(store.clone()).ttl(ttl).without_hand_over();
    builder
        .store_timeout(Duration::from_secs(1))
        .build()
        .unwrap()
}

/// Nothing listens at the address.
pub(crate) fn absent() {
    run(async {
        let mut server = Server::start();
        let store = Redis::builder(&server.0.url()).max_outage(Duration::from_millis(300));
        let store = std::sync::Arc::new(store.open().await.unwrap());
        let locker = impatient(&store, Duration::from_secs(1));
        let held = locker.acquire("held").await.unwrap();
        let released = locker.acquire("released").await.unwrap();
        let blocked = locker.acquire(NAME).await.unwrap();
        let waiting = tokio::spawn({
            let locker = locker.clone();
            async move { locker.acquire(NAME).await }
        });
        server.wait_for_heartbeats(NAME, 1).await;
        server.0.crash();

        let error = soon("an error", Redis::open(&server.0.url()))
            .await
            .unwrap_err();
        assert_error(
            &error,
            ErrorKind::Unavailable,
            Effect::None,
            "nothing listens there",
        );
        // A request that was under way when the connection broke may have been executed; one that was not sent was not.
        for _ in 0..2 {
            let error = soon("an error", locker.acquire("other")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
        let error = soon("an error", locker.try_acquire("other"))
            .await
            .unwrap_err();
        assert_error(
            &error,
            ErrorKind::Unavailable,
            Effect::None,
            "nothing listens there",
        );
        let outcome = soon("an outcome", released.release()).await;
        assert!(matches!(outcome, ReleaseOutcome::Unknown(_)), "{outcome:?}");
        let lost = soon("the loss", held.lost()).await;
        assert_eq!(lost.reason(), LostReason::Expired);
        assert!(lost.failed_renewals().is_some());
        let error = soon("the waiter", waiting).await.unwrap().unwrap_err();
        assert_error(
            &error,
            ErrorKind::Unavailable,
            Effect::Maybe,
            "nothing listens there",
        );
        drop(blocked);
    });
}

/// The server accepts connections but never answers.
pub(crate) fn silent() {
    run(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let timeout = Duration::from_millis(300);
        let open = Redis::builder(&url).connect_timeout(timeout).open();
        let error = tokio::time::timeout(timeout * 10, open)
            .await
            .unwrap()
            .unwrap_err();
        assert_error(
            &error,
            ErrorKind::Unavailable,
            Effect::None,
            "does not answer",
        );
    });
}

/// A web server listens on the port.
pub(crate) fn a_web_server() {
    run(async {
        for answer in [
            "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            "<html>",
            "",
        ] {
            let url = format!("redis://{}", answers(answer));
            let error = soon("an error", Redis::open(&url)).await.unwrap_err();
            assert_eq!(error.effect(), Effect::None, "{error}");
            match answer {
                "" => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
                _ => assert_error(&error, ErrorKind::Unusable, Effect::None, "not Redis"),
            }
        }
    });
}

/// A server before Redis 6, or a proxy without RESP3.
pub(crate) fn too_old() {
    run(async {
        let url = format!(
            "redis://{}",
            answers("-ERR unknown command `HELLO`, with args\r\n")
        );
        let error = soon("an error", Redis::open(&url)).await.unwrap_err();
        assert_error(&error, ErrorKind::Unusable, Effect::None, "older");
    });
}

/// Starts a server that sends this answer to every client and closes the connection.
fn answers(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else {
            return;
        };
        let mut heard = [0; 1024];
        while let Ok(length @ 1..) = stream.read(&mut heard) {
            // A server that answers like Redis answers every command and keeps the connection.
            if !answer.starts_with('-') {
                let _ = stream.write_all(answer.as_bytes());
                return;
            }
            let commands = heard[..length].iter().filter(|byte| **byte == b'*').count();
            let _ = stream.write_all(answer.repeat(commands).as_bytes());
        }
    });
    address
}

/// The password is wrong from the start, or becomes wrong later. No error reveals it.
pub(crate) fn wrong_password() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        let mut plain = server.plain();
        plain.does(&["CONFIG", "SET", "requirepass", "right"]);
        plain.does(&["AUTH", "right"]);
        let url = |password: &str| format!("redis://{password}{}", proxy.address());
        for password in [":wrong-one@", "nobody:wrong-one@", ""] {
            let error = soon("an error", Redis::open(&url(password)))
                .await
                .unwrap_err();
            assert_error(&error, ErrorKind::Unusable, Effect::None, "password");
            assert!(!format!("{error} {error:?}").contains("wrong-one"));
        }
        let store = std::sync::Arc::new(Redis::open(&url(":right@")).await.unwrap());
        assert!(!format!("{store:?}").contains("right"));
        let locker = impatient(&store, Duration::from_secs(2));
        let held = locker.acquire(NAME).await.unwrap();
        let waiting = tokio::spawn({
            let locker = locker.clone();
            async move { locker.acquire(NAME).await }
        });
        let line = format!("fp:{{{NAME}}}:wait:{NAME}");
        eventually("a sign of life", async || {
            plain.number(&["HLEN", &line]) == 1
        })
        .await;
        plain.does(&["CONFIG", "SET", "requirepass", "changed"]);
        proxy.cut();
        let error = soon("the waiter", waiting).await.unwrap().unwrap_err();
        assert_error(&error, ErrorKind::Unusable, Effect::Maybe, "password");
        let lost = soon("the holder", held.lost()).await;
        assert_eq!(lost.reason(), LostReason::Expired);
        eventually("the end of the lease", async || {
            plain.number(&["EXISTS", NAME]) == 0
        })
        .await;
    });
}

/// A replica refuses. A primary that is demoted for a while does not end a wait.
pub(crate) fn a_read_only_replica() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let locker = impatient(&server.store().await, Duration::from_secs(20));
        let held = locker.acquire(NAME).await.unwrap();
        let waiting = tokio::spawn({
            let locker = locker.clone();
            async move { locker.acquire(NAME).await }
        });
        server.wait_for_heartbeats(NAME, 1).await;
        plain.does(&["REPLICAOF", "127.0.0.1", "1"]);
        let error = soon("an error", locker.acquire("other")).await.unwrap_err();
        assert_error(
            &error,
            ErrorKind::Unusable,
            Effect::None,
            "read-only replica",
        );
        let error = soon("an error", locker.try_acquire("other"))
            .await
            .unwrap_err();
        assert_error(
            &error,
            ErrorKind::Unusable,
            Effect::None,
            "read-only replica",
        );
        let outcome = soon("an outcome", held.release()).await;
        assert!(matches!(outcome, ReleaseOutcome::Unknown(_)), "{outcome:?}");
        assert!(!waiting.is_finished(), "the wait goes on");
        plain.does(&["REPLICAOF", "NO", "ONE"]);
        let guard = soon("the waiter's turn", waiting).await.unwrap().unwrap();
        assert!(guard.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// The server loads its data from disk. New requests fail with that reason, and waiters continue to wait.
pub(crate) fn loading() {
    run(async {
        let mut server = Server::start();
        let mut plain = server.plain();
        let script = "for i = 1, 3000 do redis.call('SET', 'data' .. i, i, 'PX', 100000) end";
        plain.does(&["EVAL", script, "0"]);
        let locker = impatient(&server.store().await, Duration::from_secs(20));
        let held = locker.acquire(NAME).await.unwrap();
        let waiting = tokio::spawn({
            let locker = locker.clone();
            async move { locker.acquire(NAME).await }
        });
        server.wait_for_heartbeats(NAME, 1).await;
        plain.does(&["SAVE"]);
        let slow = [
            "--key-load-delay",
            "500",
            "--loading-process-events-interval-bytes",
            "1024",
        ];
        server.0.respawn(&slow).unwrap();
        eventually("a server that loads", async || {
            is_loading(server.0.address())
        })
        .await;
        let mut told = false;
        while is_loading(server.0.address()) {
            match soon("an answer", locker.try_acquire("other")).await {
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                    told |= error.to_string().contains("loading");
                }
                Ok(taken) => drop(taken),
            }
            assert!(!waiting.is_finished());
        }
        assert!(told, "it was never asked while it loaded");
        server.0.wait_until_ready().unwrap();
        // It has all its data: the holder still holds, and the waiter still waits.
        let timeout = Duration::from_secs(30);
        let taken = soon("an answer", locker.acquire_within("other", timeout)).await;
        assert!(taken.unwrap().is_some());
        assert!(held.release().await.is_released());
        let guard = soon("the waiter's turn", waiting).await.unwrap().unwrap();
        assert!(guard.release().await.is_released());
    });
}

fn is_loading(address: SocketAddr) -> bool {
    let Ok(mut connection) = fencepost_rig::resp::Connection::open(address, LONG) else {
        return false;
    };
    matches!(connection.ask(&["GET", "x"]), Ok(Value::Error(message)) if message.starts_with("LOADING"))
}

/// A cluster node that does not have the lock's slot.
pub(crate) fn a_cluster_node() {
    run(async {
        let node = || {
            let bus = fencepost_rig::free_port().unwrap().to_string();
            let server = Server::start_with(["--cluster-enabled", "yes", "--cluster-port", &bus]);
            (server, bus)
        };
        let ((asked, _), (owner, bus)) = (node(), node());
        let store = asked.store().await;
        let locker = impatient(&store, LONG);
        let error = soon("an error", locker.acquire(NAME)).await.unwrap_err();
        assert_error(&error, ErrorKind::Unavailable, Effect::None, "ClusterDown");

        owner
            .plain()
            .does(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
        let port = owner.0.address().port().to_string();
        asked
            .plain()
            .does(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        let mut plain = asked.plain();
        let is_moved = |plain: &mut Plain| {
            let answer = plain.ask(&["GET", NAME]);
            matches!(answer, Value::Error(message) if message.starts_with("MOVED"))
        };
        eventually("the slots to be known", async || is_moved(&mut plain)).await;
        for error in [
            soon("an error", locker.acquire(NAME)).await.unwrap_err(),
            soon("an error", locker.try_acquire(NAME))
                .await
                .unwrap_err(),
            soon("an error", store.inspect(&NAME.try_into().unwrap()))
                .await
                .unwrap_err(),
        ] {
            assert_error(&error, ErrorKind::Unusable, Effect::None, "Redis Cluster");
        }
    });
}

/// The lock's name is the key of a different type. Its value is not touched, and other locks are not affected.
pub(crate) fn another_type() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let store = server.store().await;
        let ttl = Duration::from_secs(2);
        let locker = impatient(&store, ttl);
        plain.does(&["HSET", NAME, "field", "value"]);
        let error = soon("an error", locker.acquire(NAME)).await.unwrap_err();
        assert_error(&error, ErrorKind::Unusable, Effect::None, "than a lock");
        let error = soon("an error", locker.try_acquire(NAME))
            .await
            .unwrap_err();
        assert_error(&error, ErrorKind::Unusable, Effect::None, "than a lock");
        assert_eq!(
            soon("a look", store.inspect(&NAME.try_into().unwrap()))
                .await
                .unwrap(),
            None
        );
        plain.does(&["DEL", NAME]);

        // It changes its type while it is held and wanted, beside another lock.
        let held = locker.acquire(NAME).await.unwrap();
        let neighbour = locker.acquire("neighbour").await.unwrap();
        let [wanted, wanted_neighbour] = [NAME, "neighbour"].map(|name| {
            let locker = locker.clone();
            tokio::spawn(async move { locker.acquire(name).await })
        });
        server.wait_for_heartbeats(NAME, 1).await;
        server.wait_for_heartbeats("neighbour", 1).await;
        plain.does(&["DEL", NAME]);
        plain.does(&["HSET", NAME, "field", "value"]);
        let lost = soon("the loss", held.lost()).await;
        assert_eq!(lost.reason(), LostReason::Gone);
        let error = soon("the waiter", wanted).await.unwrap().unwrap_err();
        assert_error(&error, ErrorKind::Unusable, Effect::Maybe, "than a lock");
        // A lock does not suffer from another's fault.
        outlives_its_ttl(&neighbour, ttl).await;
        assert!(!wanted_neighbour.is_finished());
        assert!(neighbour.release().await.is_released());
        let next = soon("its next holder", wanted_neighbour)
            .await
            .unwrap()
            .unwrap();
        assert!(next.release().await.is_released());
        assert_eq!(
            plain.text(&["HGET", NAME, "field"]).as_deref(),
            Some("value")
        );
        plain.does(&["DEL", NAME]);
        server.wait_until_clean().await;
    });
}

/// A script of another client never ends. Redis refuses everything until the script is killed.
pub(crate) fn busy_with_a_script() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        plain.does(&["CONFIG", "SET", "busy-reply-threshold", "50"]);
        let locker = impatient(&server.store().await, Duration::from_secs(20));
        let held = locker.acquire(NAME).await.unwrap();
        let waiting = tokio::spawn({
            let locker = locker.clone();
            async move { locker.acquire(NAME).await }
        });
        server.wait_for_heartbeats(NAME, 1).await;
        let mut other = server.plain();
        let endless = std::thread::spawn(move || other.ask(&["EVAL", "while true do end", "0"]));
        let is_busy = |plain: &mut Plain| {
            let answer = plain.ask(&["GET", NAME]);
            matches!(answer, Value::Error(message) if message.starts_with("BUSY"))
        };
        eventually("a busy server", async || is_busy(&mut plain)).await;
        let error = soon("an error", locker.acquire("other")).await.unwrap_err();
        assert_error(&error, ErrorKind::Unavailable, Effect::None, "BUSY");
        assert!(!waiting.is_finished(), "the wait goes on");
        plain.does(&["SCRIPT", "KILL"]);
        endless.join().unwrap();
        assert!(soon("a release", held.release()).await.is_released());
        let guard = soon("the waiter's turn", waiting).await.unwrap().unwrap();
        assert!(guard.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// A name that is among the keys that we keep beside locks, and would be mistaken for one of them.
pub(crate) fn a_name_of_ours() {
    run(async {
        let server = Server::start();
        let locker = impatient(&server.store().await, LONG);
        for name in ["fp:{a}:fence:a", "fp:{"] {
            let error = locker.acquire(name).await.unwrap_err();
            assert_error(&error, ErrorKind::InvalidInput, Effect::None, "fp:{");
            let error = locker.try_acquire(name).await.unwrap_err();
            assert_error(&error, ErrorKind::InvalidInput, Effect::None, "fp:{");
        }
        drop(locker.acquire("fp:a").await.unwrap());
    });
}
