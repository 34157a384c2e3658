//! Mutual exclusion with `psql` sessions on the same advisory lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fencepost::backend::Wait;
use fencepost::stores::postgres::Postgres;
use fencepost::{Backend, Locker};
use fencepost_rig::{Child, feed};

use crate::support::{
    Eyes, LONG, NAME, Server, claim, eventually, is_soak, locker, run, run_within, soon,
};

fn key() -> i64 {
    Postgres::key_of(&NAME.try_into().unwrap()).unwrap()
}

/// Waits for the lock with one statement; reads, writes and releases with others.
fn blocking(turns: u64) -> String {
    let key = key();
    let turn = format!(
        "select pg_advisory_lock({key});\nselect n from counter \\gset\n\
         update counter set n = :n + 1;\nselect pg_advisory_unlock({key});\n"
    );
    turn.repeat(turns as usize)
}

/// Polls for the lock.
fn trying(turns: u64) -> String {
    let key = key();
    format!(
        "do $$ declare v bigint; begin for turn in 1..{turns} loop \
           while not pg_try_advisory_lock({key}) loop perform pg_sleep(0.0005); end loop; \
           select n into v from counter; commit; \
           update counter set n = v + 1; commit; \
           perform pg_advisory_unlock({key}); \
         end loop; end $$;\n"
    )
}

/// `psql` and our processes add to one number, by reading and then writing. No update is lost, and each gets its turns.
pub(crate) fn counters_are_exact() {
    let turns = if is_soak() { 1000 } else { 200 };
    let longest = if is_soak() { 20 * LONG } else { 4 * LONG };
    run_within(longest, async move {
        // With commits that cost nothing, `psql` would get most of the turns.
        let server = Server::start_with(&["fsync=on"]);
        let eyes = server.eyes().await;
        eyes.text("create table counter as select 0::bigint as n")
            .await;
        let stop = Arc::new(AtomicBool::new(false));
        let ours = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for _ in 0..2 {
            let counting = count(
                locker(&server.store().await, LONG),
                server.eyes().await,
                stop.clone(),
                ours.clone(),
            );
            tasks.push(tokio::spawn(counting));
        }
        let folder = fencepost_rig::folder().unwrap();
        let (_feed, sender) = feed();
        let mut children: Vec<Child> = Vec::new();
        for (id, script) in [blocking(turns), trying(turns)].into_iter().enumerate() {
            let file = folder.path().join(format!("{id}.sql"));
            std::fs::write(&file, script).unwrap();
            let mut psql = server.0.psql();
            psql.arg("-f").arg(&file);
            children.push(Child::spawn(psql, id, &sender).unwrap());
        }
        for child in &mut children {
            while child.status().is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let status = child.status().unwrap();
            assert!(status.success(), "{status}: {:#?}", child.last_words());
        }
        stop.store(true, Ordering::SeqCst);
        for task in tasks {
            soon("the last turn", task).await.unwrap();
        }
        let ours = ours.load(Ordering::SeqCst);
        let theirs = turns * children.len() as u64;
        println!("interop: psql counted {theirs}, ours {ours}");
        assert!(ours >= turns, "ours were to compete");
        let counted = eyes.number("select n from counter").await;
        assert_eq!(counted.cast_unsigned(), theirs + ours);
        eyes.wait_until_clean().await;
    });
}

async fn count(locker: Locker, eyes: Eyes, stop: Arc<AtomicBool>, ours: Arc<AtomicU64>) {
    while !stop.load(Ordering::SeqCst) {
        let guard = locker.acquire(NAME).await.unwrap();
        let number = eyes.number("select n from counter").await;
        eyes.text(&format!("update counter set n = {}", number + 1))
            .await;
        let turn = ours.fetch_add(1, Ordering::SeqCst);
        assert!(guard.release().await.is_released());
        // Postgres hands a lock to the first in line. A client that only tries gets it when nobody waits.
        if turn.is_multiple_of(40) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Holders that took the lock by other means are shown, but cannot be released through the library.
pub(crate) fn external_locks_are_seen() {
    run(async {
        let server = Server::start();
        let stranger = Eyes::open(&format!("{}?application_name=nightly", server.0.url())).await;
        let store = server.store().await;
        stranger
            .text(&format!("select pg_advisory_lock({})", key()))
            .await;
        stranger.text("select pg_advisory_lock(-42)").await;
        let mine = claim(NAME, LONG);
        assert!(store.try_acquire(&mine).await.unwrap().is_none());
        let record = store
            .inspect(&mine.name)
            .await
            .unwrap()
            .expect("it is held");
        let holder = record.holder.expect("a holder");
        assert_eq!(
            (holder.owner, holder.epoch, holder.ttl_left),
            (None, None, None)
        );
        assert!(
            holder.label.starts_with("nightly, process "),
            "{}",
            holder.label
        );
        assert!(store.list(None).await.unwrap().is_empty(), "none of ours");
        let names = async |pattern| -> Vec<String> {
            let listed = store.list(Some(pattern)).await.unwrap();
            listed.into_iter().map(|lock| lock.name).collect()
        };
        assert_eq!(names("#-42").await, ["#-42"]);
        assert_eq!(names("*").await.len(), 2);

        // One of our claims waits for the lock, so the number now has a name. Another session waits for the number itself.
        let waiter = claim(NAME, LONG);
        let waiting = tokio::spawn({
            let (store, waiter) = (store.clone(), waiter.clone());
            async move { store.acquire(&waiter, &Wait::default()).await }
        });
        let by_number = claim("#-42", LONG);
        assert!(store.try_acquire(&by_number).await.unwrap().is_none());
        eventually("it is listed by its name", async || {
            names(NAME).await == [NAME]
        })
        .await;
        stranger.text("select pg_advisory_unlock(-42)").await;
        assert!(store.try_acquire(&by_number).await.unwrap().is_some());
        for function in [
            "pg_try_advisory_lock",
            "pg_try_advisory_lock_shared",
            "pg_try_advisory_xact_lock",
        ] {
            let tried = stranger.text(&format!("select {function}(-42)")).await;
            assert_eq!(tried, "f", "we keep {function} out");
        }
        let shared = claim("#7", LONG);
        stranger
            .text("begin; select pg_advisory_xact_lock_shared(7)")
            .await;
        assert!(store.try_acquire(&shared).await.unwrap().is_none());
        stranger.text("commit").await;
        assert!(store.try_acquire(&shared).await.unwrap().is_some());
        store.release(&shared).await.unwrap();
        drop(stranger);
        soon("the lock", waiting).await.unwrap().unwrap();
        store.release(&waiter).await.unwrap();
        store.release(&by_number).await.unwrap();
    });
}

/// Checks the documented way to compute the number in SQL.
pub(crate) fn the_server_computes_the_same_number() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        let page = include_str!("../../../../docs/backends/postgres.md");
        let (_, statement) = page.split_once("select pg_advisory_lock((").unwrap();
        let (number, _) = statement.split_once(");\n").unwrap();
        let documented = format!("select ({number}");
        for name in [NAME, "ключ 🔒", "o'clock", "a\\b", "\\x41"] {
            let quoted = format!("'{}'", name.replace('\'', "''"));
            let number = documented.replace("'stock'", &quoted);
            let ours = Postgres::key_of(&name.try_into().unwrap()).unwrap();
            assert_eq!(eyes.number(&number).await, ours, "{name}");
        }
    });
}
