//! A Postgres server with the lease table that restarts, or terminates sessions.

use std::time::Duration;

use fencepost::ReleaseOutcome;

use crate::support::{LONG, NAME, Server, locker, pause, run, soon};

/// The lock survives a crash of the server and is renewed afterwards. Waiters keep their places, even before a claim that
/// arrives after the crash.
pub(crate) fn while_held_and_wanted() {
    run(async {
        let mut server = Server::start().await;
        let (one, other) = (server.store().await, server.store().await);
        let ttl = Duration::from_secs(8);
        let held = locker(&one, ttl).acquire(NAME).await.unwrap();
        let mut waiting = Vec::new();
        for place in 0..4 {
            let waiter = locker([&one, &other][place % 2], ttl);
            waiting.push(tokio::spawn(
                async move { waiter.acquire(NAME).await.unwrap() },
            ));
            server.wait_for_line(place as i64 + 1).await;
        }
        server.0.restart().unwrap();
        // Their line did not survive; the waiters join it again by themselves.
        server.wait_for_line(4).await;
        let newcomer = locker(&other, ttl);
        waiting.push(tokio::spawn(async move {
            newcomer.acquire(NAME).await.unwrap()
        }));
        server.wait_for_line(5).await;
        tokio::time::sleep(ttl).await;
        assert!(!held.is_lost(), "it was not renewed after the restart");
        let mut last = held.fence();
        assert!(held.release().await.is_released());
        for waiting in waiting {
            let guard = soon("a turn", waiting).await.unwrap();
            assert!(guard.fence() > last, "not in its old place");
            last = guard.fence();
            assert!(guard.release().await.is_released());
        }
        server.wait_until_clean().await;
    });
}

/// The server is away when the lock is released. The release is completed when the server is back.
pub(crate) fn while_given_back() {
    run(async {
        let mut server = Server::start().await;
        let store = server.store().await;
        let locker = locker(&store, LONG);
        let guard = locker.acquire(NAME).await.unwrap();
        server.0.crash();
        let outcome = soon("an outcome", guard.release()).await;
        assert!(matches!(outcome, ReleaseOutcome::Unknown(_)), "{outcome:?}");
        server.0.restart().unwrap();
        server.wait_until_clean().await;
        let again = soon("the lock", locker.acquire(NAME)).await.unwrap();
        assert!(again.release().await.is_released());
    });
}

/// An administrator terminates all our sessions repeatedly. Nobody loses a lock or a place, and no connection is left over.
pub(crate) fn sessions_ended() {
    run(async {
        let server = Server::start().await;
        let (one, other) = (server.store().await, server.store().await);
        let plain = server.plain().await;
        let held = locker(&one, LONG).acquire(NAME).await.unwrap();
        let mut waiting = Vec::new();
        for place in 0..3 {
            let waiter = locker([&one, &other][place % 2], LONG);
            waiting.push(tokio::spawn(
                async move { waiter.acquire(NAME).await.unwrap() },
            ));
            server.wait_for_line(place as i64 + 1).await;
        }
        let ours = "FROM pg_stat_activity WHERE application_name = 'fencepost'";
        for _ in 0..3 {
            let before = plain
                .text(&format!(
                    "SELECT string_agg(pid::text, ' ' ORDER BY pid) {ours}"
                ))
                .await;
            plain
                .does(&format!("SELECT pg_terminate_backend(pid) {ours}"))
                .await;
            // Waiters reconnect by themselves.
            let after = format!(
                "SELECT count(*) {ours} AND pid::text <> ALL (string_to_array('{before}', ' '))"
            );
            while plain.number(&after).await < 2 {
                pause().await;
            }
        }
        server.wait_for_line(3).await;
        assert!(!held.is_lost());
        let mut last = held.fence();
        assert!(held.release().await.is_released());
        for waiting in waiting {
            let guard = soon("a turn", waiting).await.unwrap();
            assert!(guard.fence() > last, "not in its old place");
            last = guard.fence();
            assert!(guard.release().await.is_released());
        }
        server.wait_until_clean().await;
        assert_eq!(plain.number(&format!("SELECT count(*) {ours}")).await, 2);
    });
}
