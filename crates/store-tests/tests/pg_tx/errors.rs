//! Errors of transaction locks: each explains what the server refused, and leaves nothing behind.

use fencepost::pg_tx::PgTxLock;
use fencepost::{Effect, Error, ErrorKind};
use tokio_postgres::IsolationLevel;

use crate::stage::{Stage, both, connect, soon};

fn assert_error(error: &Error, kind: ErrorKind, words: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert_eq!(error.effect(), Effect::None, "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_the_session_is_an_error() {
    let stage = Stage::set().await;
    let (mut one, mut other) = (stage.session().await, stage.session().await);
    other.batch_execute("SET lock_timeout = 30").await.unwrap();
    for lock in both() {
        let holding = one.transaction().await.unwrap();
        lock.acquire(&holding).await.unwrap();
        let asking = other.transaction().await.unwrap();
        let error = lock.acquire(&asking).await.unwrap_err();
        assert_error(
            &error,
            ErrorKind::Timeout,
            &["lock_timeout", "roll the transaction back"],
        );
        let error = lock.acquire(&asking).await.unwrap_err();
        assert_error(&error, ErrorKind::Unusable, &["can only be rolled back"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_ends_one_of_two_and_says_so() {
    let stage = Stage::set().await;
    let names = ["a", "b"];
    for make in [
        |name| PgTxLock::row(name).unwrap(),
        |name| PgTxLock::advisory(name).unwrap(),
    ] {
        let [a, b] = names.map(make);
        let (mut one, mut other) = (stage.session().await, stage.session().await);
        let first = one.transaction().await.unwrap();
        let second = other.transaction().await.unwrap();
        a.acquire(&first).await.unwrap();
        b.acquire(&second).await.unwrap();
        let one = async {
            let outcome = b.acquire(&first).await;
            first.rollback().await.unwrap();
            outcome
        };
        let other = async {
            let outcome = a.acquire(&second).await;
            second.rollback().await.unwrap();
            outcome
        };
        let outcomes = soon("the end of the deadlock", async {
            tokio::join!(one, other)
        })
        .await;
        let ((Err(error), Ok(_)) | (Ok(_), Err(error))) = outcomes else {
            panic!("not one of two was ended");
        };
        assert_error(&error, ErrorKind::Unavailable, &["deadlock", "same order"]);
    }
    stage.until_nothing_is_left().await;
}

/// A transaction that cannot see what the last holder wrote does not get the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_view_from_before_the_last_holder_is_refused() {
    let stage = Stage::set().await;
    let (mut one, mut other) = (stage.session().await, stage.session().await);
    for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        for lock in both() {
            let late = other.build_transaction().isolation_level(level);
            let late = late.start().await.unwrap();
            late.query_one("SELECT left_over FROM stock", &[])
                .await
                .unwrap();
            let transaction = one.transaction().await.unwrap();
            lock.acquire(&transaction).await.unwrap();
            transaction.commit().await.unwrap();
            let error = lock.acquire(&late).await.unwrap_err();
            assert_error(
                &error,
                ErrorKind::Unavailable,
                &["run it again", "READ COMMITTED"],
            );
            late.rollback().await.unwrap();
            // Nobody held the lock in between, so the transaction sees the latest state.
            let again = other.build_transaction().isolation_level(level);
            let again = again.start().await.unwrap();
            lock.acquire(&again).await.unwrap();
            again.commit().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_tables_and_rights_say_what_to_do() {
    let stage = Stage::set().await;
    let user = format!("plain_{}", std::process::id());
    stage
        .eye
        .batch_execute(&format!(
            "CREATE ROLE {user} LOGIN; DROP TABLE fencepost_tx"
        ))
        .await
        .unwrap();
    let mut session = stage.session().await;
    for lock in both() {
        let transaction = session.transaction().await.unwrap();
        let error = lock.acquire(&transaction).await.unwrap_err();
        assert_error(
            &error,
            ErrorKind::Unusable,
            &["CREATE TABLE IF NOT EXISTS fencepost_tx"],
        );
    }
    PgTxLock::create_table(&stage.eye).await.unwrap();
    let url = stage.url().replace("fencepost@", &format!("{user}@"));
    let mut plain = connect(&url).await;
    let transaction = plain.transaction().await.unwrap();
    let error = both()[0].acquire(&transaction).await.unwrap_err();
    assert_error(&error, ErrorKind::Unusable, &["may not", "fencepost_tx"]);
    drop(transaction);
    drop(plain);
    stage
        .eye
        .batch_execute(&format!("DROP ROLE {user}"))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_at_its_end_gives_no_lock() {
    let stage = Stage::set().await;
    let mut session = stage.session().await;
    stage
        .eye
        .batch_execute("INSERT INTO fencepost_tx VALUES ('stock', 140737488355327)")
        .await
        .unwrap();
    for lock in both() {
        let transaction = session.transaction().await.unwrap();
        let error = lock.acquire(&transaction).await.unwrap_err();
        assert_error(&error, ErrorKind::FenceExhausted, &["140737488355328"]);
    }
}

#[test]
fn names_that_are_none_are_refused() {
    assert_eq!(
        PgTxLock::row("").unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    let error = PgTxLock::advisory("#007").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(
        PgTxLock::row("a\nb").unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}
