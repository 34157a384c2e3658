//! Connections to Redis that break at the worst moment.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost::{ErrorKind, Locker, ReleaseOutcome};
use fencepost_rig::{Amount, Direction, Fate, Proxy};

use crate::support::{
    LONG, NAME, SOON, Server, contains, eventually, kept_for, locker, open, run, soon,
};

/// The network delays a request, which reaches the server on the old connection after its owner has given up, reconnected and
/// left. It must have no effect: nobody would ever release what it acquires.
pub(crate) fn a_stale_acquire_comes_to_nothing() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        let store = open(proxy.address()).await;
        // The server knows the scripts, so each request is one message.
        let locker = locker(&store, LONG);
        drop(soon("a first lock", locker.acquire(NAME)).await.unwrap());
        server.wait_until_clean().await;
        let before = server.plain().info("cmdstat_evalsha");
        proxy.judge(Direction::ToServer, {
            let held_back = Mutex::new(false);
            move |message| {
                let mut held_back = held_back.lock().unwrap();
                if contains(message, "EVALSHA") && !std::mem::replace(&mut held_back, true) {
                    Fate::Late(Proxy::FOREVER)
                } else {
                    Fate::Pass
                }
            }
        });
        let error = soon("an error", locker.acquire(NAME)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        eventually("a new connection", async || proxy.counts().connections == 2).await;
        soon("the release", locker.shutdown()).await;
        assert_ne!(
            server.plain().info("cmdstat_evalsha"),
            before,
            "it has left"
        );
        // Now the request arrives. If it were executed, that would be before the answers to later requests.
        let passed = proxy.counts().to_server.messages;
        proxy.heal();
        drop(store);
        eventually("the old question", async || {
            proxy.counts().to_server.messages > passed || closed(&server)
        })
        .await;
        let mut plain = server.plain();
        for _ in 0..200 {
            assert_eq!(plain.number(&["EXISTS", NAME]), 0, "an orphan");
        }
        server.wait_until_clean().await;
    });
}

fn closed(server: &Server) -> bool {
    !server
        .plain()
        .text(&["CLIENT", "LIST"])
        .unwrap()
        .contains("name=fencepost")
}

/// Before a new connection sends any request, it makes the server end the old one.
pub(crate) fn the_old_one_is_killed_first() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        let store = open(proxy.address()).await;
        let id = our_id(&server);
        let said = Arc::new(Mutex::new(Vec::new()));
        let listening = said.clone();
        proxy.judge(Direction::ToServer, move |message| {
            listening.lock().unwrap().push(message.to_owned());
            Fate::Pass
        });
        proxy.cut();
        let locker = locker(&store, LONG);
        // The first request may find that the connection has just broken.
        let guard = match soon("an answer", locker.acquire(NAME)).await {
            Ok(guard) => guard,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                soon("a lock", locker.acquire(NAME)).await.unwrap()
            }
        };
        let said = said.lock().unwrap().clone();
        let position = |text: &str| said.iter().position(|message| contains(message, text));
        let killed = position(&format!("KILL\r\n$2\r\nID\r\n${}\r\n{id}\r\n", id.len()));
        let asked = position("EVALSHA");
        assert!(
            killed.is_some() && killed < asked,
            "killed: {killed:?}, asked: {asked:?}"
        );
        assert_ne!(our_id(&server), id);
        assert!(guard.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// Returns the server's id of our connection.
fn our_id(server: &Server) -> String {
    let clients = server.plain().text(&["CLIENT", "LIST"]).unwrap();
    let ours = clients.lines().find(|line| line.contains("name=fencepost"));
    let id = ours
        .unwrap()
        .split(' ')
        .find_map(|field| field.strip_prefix("id="));
    id.unwrap().to_owned()
}

/// The answer to a release is lost, and it is sent again when a successor holds the lock. The successor must keep it.
pub(crate) fn a_release_is_resent() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        let first = locker(&open(proxy.address()).await, LONG);
        let second = locker(&server.store().await, LONG);
        // The server knows the scripts, so the release is one message.
        assert!(
            first
                .acquire(NAME)
                .await
                .unwrap()
                .release()
                .await
                .is_released()
        );
        let held = first.acquire(NAME).await.unwrap();
        let waiting = server.waiter_of(&second).await;
        let fence = held.fence();
        proxy.cut_after(Direction::ToServer, Amount::Messages(1));
        match soon("an outcome", held.release()).await {
            ReleaseOutcome::Released => {}
            ReleaseOutcome::Unknown(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}")
            }
            other => panic!("{other:?}: it was held until then"),
        }
        let guard = soon("the successor's grant", waiting).await.unwrap();
        assert!(guard.fence() > fence);
        soon("the release to be repeated", first.shutdown()).await;
        assert_eq!(
            proxy.counts().connections,
            2,
            "it was to be repeated on a new connection"
        );
        assert!(!guard.is_lost());
        assert!(!kept_for(&mut server.plain(), guard.owner()).is_zero());
        assert!(guard.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// Latency is so high that reconnecting takes longer than one renewal may. The lock is kept nevertheless.
pub(crate) fn a_long_road_does_not_lose_a_lock() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        let store = open(proxy.address()).await;
        let ttl = Duration::from_secs(3);
        let locker = Locker::builder(store).ttl(ttl).build().unwrap();
        let guard = locker.acquire(NAME).await.unwrap();
        for direction in [Direction::ToServer, Direction::ToClient] {
            proxy.delay(direction, Duration::from_millis(90));
        }
        proxy.cut();
        let mut plain = server.plain();
        eventually("a renewal", async || {
            assert!(!guard.is_lost(), "lost though the server can be reached");
            proxy.counts().connections >= 2 && kept_for(&mut plain, guard.owner()) > ttl * 9 / 10
        })
        .await;
        assert!(guard.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// The connection becomes a black hole just after a reconnect, while a waiter asks for its place. It must not wait there for
/// ever.
pub(crate) fn a_black_hole_while_asking_again() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        let waiter = locker(&open(proxy.address()).await, LONG);
        let holder = locker(&server.store().await, LONG);
        let held = holder.acquire(NAME).await.unwrap();
        let waiting = tokio::spawn(async move { waiter.acquire(NAME).await });
        server.wait_for_heartbeats(NAME, 1).await;
        // Requests on the next connection disappear.
        proxy.cut();
        proxy.judge(Direction::ToServer, |message| {
            if contains(message, "EVAL") {
                Fate::Lose
            } else {
                Fate::Pass
            }
        });
        eventually("a question that vanished", async || {
            proxy.counts().to_server.swallowed > 0
        })
        .await;
        proxy.heal();
        assert!(held.release().await.is_released());
        let guard = tokio::time::timeout(2 * SOON, waiting).await;
        let guard = guard.expect("a waiter that is not stuck").unwrap().unwrap();
        assert!(guard.release().await.is_released());
        server.wait_until_clean().await;
    });
}
