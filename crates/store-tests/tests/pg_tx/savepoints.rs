//! Savepoints: a lock belongs to the innermost transaction in which it was taken.

use crate::stage::{LONG, SHORT, Stage, both};

#[tokio::test(flavor = "multi_thread")]
async fn a_savepoint_that_is_rolled_back_gives_back_what_was_taken_in_it() {
    let stage = Stage::set().await;
    let (mut one, mut other) = (stage.session().await, stage.session().await);
    for lock in both() {
        let mut transaction = one.transaction().await.unwrap();
        let nested = transaction.transaction().await.unwrap();
        lock.acquire(&nested).await.unwrap();
        let asking = other.transaction().await.unwrap();
        assert!(lock.try_acquire(&asking).await.unwrap().is_none());
        nested.rollback().await.unwrap();
        assert!(lock.try_acquire(&asking).await.unwrap().is_some());
    }
    stage.until_nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_savepoint_does_not_unlock() {
    let stage = Stage::set().await;
    let (mut one, mut other) = (stage.session().await, stage.session().await);
    for lock in both() {
        let mut transaction = one.transaction().await.unwrap();
        let held = lock.acquire(&transaction).await.unwrap();
        let nested = transaction.transaction().await.unwrap();
        nested.rollback().await.unwrap();
        let nested = transaction.transaction().await.unwrap();
        let again = lock.acquire(&nested).await.unwrap();
        assert!(again.fence() > held.fence());
        nested.commit().await.unwrap();
        let asking = other.transaction().await.unwrap();
        assert!(lock.try_acquire(&asking).await.unwrap().is_none());
        transaction.commit().await.unwrap();
        assert!(lock.try_acquire(&asking).await.unwrap().is_some());
    }
}

/// What the transaction did and locked before remains, and so does its own timeout.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_leaves_the_transaction_as_it_was() {
    let stage = Stage::set().await;
    let (mut one, mut other) = (stage.session().await, stage.session().await);
    for lock in both() {
        let holding = one.transaction().await.unwrap();
        lock.acquire(&holding).await.unwrap();
        let asking = other.transaction().await.unwrap();
        asking
            .batch_execute(
                "SET LOCAL lock_timeout = '7s'; UPDATE stock SET left_over = left_over - 1",
            )
            .await
            .unwrap();
        assert!(
            lock.acquire_with_lock_timeout(&asking, SHORT)
                .await
                .unwrap()
                .is_none()
        );
        let limit = async || -> String {
            let row = asking
                .query_one("SELECT current_setting('lock_timeout')", &[])
                .await;
            row.unwrap().get(0)
        };
        assert_eq!(limit().await, "7s");
        holding.commit().await.unwrap();
        assert!(
            lock.acquire_with_lock_timeout(&asking, LONG)
                .await
                .unwrap()
                .is_some()
        );
        assert_eq!(limit().await, "7s");
        asking.commit().await.unwrap();
    }
    assert_eq!(stage.number("SELECT left_over FROM stock").await, 98);
}
