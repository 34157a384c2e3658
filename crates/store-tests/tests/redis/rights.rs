//! Redis users with limited rights (ACL).

use std::time::Duration;

use fencepost::ErrorKind;
use fencepost_rig::Proxy;

use crate::support::{LONG, NAME, Server, eventually, locker, run, soon};

/// Creates a user with these rights in addition to those that locks need. Returns its address, through the proxy if there is
/// one.
fn user(server: &Server, rights: &[&str], proxy: Option<&Proxy>) -> String {
    let words = [
        "ACL", "SETUSER", "app", "reset", "on", ">secret", "~*", "&*", "+@all",
    ];
    server.plain().does(&[&words, rights].concat());
    let address = proxy.map_or(server.0.address(), Proxy::address);
    format!("redis://app:secret@{address}")
}

async fn open(url: &str) -> std::sync::Arc<fencepost::stores::redis::Redis> {
    std::sync::Arc::new(fencepost::stores::redis::Redis::open(url).await.unwrap())
}

/// Hands the lock back and forth. Nobody waits as long as a lease.
async fn pass_on(server: &Server, one: &fencepost::Locker, other: &fencepost::Locker) {
    let mut held = soon("the lock", one.acquire(NAME)).await.unwrap();
    for turn in 0..6 {
        let next = [other, one][turn % 2].clone();
        let waiting = server.waiter_of(&next).await;
        let fence = held.fence();
        assert!(held.release().await.is_released());
        held = soon("the next grant", waiting).await.unwrap();
        assert!(held.fence() > fence);
    }
    assert!(held.release().await.is_released());
    server.wait_until_clean().await;
}

/// Notifications are not allowed, so waiters poll.
pub(crate) fn no_channels() {
    run(async {
        let server = Server::start();
        let url = user(&server, &["resetchannels"], None);
        let (one, other) = (open(&url).await, open(&url).await);
        pass_on(&server, &locker(&one, LONG), &locker(&other, LONG)).await;
        assert_eq!(server.plain().info("pubsub_channels"), "0");
    });
}

/// The waiter may receive notifications, but the releasing client may not send them. The script must not stop half-way.
pub(crate) fn a_releaser_without_channels() {
    run(async {
        let server = Server::start();
        let url = user(&server, &["resetchannels"], None);
        let (one, other) = (open(&url).await, server.store().await);
        pass_on(&server, &locker(&one, LONG), &locker(&other, LONG)).await;
    });
}

/// The old connection cannot be ended. Everything else works, and what a late command leaves behind ends with its TTL.
pub(crate) fn no_kill() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        for rights in [&["-client|kill"][..], &["-client"][..]] {
            let url = user(&server, rights, Some(&proxy));
            let one = locker(&open(&url).await, Duration::from_secs(2));
            let other = locker(&server.store().await, LONG);
            pass_on(&server, &one, &other).await;
            let guard = soon("the lock", one.acquire(NAME)).await.unwrap();
            let before = proxy.counts().connections;
            proxy.cut();
            eventually("a new connection", async || {
                proxy.counts().connections > before
            })
            .await;
            assert!(guard.release().await.is_released());
            pass_on(&server, &other, &one).await;
        }
    });
}

/// Without the right to run scripts, the error says so.
pub(crate) fn no_scripts() {
    run(async {
        let server = Server::start();
        let url = user(&server, &["-@scripting"], None);
        let locker = locker(&open(&url).await, LONG);
        let error = soon("an error", locker.acquire(NAME)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unusable, "{error}");
        assert_eq!(error.effect(), fencepost::Effect::None, "{error}");
        server.wait_until_clean().await;
    });
}
