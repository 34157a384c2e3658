//! A ZooKeeper server that stops answering (SIGSTOP) during each kind of operation.

use std::time::Duration;

use fencepost::{Effect, ErrorKind, LostReason, ReleaseOutcome};
use fencepost_rig::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{
    GRACE, LONG, NAME, SESSION, Server, eventually, impatient, locker, now, open, run, soon, take,
};

impl Server {
    fn stops(&self) {
        self.0.signal(Signal::SIGSTOP).unwrap();
    }

    fn goes_on(&self) {
        self.0.signal(Signal::SIGCONT).unwrap();
    }

    /// Starts a server that tells who watches what.
    fn that_tells_watches() -> Self {
        Self::start_with(&["4lw.commands.whitelist=srvr,wchp"])
    }

    /// Waits until the holder and a waiter both watch the holder's node. Before that, the waiter may not know yet that it has to wait.
    async fn wait_for_waiter(&self) {
        eventually("a waiter", async || {
            // After a line for each path comes one for each session that watches it.
            let watches = self.watches().await;
            watches
                .lines()
                .filter(|line| line.starts_with('\t'))
                .count()
                == 2
        })
        .await;
    }

    async fn watches(&self) -> String {
        let mut stream = TcpStream::connect(self.0.address()).await.unwrap();
        stream.write_all(b"wchp").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

/// During a request: it times out promptly with an unknown effect, and anything it acquired is released.
pub(crate) fn while_acquiring() {
    run(async {
        let server = Server::start();
        let locker = impatient(&server.store().await, SESSION);
        drop(take(&locker).await);
        server.stops();
        for _ in 0..2 {
            let error = soon("an error", locker.acquire(NAME)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
            assert_eq!(error.effect(), Effect::Maybe, "{error}");
        }
        server.goes_on();
        let guard = take(&locker).await;
        assert!(guard.release().await.is_released());
        server.eyes().await.wait_until_clean().await;
    });
}

/// For less than the TTL: nothing is lost.
pub(crate) fn for_a_moment() {
    run(async {
        let server = Server::start();
        let session = SESSION * 3;
        let store = open(server.0.address(), session).await;
        let locker = impatient(&store, session);
        let guard = take(&locker).await;
        server.stops();
        eventually("a renewal that fails", async || {
            guard.failed_renewals().is_some()
        })
        .await;
        server.goes_on();
        eventually("a renewal that works", async || {
            guard.failed_renewals().is_none() || guard.is_lost()
        })
        .await;
        assert!(!guard.is_lost());
        assert!(guard.release().await.is_released());
        server.eyes().await.wait_until_clean().await;
    });
}

/// For longer than the TTL and less than the session timeout: the holder is notified in time. Its session survives, but its
/// node does not, and the next claim gets the lock.
pub(crate) fn beyond_the_ttl() {
    run(async {
        let server = Server::that_tells_watches();
        let (session, ttl) = (SESSION * 5, Duration::from_secs(1));
        let address = server.0.address();
        let (store, rival) = (open(address, session).await, open(address, session).await);
        let ours = impatient(&store, ttl);
        let guard = take(&ours).await;
        let eyes = server.eyes().await;
        let waiting = tokio::spawn({
            let rival = locker(&rival, session);
            async move { rival.acquire(NAME).await.unwrap() }
        });
        server.wait_for_waiter().await;
        let stopped = now();
        server.stops();
        let lost = soon("the loss", guard.lost()).await;
        assert!(now().saturating_duration_since(stopped) < ttl + GRACE);
        assert_eq!(lost.reason(), LostReason::Expired);
        assert!(!waiting.is_finished());
        server.goes_on();
        let next = soon("the rival", waiting).await.unwrap();
        assert!(
            now().saturating_duration_since(stopped) < session,
            "it did not take a session timeout"
        );
        assert!(next.fence() > guard.fence());
        assert!(next.release().await.is_released());
        drop(guard);
        eyes.wait_until_clean().await;
    });
}

/// For longer than the session timeout: the holder learns it from its own clock, not from the client, which notices much later.
/// When the server is back, there is a new session.
pub(crate) fn beyond_the_session() {
    run(async {
        let server = Server::start();
        let store = server.store().await;
        let ours = impatient(&store, SESSION);
        let guard = take(&ours).await;
        let asked = now();
        server.stops();
        let lost = soon("the loss", guard.lost()).await;
        let told_after = now().saturating_duration_since(asked);
        assert!(
            told_after < SESSION + GRACE / 2,
            "told after {told_after:?}"
        );
        assert_eq!(lost.reason(), LostReason::Expired);
        // The client reports it only now: it abandons a session after 1.4 timeouts, and notices at its next attempt to connect.
        tokio::time::sleep(SESSION * 2).await;
        server.goes_on();
        let back = now();
        let next = take(&ours).await;
        let cost = now().saturating_duration_since(back);
        println!(
            "stopped beyond the session: told after {told_after:?}, the next served {cost:?} after its return"
        );
        assert!(next.fence() > guard.fence());
        assert!(next.release().await.is_released());
        drop(guard);
        server.eyes().await.wait_until_clean().await;
    });
}

/// A waiter continues to wait, in a new session if necessary.
pub(crate) fn while_waiting() {
    run(async {
        let server = Server::that_tells_watches();
        let (store, holder) = (server.store().await, server.store().await);
        let held = locker(&holder, SESSION).acquire(NAME).await.unwrap();
        let waiting = tokio::spawn({
            let locker = locker(&store, SESSION);
            async move { locker.acquire(NAME).await.unwrap() }
        });
        server.wait_for_waiter().await;
        server.stops();
        soon("the loss", held.lost()).await;
        tokio::time::sleep(SESSION * 2).await;
        assert!(!waiting.is_finished());
        server.goes_on();
        let guard = tokio::time::timeout(LONG, waiting).await.unwrap().unwrap();
        assert!(guard.fence() > held.fence());
        assert!(guard.release().await.is_released());
        server.eyes().await.wait_until_clean().await;
    });
}

/// The outcome is unknown at first, but the release is completed as soon as possible.
pub(crate) fn while_releasing() {
    run(async {
        let server = Server::start();
        let locker = impatient(&server.store().await, SESSION);
        let guard = take(&locker).await;
        server.stops();
        let outcome = soon("an answer", guard.release()).await;
        assert!(matches!(outcome, ReleaseOutcome::Unknown(_)), "{outcome:?}");
        server.goes_on();
        server.eyes().await.wait_until_clean().await;
    });
}
