//! The effect of waiting on the rest of the database: a waiting statement has a snapshot that other statements wait for.

use std::sync::Arc;
use std::time::Duration;

use fencepost::Locker;
use fencepost::stores::postgres::Postgres;

use crate::support::{LONG, NAME, Server, eventually, is_soak, locker, now, run, soon};

/// `create index concurrently` waits for all older snapshots. It completes although a claim waits for a lock all the time.
pub(crate) fn an_index_is_built_while_somebody_waits() {
    run(async {
        let server = Server::start();
        let holder = locker(&server.store().await, LONG);
        let waiter = locker(&server.store().await, LONG);
        let eyes = server.eyes().await;
        eyes.text("create table goods as select n from generate_series(1, 100) as n")
            .await;
        let held = holder.acquire(NAME).await.unwrap();
        let waiting = tokio::spawn(async move { waiter.acquire(NAME).await.unwrap() });
        eyes.wait_for_line(1).await;
        let builder = server.eyes().await;
        let began = now();
        let building = builder.text("create index concurrently on goods (n)");
        let built = tokio::time::timeout(LONG, building).await;
        built.expect("the index is built while somebody waits");
        println!("built after {:?}", now().saturating_duration_since(began));
        assert!(!waiting.is_finished(), "it still waits");
        // It has a place in line again, and is served there.
        eyes.wait_for_line(1).await;
        assert!(held.release().await.is_released());
        let guard = soon("the waiter's turn", waiting).await.unwrap();
        assert!(guard.release().await.is_released());
        eyes.wait_until_clean().await;
    });
}

async fn requeuing(server: &Server, longest: Duration) -> Locker {
    let store = Postgres::builder(&server.0.url()).requeue_after(longest);
    locker(&Arc::new(store.open().await.unwrap()), LONG)
}

/// A claim that has waited longer than the limit moves to the end of the line; others keep their places.
pub(crate) fn a_long_wait_goes_to_the_end_of_the_line() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        let held = locker(&server.store().await, LONG).acquire(NAME).await;
        let in_line = "select pid from pg_locks where locktype = 'advisory' and not granted \
                       order by pid";
        let first = requeuing(&server, Duration::from_secs(1)).await;
        let first = tokio::spawn(async move { first.acquire(NAME).await });
        eyes.wait_for_line(1).await;
        // It may be between two waits at any moment, but it keeps its session.
        let mut first_pid = String::new();
        eventually("the first waits", async || {
            first_pid = eyes.text(in_line).await;
            !first_pid.is_empty()
        })
        .await;
        let second = requeuing(&server, Duration::MAX).await;
        let second = tokio::spawn(async move { second.acquire(NAME).await });
        let order = "select string_agg(case when pid = FIRST then 'first' else 'second' end, ' ' order by waitstart) \
                     from pg_locks where locktype = 'advisory' and not granted having count(waitstart) = 2";
        let order = order.replace("FIRST", &first_pid);
        eventually("the first goes behind the second", async || {
            eyes.text(&order).await == "second first"
        })
        .await;
        assert!(held.unwrap().release().await.is_released());
        let second = soon("the second's turn", second).await.unwrap().unwrap();
        assert!(!first.is_finished());
        assert!(second.release().await.is_released());
        let first = soon("the first's turn", first).await.unwrap().unwrap();
        assert!(first.release().await.is_released());
        eyes.wait_until_clean().await;
    });
}

/// Waits end continually while locks are granted. A lock that is granted just as its wait ends is neither leaked nor granted
/// twice.
pub(crate) fn waits_end_while_locks_are_granted() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        eyes.text("create table counter as select 0 as n").await;
        let turns = if is_soak() { 400 } else { 25 };
        let mut tasks = Vec::new();
        for at in 0..4 {
            let locker = requeuing(&server, Duration::from_millis(5 + at)).await;
            let eyes = server.eyes().await;
            tasks.push(tokio::spawn(async move {
                for turn in 0..turns {
                    let guard = locker.acquire(NAME).await.unwrap();
                    let number = eyes.number("select n from counter").await;
                    tokio::time::sleep(Duration::from_millis(turn % 7)).await;
                    let next = format!("update counter set n = {}", number + 1);
                    eyes.text(&next).await;
                    assert!(guard.release().await.is_released());
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let counted = eyes.number("select n from counter").await;
        assert_eq!(counted.cast_unsigned(), 4 * turns);
        eyes.wait_until_clean().await;
    });
}
