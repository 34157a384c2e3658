//! A transaction lock ends with its transaction, neither before nor after.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fencepost::pg_tx::{PgTxHeld, PgTxLock};
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use crate::stage::{LONG, SHORT, STOCK, Stage, both, soon};

const LEFT: &str = "SELECT left_over FROM stock";

/// Acquires the lock in a separate transaction and reads under it.
fn reads_under(lock: &PgTxLock, mut session: Client) -> JoinHandle<(PgTxHeld, i64)> {
    let lock = lock.clone();
    tokio::spawn(async move {
        let transaction = session.transaction().await.unwrap();
        let held = lock.acquire(&transaction).await.unwrap();
        let left = transaction.query_one(LEFT, &[]).await.unwrap().get(0);
        transaction.commit().await.unwrap();
        (held, left)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_gets_the_lock_with_the_commit_and_sees_what_was_written() {
    let stage = Stage::set().await;
    let mut first = stage.session().await;
    for (turn, lock) in both().into_iter().enumerate() {
        let transaction = first.transaction().await.unwrap();
        let held = lock.acquire(&transaction).await.unwrap();
        let second = reads_under(&lock, stage.session().await);
        stage.until_waiting(1).await;
        let taken = "UPDATE stock SET left_over = left_over - 1";
        transaction.execute(taken, &[]).await.unwrap();
        assert!(!second.is_finished(), "unlocked before the commit");
        transaction.commit().await.unwrap();
        let (later, left) = soon("the second", second).await.unwrap();
        assert_eq!(left, 99 - turn as i64, "it read what was there before");
        assert!(later.fence() > held.fence());
    }
    stage.until_nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_unlocks_and_nothing_was_written() {
    let stage = Stage::set().await;
    let mut first = stage.session().await;
    for lock in both() {
        let transaction = first.transaction().await.unwrap();
        let held = lock.acquire(&transaction).await.unwrap();
        let taken = "UPDATE stock SET left_over = 0";
        transaction.execute(taken, &[]).await.unwrap();
        let second = reads_under(&lock, stage.session().await);
        stage.until_waiting(1).await;
        transaction.rollback().await.unwrap();
        let (later, left) = soon("the second", second).await.unwrap();
        assert_eq!(left, 100);
        let (earlier, later) = (held.fence(), later.fence());
        assert!(later > earlier, "{later} after {earlier}, rolled back");
    }
    stage.until_nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_transaction_and_a_lost_connection_unlock() {
    let stage = Stage::set().await;
    for (lock, lose_connection) in both()
        .into_iter()
        .flat_map(|lock| [(lock.clone(), false), (lock, true)])
    {
        let mut first = stage.session().await;
        let pid: i32 = first
            .query_one("SELECT pg_backend_pid()", &[])
            .await
            .unwrap()
            .get(0);
        let transaction = first.transaction().await.unwrap();
        lock.acquire(&transaction).await.unwrap();
        let second = reads_under(&lock, stage.session().await);
        stage.until_waiting(1).await;
        if lose_connection {
            let end = "SELECT pg_terminate_backend($1)";
            stage.eye.execute(end, &[&pid]).await.unwrap();
        } else {
            drop(transaction);
        }
        soon("the second", second).await.unwrap();
    }
    stage.until_nothing_is_left().await;
}

/// Two waiters are served one after the other, each with its own fence.
#[tokio::test(flavor = "multi_thread")]
async fn no_update_is_lost_and_fences_rise_in_the_order_of_commits() {
    const SESSIONS: usize = 6;
    const TURNS: i64 = 20;
    let stage = Stage::set().await;
    stage
        .eye
        .execute("UPDATE stock SET left_over = 0", &[])
        .await
        .unwrap();
    let inside = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for at in 0..SESSIONS {
        let (mut session, inside) = (stage.session().await, inside.clone());
        let lock = both()[at % 2].clone();
        tasks.push(tokio::spawn(async move {
            let mut fences = Vec::new();
            for _ in 0..TURNS {
                let transaction = session.transaction().await.unwrap();
                let held = lock.acquire(&transaction).await.unwrap();
                assert!(!inside.swap(true, Ordering::SeqCst), "two at once");
                let left: i64 = transaction.query_one(LEFT, &[]).await.unwrap().get(0);
                let set = "UPDATE stock SET left_over = $1";
                transaction.execute(set, &[&(left + 1)]).await.unwrap();
                fences.push((left, held.fence()));
                inside.store(false, Ordering::SeqCst);
                transaction.commit().await.unwrap();
            }
            fences
        }));
    }
    let mut fences = Vec::new();
    for task in tasks {
        fences.extend(soon("everybody's turns", task).await.unwrap());
    }
    assert_eq!(stage.number(LEFT).await, SESSIONS as i64 * TURNS);
    fences.sort_unstable_by_key(|(counted, _)| *counted);
    assert!(
        fences.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1),
        "{fences:?}"
    );
}

/// A waiter does not get a fence from before it waited, even if others came, went and rolled back meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn fences_rise_in_the_order_of_grants_where_everybody_rolls_back() {
    const SESSIONS: usize = 6;
    const TURNS: usize = 40;
    let stage = Stage::set().await;
    let sequence = "CREATE SEQUENCE grants";
    stage.eye.batch_execute(sequence).await.unwrap();
    let [row, advisory] = both();
    // The row exists, so the test waits for the row and not for its creation.
    let mut first = stage.session().await;
    let transaction = first.transaction().await.unwrap();
    row.acquire(&transaction).await.unwrap();
    transaction.commit().await.unwrap();
    // All use the row first, and then both kinds beside each other.
    for other in [row.clone(), advisory] {
        let mut tasks = Vec::new();
        for at in 0..SESSIONS {
            let mut session = stage.session().await;
            let lock = if at % 2 == 0 { &row } else { &other }.clone();
            tasks.push(tokio::spawn(async move {
                let mut fences = Vec::new();
                for _ in 0..TURNS {
                    let transaction = session.transaction().await.unwrap();
                    let held = lock.acquire(&transaction).await.unwrap();
                    // A sequence does not roll back. Drawn under the lock, it shows the order.
                    let draw = "SELECT nextval('grants')";
                    let turn: i64 = transaction.query_one(draw, &[]).await.unwrap().get(0);
                    fences.push((turn, held.fence()));
                    transaction.rollback().await.unwrap();
                }
                fences
            }));
        }
        let mut fences = Vec::new();
        for task in tasks {
            fences.extend(soon("everybody's turns", task).await.unwrap());
        }
        assert_eq!(fences.len(), SESSIONS * TURNS);
        fences.sort_unstable();
        let fallen = fences.windows(2).filter(|pair| pair[1].1 <= pair[0].1);
        assert_eq!(fallen.count(), 0, "fences fell: {fences:?}");
    }
}

/// Locks of other programs on the same row or number exclude ours, and ours exclude them.
#[tokio::test(flavor = "multi_thread")]
async fn plain_sessions_exclude_and_are_excluded() {
    let stage = Stage::set().await;
    let (mut plain, mut ours) = (stage.session().await, stage.session().await);
    let [row, advisory] = both();
    // The row must exist before others can lock it.
    let transaction = ours.transaction().await.unwrap();
    row.acquire(&transaction).await.unwrap();
    transaction.commit().await.unwrap();
    let ways = [
        (
            &row,
            "SELECT 1 FROM fencepost_tx WHERE name = 'stock' FOR UPDATE".to_owned(),
        ),
        (&advisory, format!("SELECT pg_advisory_xact_lock({STOCK})")),
    ];
    for (lock, way) in &ways {
        let other = plain.transaction().await.unwrap();
        other.batch_execute(way).await.unwrap();
        let transaction = ours.transaction().await.unwrap();
        assert!(
            lock.try_acquire(&transaction).await.unwrap().is_none(),
            "{way}"
        );
        other.rollback().await.unwrap();
        assert!(
            lock.try_acquire(&transaction).await.unwrap().is_some(),
            "{way}"
        );
        let other = plain.transaction().await.unwrap();
        other
            .batch_execute("SET LOCAL lock_timeout = 50")
            .await
            .unwrap();
        assert!(other.batch_execute(way).await.is_err(), "{way}");
    }
    // A session that holds the number excludes transactions.
    let hold = format!("SELECT pg_advisory_lock({STOCK})");
    plain.batch_execute(&hold).await.unwrap();
    let transaction = ours.transaction().await.unwrap();
    assert!(
        advisory
            .acquire_with_lock_timeout(&transaction, SHORT)
            .await
            .unwrap()
            .is_none()
    );
    let free = format!("SELECT pg_advisory_unlock({STOCK})");
    plain.batch_execute(&free).await.unwrap();
    assert!(
        advisory
            .acquire_with_lock_timeout(&transaction, LONG)
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_and_a_number_of_one_name_exclude_each_other() {
    let stage = Stage::set().await;
    let (mut one, mut other) = (stage.session().await, stage.session().await);
    let [row, advisory] = both();
    for (first, second) in [(&row, &advisory), (&advisory, &row)] {
        let holding = one.transaction().await.unwrap();
        first.acquire(&holding).await.unwrap();
        let asking = other.transaction().await.unwrap();
        assert!(second.try_acquire(&asking).await.unwrap().is_none());
        holding.commit().await.unwrap();
        assert!(second.try_acquire(&asking).await.unwrap().is_some());
        asking.commit().await.unwrap();
    }
    // Nothing of the refused attempt is kept, not even the half that was free.
    let holding = one.transaction().await.unwrap();
    row.acquire(&holding).await.unwrap();
    let asking = other.transaction().await.unwrap();
    assert!(advisory.try_acquire(&asking).await.unwrap().is_none());
    let advisory_locks =
        "SELECT count(*) FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
        WHERE l.locktype = 'advisory' AND d.datname = current_database()";
    assert_eq!(stage.number(advisory_locks).await, 0);
}
