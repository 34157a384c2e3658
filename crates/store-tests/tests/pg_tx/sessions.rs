//! Connections that serve one transaction after another, as in a pool.

use fencepost::pg_tx::{PgGate, PgTxLock};

use crate::stage::{Stage, both, soon};

/// Programs that start at the same time do not make each other fail.
#[tokio::test(flavor = "multi_thread")]
async fn tables_are_made_by_many_at_once() {
    let stage = Stage::set().await;
    for _ in 0..10 {
        let drop = "DROP TABLE fencepost_tx, fencepost_gate";
        stage.eye.batch_execute(drop).await.unwrap();
        let mut making = Vec::new();
        for _ in 0..6 {
            let session = stage.session().await;
            making.push(tokio::spawn(async move {
                PgTxLock::create_table(&session).await?;
                PgGate::create(&session).await
            }));
        }
        for made in making {
            soon("the tables", made).await.unwrap().unwrap();
        }
    }
}

/// A connection returns to its pool without a lock, however its transaction ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_used_again_has_no_lock() {
    let stage = Stage::set().await;
    let (mut pooled, mut other) = (stage.session().await, stage.session().await);
    for lock in both() {
        for ending in 0..3 {
            let transaction = pooled.transaction().await.unwrap();
            lock.acquire(&transaction).await.unwrap();
            match ending {
                0 => transaction.commit().await.unwrap(),
                1 => transaction.rollback().await.unwrap(),
                _ => drop(transaction),
            }
            // The next user of the connection. Whatever it does happens after the end of the transaction.
            pooled.batch_execute("SELECT 1").await.unwrap();
            let transaction = other.transaction().await.unwrap();
            assert!(lock.try_acquire(&transaction).await.unwrap().is_some());
        }
    }
    stage.until_nothing_is_left().await;
}

/// A cancelled wait is the classic way to leave a lock behind on a pooled connection: the server continues to wait, and
/// eventually gets the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_given_up_leaves_no_lock_on_its_connection() {
    let stage = Stage::set().await;
    let (mut holder, mut pooled) = (stage.session().await, stage.session().await);
    for lock in both() {
        for within in [false, true] {
            let holding = holder.transaction().await.unwrap();
            lock.acquire(&holding).await.unwrap();
            let waiting = pooled.transaction().await.unwrap();
            tokio::select! {
                () = wait(&lock, &waiting, within) => unreachable!("it is held"),
                () = stage.until_waiting(1) => {}
            }
            drop(waiting);
            holding.commit().await.unwrap();
            soon("the connection", pooled.batch_execute("SELECT 1"))
                .await
                .unwrap();
            stage.until_nothing_is_left().await;
            let transaction = holder.transaction().await.unwrap();
            assert!(lock.try_acquire(&transaction).await.unwrap().is_some());
        }
    }
}

async fn wait(lock: &PgTxLock, transaction: &tokio_postgres::Transaction<'_>, within: bool) {
    if within {
        let _answer = lock
            .acquire_with_lock_timeout(transaction, crate::stage::LONG)
            .await;
    } else {
        let _answer = lock.acquire(transaction).await;
    }
}
