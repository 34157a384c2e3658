//! The line of the lease table: the cost of waiting, lost notifications, and abandoned tickets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost::Backend;
use fencepost::backend::Wait;

use crate::support::{LONG, LOOK, NAME, Server, claim, eventually, grace, locker, now, run, soon};

/// Two hundred claims wait on one connection, are served in order, and cost a fixed number of statements each.
pub(crate) fn two_hundred() {
    const WAITERS: u64 = 200;
    run(async {
        let server = Server::start().await;
        let store = server.store().await;
        let plain = server.plain().await;
        let locker = locker(&store, LONG);
        let held = locker.acquire(NAME).await.unwrap();
        let served = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for number in 0..WAITERS {
            let (locker, served) = (locker.clone(), served.clone());
            tasks.push(tokio::spawn(async move {
                let guard = locker.acquire(NAME).await.unwrap();
                served.lock().unwrap().push((number, guard.fence()));
                assert!(guard.release().await.is_released());
            }));
            server.wait_for_line(number as i64 + 1).await;
        }
        let connections =
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'fencepost'";
        assert_eq!(plain.number(connections).await, 1);
        let (sent, started) = (store.statements_sent(), now());
        assert!(held.release().await.is_released());
        for task in tasks {
            soon("a turn", task).await.unwrap();
        }
        let took = now().saturating_duration_since(started);
        let each = (store.statements_sent() - sent) as f64 / WAITERS as f64;
        println!("line: {WAITERS} turns in {took:?}, {each:.2} statements each");
        assert!(each < 3.5, "one to ask and two to give back, not {each}");
        let served = served.lock().unwrap().clone();
        assert!(
            served.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1),
            "{served:?}"
        );
        server.wait_until_clean().await;
    });
}

/// The lock was released without a notification. The first waiter checks by itself, long before the lease would have ended.
pub(crate) fn a_lost_notice() {
    run(async {
        let server = Server::start().await;
        let (one, other) = (server.store().await, server.store().await);
        let plain = server.plain().await;
        let holder = claim(LONG);
        assert!(one.try_acquire(&holder).await.unwrap().is_some());
        let waiter = locker(&other, LONG);
        let waiting = tokio::spawn(async move { waiter.acquire(NAME).await.unwrap() });
        server.wait_for_line(1).await;
        let freed = now();
        plain.frees().await;
        let guard = soon("the lock", waiting).await.unwrap();
        let took = now().saturating_duration_since(freed);
        println!("line: a lost notice cost {took:?}");
        assert!(took < LOOK + grace(), "{took:?}");
        assert!(guard.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// Tickets of dead programs are removed when somebody connects. Tickets of living programs and of held locks remain.
pub(crate) fn forgotten_tickets() {
    run(async {
        let server = Server::start().await;
        let store = server.store().await;
        let plain = server.plain().await;
        let (holder, waiter) = (claim(LONG), claim(LONG));
        assert!(store.try_acquire(&holder).await.unwrap().is_some());
        let wait = Wait::default();
        let waiting = store.acquire(&waiter, &wait);
        tokio::select! {
            _ = waiting => unreachable!("it is held"),
            () = server.wait_for_line(1) => {}
        }
        let count = "SELECT count(*) FROM shedlock_line";
        plain
            .does("UPDATE shedlock_line SET joined = joined - interval '2 hours'")
            .await;
        server.store().await;
        assert_eq!(plain.number(count).await, 1, "the lock is held");
        plain
            .does("UPDATE shedlock SET lock_until = lock_until - interval '2 hours'")
            .await;
        server.store().await;
        eventually("it is forgotten", async || plain.number(count).await == 0).await;
        let slow = Duration::from_secs(3);
        let guard = locker(&store, LONG)
            .acquire_within(NAME, slow)
            .await
            .unwrap();
        assert!(guard.unwrap().release().await.is_released());
    });
}

/// The row excludes others for at least as long as the holder believes, counted from before the statement was sent. It is never
/// rounded down.
pub(crate) fn no_belief_beyond_the_row() {
    run(async {
        let server = Server::start().await;
        let (store, plain) = (server.store().await, server.plain().await);
        for extra in 0..40 {
            let ttl = Duration::from_micros(20_000_137 + 25 * extra);
            let claim = claim(ttl);
            let before = async || {
                plain
                    .text("SELECT timezone('utc', clock_timestamp())::text")
                    .await
            };
            let asked = before().await;
            let grant = store.try_acquire(&claim).await.unwrap().expect("free");
            let kept = async |since: &str| {
                let sql = format!(
                    "SELECT (extract(epoch FROM lock_until - timestamp '{since}') * 1000000)::bigint FROM shedlock"
                );
                Duration::from_micros(plain.number(&sql).await.cast_unsigned())
            };
            assert!(kept(&asked).await >= grant.lease, "granted");
            let asked = before().await;
            let renewed = store.renew(std::slice::from_ref(&claim)).await.remove(0);
            assert_eq!(renewed.unwrap(), fencepost::backend::Renewal::Extended);
            assert!(kept(&asked).await >= ttl, "renewed");
            store.release(&claim).await.unwrap();
            // After its release it is free at once; the end is not rounded up.
            assert!(plain.left_ms().await <= 0);
        }
    });
}
