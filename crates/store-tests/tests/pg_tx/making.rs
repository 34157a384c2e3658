//! Creation of the table and the sequences where they are missing, one session at a time.

use fencepost::ErrorKind;
use fencepost::pg_tx::PgTxLock;
use tokio_postgres::Client;

use crate::stage::{Stage, both, connect, soon};

/// The advisory lock that serialises the creation and upgrade of tables and sequences.
const TURN: &str = "(1717923427, 1)";

/// Creates a role that may not create objects in `public`. Returns its name and its address.
async fn ordinary(stage: &Stage, name: &str) -> (String, String) {
    let user = format!("{name}_{}", std::process::id());
    let rules = format!("CREATE ROLE {user} LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    stage.eye.batch_execute(&rules).await.unwrap();
    let url = stage.url().replace("fencepost@", &format!("{user}@"));
    (user, url)
}

async fn drop_role(stage: &Stage, user: &str) {
    let drop = format!("DROP OWNED BY {user}; DROP ROLE {user}");
    stage.eye.batch_execute(&drop).await.unwrap();
}

/// Everything exists and is granted. Since Postgres 15, an ordinary role may not create objects in `public`, and need not.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_needs_no_right_to_make_it() {
    let stage = Stage::set().await;
    let (user, url) = ordinary(&stage, "maker").await;
    let mut plain = connect(&url).await;
    let grants = format!(
        "GRANT SELECT, INSERT, UPDATE ON fencepost_tx TO {user}; \
         GRANT USAGE, SELECT, UPDATE ON SEQUENCE public.fencepost_fence, public.fencepost_lift TO {user}"
    );
    stage.eye.batch_execute(&grants).await.unwrap();
    PgTxLock::create_table(&plain).await.unwrap();
    // The table is in a schema of the role, the sequences in the shared one.
    let own = format!("CREATE SCHEMA {user} AUTHORIZATION {user}");
    stage.eye.batch_execute(&own).await.unwrap();
    PgTxLock::create_table(&plain).await.unwrap();
    let transaction = plain.transaction().await.unwrap();
    both()[1].acquire(&transaction).await.unwrap();
    transaction.commit().await.unwrap();
    drop(plain);
    drop_role(&stage, &user).await;
}

/// A role that may not create them gets an error with the statements that somebody else must run.
#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_is_told_what_to_run() {
    let stage = Stage::set().await;
    let away =
        "DROP TABLE fencepost_tx; DROP SEQUENCE public.fencepost_fence, public.fencepost_lift";
    stage.eye.batch_execute(away).await.unwrap();
    let (user, url) = ordinary(&stage, "told").await;
    let mut plain = connect(&url).await;
    let error = PgTxLock::create_table(&plain).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unusable, "{error}");
    let text = error.to_string();
    let statements = &text[text.find("CREATE TABLE").expect(&text)..];
    stage
        .eye
        .batch_execute(statements.trim_end_matches(')'))
        .await
        .expect(statements);
    PgTxLock::create_table(&plain).await.unwrap();
    let transaction = plain.transaction().await.unwrap();
    both()[0].acquire(&transaction).await.unwrap();
    transaction.commit().await.unwrap();
    drop(plain);
    drop_role(&stage, &user).await;
}

async fn takes_turn(client: &Client) {
    let turn = format!("SELECT pg_advisory_lock{TURN}");
    client.batch_execute(&turn).await.unwrap();
}

async fn ends_turn(client: &Client) {
    let turn = format!("SELECT pg_advisory_unlock{TURN}");
    client.batch_execute(&turn).await.unwrap();
}

/// The store also creates the sequences, under the same lock. The check for an old table happens under it as well.
#[tokio::test(flavor = "multi_thread")]
async fn one_makes_or_upgrades_at_a_time() {
    let stage = Stage::set().await;
    let old = "DROP SEQUENCE public.fencepost_fence, public.fencepost_lift; ALTER TABLE fencepost_tx RENAME COLUMN fence TO epoch";
    stage.eye.batch_execute(old).await.unwrap();
    let turn = stage.session().await;
    takes_turn(&turn).await;
    let making = (0..3).map(|_| {
        let url = stage.url().to_owned();
        tokio::spawn(async move { PgTxLock::create_table(&connect(&url).await).await })
    });
    let making: Vec<_> = making.collect();
    stage.until_waiting(3).await;
    ends_turn(&turn).await;
    for made in making {
        soon("the table", made).await.unwrap().unwrap();
    }
    let renamed = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'fencepost_tx'::regclass AND attname = 'fence'";
    assert_eq!(stage.number(renamed).await, 1);
}
