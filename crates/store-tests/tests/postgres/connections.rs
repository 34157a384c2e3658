//! The number of connections that the advisory locks of Postgres use, and their limit.

use std::sync::Arc;
use std::time::Duration;

use fencepost::backend::{Release, Renewal};
use fencepost::stores::postgres::Postgres;
use fencepost::{Backend, Locker};

use crate::support::{LONG, NAME, Server, claim, eventually, locker, run, soon};

/// One connection holds and one asks, however many tasks there are.
pub(crate) fn two_hundred_tasks_need_two() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        let store = server.store().await;
        // Few hand-overs within the process, so that the server is asked often.
        let hand_over = fencepost::HandOver::new().max_turns(3);
        let locker = Locker::builder(store).ttl(LONG).hand_over(hand_over);
        let locker = locker.build().unwrap();
        let tasks: Vec<_> = (0..200)
            .map(|_| {
                let locker = locker.clone();
                tokio::spawn(async move {
                    let guard = locker.acquire(NAME).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    assert!(guard.release().await.is_released());
                })
            })
            .collect();
        let mut most = 0;
        while tasks.iter().any(|task| !task.is_finished()) {
            most = most.max(eyes.sessions().await);
        }
        for task in tasks {
            task.await.unwrap();
        }
        println!("200 tasks: {most} connections at most");
        assert!((1..=2).contains(&most), "{most} connections");
    });
}

/// Each of two clients holds one name and waits for the other's. That is their mistake, and their timeouts end it. The server
/// sees no deadlock, because no session that holds a lock also waits.
pub(crate) fn crossed_names_are_no_deadlock() {
    run(async {
        let server = Server::start_with(&["deadlock_timeout=50ms"]);
        let eyes = server.eyes().await;
        for most in [2, 8] {
            let open = async || {
                let store = Postgres::builder(&server.0.url()).max_connections(most);
                locker(&Arc::new(store.open().await.unwrap()), LONG)
            };
            let (one, other) = (open().await, open().await);
            let a = one.acquire("a").await.unwrap();
            let b = other.acquire("b").await.unwrap();
            // With two connections per client, this leaves none that is free to wait. The one that holds the first name would
            // be next.
            let mut more = Vec::new();
            for (locker, who) in [(&one, "one"), (&other, "other")] {
                for at in 0..3 {
                    more.push(locker.acquire(format!("{who} {at}")).await.unwrap());
                }
            }
            let timeout = Duration::from_millis(600);
            let (at_one, at_other) = tokio::join!(
                one.acquire_within("b", timeout),
                other.acquire_within("a", timeout)
            );
            assert!(at_one.unwrap().is_none());
            assert!(at_other.unwrap().is_none());
            assert!(a.release().await.is_released());
            assert!(b.release().await.is_released());
        }
        let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
        assert_eq!(eyes.number(deadlocks).await, 0);
        eyes.wait_until_clean().await;
    });
}

/// Twenty locks on four connections: each excludes, is kept, and is released separately, and waiters are served.
pub(crate) fn beyond_the_bound_locks_share() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        let store = Postgres::builder(&server.0.url()).max_connections(4);
        let store = Arc::new(store.open().await.unwrap());
        let rival = server.store().await;
        let claims: Vec<_> = (0..20)
            .map(|at| claim(&format!("lock {at}"), LONG))
            .collect();
        for claim in &claims {
            assert!(store.try_acquire(claim).await.unwrap().is_some());
        }
        assert!(eyes.sessions().await <= 4 + 1, "four, and the rival's");
        for claim in &claims {
            let mut other = claim.clone();
            other.owner = crate::support::claim("x", LONG).owner;
            assert!(rival.try_acquire(&other).await.unwrap().is_none());
            assert!(
                store.try_acquire(&other).await.unwrap().is_none(),
                "not even its own"
            );
        }
        for renewal in store.renew(&claims).await {
            assert_eq!(renewal.unwrap(), Renewal::Extended);
        }
        let names: Vec<String> = rival
            .list(None)
            .await
            .unwrap()
            .into_iter()
            .map(|lock| lock.name)
            .collect();
        assert!(
            claims
                .iter()
                .all(|claim| names.contains(&claim.name.to_string())),
            "{names:?}"
        );

        // A claim without a connection to wait on polls instead.
        let guards = locker(&store, LONG);
        let waiting = tokio::spawn(async move { guards.acquire("lock 7").await.unwrap() });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!waiting.is_finished());
        assert_eq!(store.release(&claims[7]).await.unwrap(), Release::Freed);
        let guard = soon("the lock", waiting).await.unwrap();
        assert!(guard.release().await.is_released());
        for (at, claim) in claims.iter().enumerate() {
            let released = store.release(claim).await.unwrap();
            let expected = if at == 7 {
                Release::NotHeld
            } else {
                Release::Freed
            };
            assert_eq!(released, expected, "{at}");
        }
        eyes.wait_until_clean().await;
    });
}

/// Two locks share a session, and one of them is not extended. The other lock does not keep it alive.
pub(crate) fn what_is_not_extended_is_let_go() {
    run(async {
        let server = Server::start();
        let store = Postgres::builder(&server.0.url()).max_connections(2);
        let store = Arc::new(store.open().await.unwrap());
        let rival = server.store().await;
        let kept: Vec<_> = (0..4)
            .map(|at| claim(&format!("kept {at}"), LONG))
            .collect();
        for claim in &kept {
            assert!(store.try_acquire(claim).await.unwrap().is_some());
        }
        let left = claim("left", Duration::from_millis(200));
        assert!(store.try_acquire(&left).await.unwrap().is_some());
        let next = claim("left", LONG);
        eventually("it is let go", async || {
            for renewal in store.renew(&kept).await {
                assert_eq!(renewal.unwrap(), Renewal::Extended);
            }
            rival.try_acquire(&next).await.unwrap().is_some()
        })
        .await;
        let renewed = store.renew(std::slice::from_ref(&left)).await;
        assert_eq!(renewed[0].as_ref().unwrap(), &Renewal::Lost);
        assert_eq!(store.release(&left).await.unwrap(), Release::NotHeld);
        assert_eq!(rival.release(&next).await.unwrap(), Release::Freed);
    });
}

/// Unused connections are closed after a while, and opened again when needed.
pub(crate) fn spare_ones_go() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        let store = Postgres::builder(&server.0.url()).idle_timeout(Duration::from_millis(300));
        let store = Arc::new(store.open().await.unwrap());
        for _ in 0..3 {
            crate::support::works(&*store).await;
            eventually("none is left", async || eyes.sessions().await == 0).await;
        }
    });
}

/// The runtime in which the store was opened ends. In the next runtime it uses new connections.
pub(crate) fn another_runtime() {
    let server = Server::start();
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    let store = runtime().block_on(server.store());
    for _ in 0..2 {
        runtime().block_on(crate::support::works(&*store));
    }
}
