//! How soon the holder of a Postgres lock learns that its session has ended, and the effect on other locks of the process.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::postgres::Postgres;
use fencepost::{Guard, LostReason};
use fencepost_rig::Proxy;

use crate::support::{Eyes, LONG, NAME, Server, locker, now, open_impatient, run, soon};

/// Much less than a third of the TTL of a minute, when the next renewal is due.
const BEFORE_THE_NEXT_RENEWAL: Duration = Duration::from_secs(10);

async fn is_told_at_once(held: &Guard) {
    let since = now();
    let lost = tokio::time::timeout(BEFORE_THE_NEXT_RENEWAL, held.lost()).await;
    let lost = lost.expect("the holder is told before its next renewal");
    println!("told after {:?}", now().saturating_duration_since(since));
    assert_eq!(lost.reason(), LostReason::Gone);
}

/// An operator terminates the session.
pub(crate) fn terminated() {
    run(async {
        let server = Server::start();
        let locker = locker(&server.store().await, LONG);
        let eyes = server.eyes().await;
        let held = locker.acquire(NAME).await.unwrap();
        let pid = process_of(&eyes, NAME).await;
        let other = locker.acquire("other").await.unwrap();
        eyes.text(&format!("select pg_terminate_backend({pid})"))
            .await;
        is_told_at_once(&held).await;
        assert!(!other.is_lost(), "it has a session of its own");
        assert!(other.release().await.is_released());
        let again = soon("the lock", locker.acquire(NAME)).await.unwrap();
        assert!(again.release().await.is_released());
        eyes.wait_until_clean().await;
    });
}

/// The network cuts the connection.
pub(crate) fn cut() {
    run(async {
        let server = Server::start();
        let proxy = Proxy::start(server.0.address()).unwrap();
        let url = format!("postgres://fencepost@{}/postgres", proxy.address());
        let held = locker(&open_impatient(&url).await, LONG)
            .acquire(NAME)
            .await
            .unwrap();
        proxy.cut();
        is_told_at_once(&held).await;
    });
}

/// The server crashes.
pub(crate) fn crashed() {
    run(async {
        let mut server = Server::start();
        let held = locker(&server.store().await, LONG);
        let held = held.acquire(NAME).await.unwrap();
        server.0.crash();
        is_told_at_once(&held).await;
    });
}

/// Six locks use three sessions, and the server process of one session is stopped. Its locks are lost at their TTL; the others
/// are kept.
pub(crate) fn one_session_is_stuck() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        let store = Postgres::builder(&server.0.url()).max_connections(3);
        let ttl = Duration::from_secs(6);
        let locker = locker(&Arc::new(store.open().await.unwrap()), ttl);
        let mut held = Vec::new();
        for at in 0..6 {
            let name = format!("lock {at}");
            let guard = locker.acquire(name.as_str()).await.unwrap();
            held.push((process_of(&eyes, &name).await, guard));
        }
        let stuck = held[0].0;
        send_signal("-STOP", stuck);
        let since = now();
        let (stuck, kept): (Vec<_>, Vec<_>) = held.into_iter().partition(|(pid, _)| *pid == stuck);
        assert_eq!((stuck.len(), kept.len()), (2, 4), "two locks in each");
        for (_, guard) in &stuck {
            let lost = soon("the loss", guard.lost()).await;
            assert_eq!(lost.reason(), LostReason::Expired);
        }
        // By now the others would have been lost as well, if they were affected. They are renewed beyond that.
        tokio::time::sleep((2 * ttl).saturating_sub(now().saturating_duration_since(since))).await;
        for (_, guard) in kept {
            assert!(!guard.is_lost(), "{}", guard.name());
            assert!(guard.release().await.is_released());
        }
        send_signal("-CONT", stuck[0].0);
        drop(stuck);
        eyes.wait_until_clean().await;
    });
}

fn send_signal(signal: &str, pid: i64) {
    let sent = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

async fn process_of(eyes: &Eyes, name: &str) -> i64 {
    let key = Postgres::key_of(&name.try_into().unwrap()).unwrap();
    let holder = format!(
        "select pid from pg_locks where locktype = 'advisory' and granted \
         and (classid::bigint << 32) | objid::bigint = {key}"
    );
    eyes.number(&holder).await
}
