//! Transactions and sessions draw their fences from one source, and no fence is drawn twice.

use std::sync::Arc;

use fencepost::Locker;
use fencepost::pg_tx::PgTxLock;
use fencepost::stores::postgres::Postgres;
use fencepost::{Error, ErrorKind};

use crate::stage::{LONG, Stage, both, soon};

/// A session of [`Postgres`] and a transaction exclude each other on one name, so their fences must increase in the order of
/// the grants.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_transactions_can_be_compared() {
    let stage = Stage::set().await;
    let store = Arc::new(Postgres::open(stage.url()).await.unwrap());
    let locker = Locker::builder(store).ttl(LONG).build().unwrap();
    let mut session = stage.session().await;
    let mut last = None;
    for _ in 0..3 {
        let guard = soon("the lease", locker.acquire("stock")).await.unwrap();
        assert!(Some(guard.fence()) > last, "{guard:?} after {last:?}");
        last = Some(guard.fence());
        assert!(guard.release().await.is_released());
        for lock in both() {
            let transaction = session.transaction().await.unwrap();
            let held = lock.acquire(&transaction).await.unwrap();
            assert!(Some(held.fence()) > last, "{held:?} after {last:?}");
            last = Some(held.fence());
            transaction.commit().await.unwrap();
        }
    }
}

/// The row may be ahead of the clock. A drawn fence stays drawn, even if everybody rolls back.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_ahead_of_the_clock_repeats_no_fence() {
    const AHEAD: i64 = 1 << 45;
    let stage = Stage::set().await;
    let mut session = stage.session().await;
    for lock in both() {
        let set = "INSERT INTO fencepost_tx (name, fence) VALUES ('stock', $1) ON CONFLICT (name) DO UPDATE SET fence = $1";
        let stored = AHEAD + stage.number("SELECT count(*) FROM fencepost_tx").await * 1_000_000;
        stage.eye.execute(set, &[&stored]).await.unwrap();
        let mut last = stored.cast_unsigned();
        for _ in 0..4 {
            let transaction = session.transaction().await.unwrap();
            let held = lock.acquire(&transaction).await.unwrap();
            let epoch = held.fence().epoch();
            assert!(epoch > last, "{epoch} after {last}");
            last = epoch;
            transaction.rollback().await.unwrap();
        }
    }
}

/// A program of an older version on the same table would count only from its rows. The upgrade keeps it out.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_table_is_upgraded_and_its_programs_are_refused() {
    let stage = Stage::set().await;
    let older = "DROP TABLE fencepost_tx;
        CREATE TABLE fencepost_tx (name TEXT PRIMARY KEY, epoch BIGINT NOT NULL CHECK (epoch > 0 AND epoch < 140737488355328));
        INSERT INTO fencepost_tx VALUES ('stock', 1451795268902)";
    stage.eye.batch_execute(older).await.unwrap();
    let mut session = stage.session().await;
    let transaction = session.transaction().await.unwrap();
    let error: Error = both()[0].acquire(&transaction).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unusable, "{error}");
    assert!(
        error.to_string().contains(PgTxLock::UPGRADE_TABLE),
        "{error}"
    );
    transaction.rollback().await.unwrap();
    for _ in 0..2 {
        PgTxLock::create_table(&stage.eye).await.unwrap();
    }
    let transaction = session.transaction().await.unwrap();
    let held = both()[0].acquire(&transaction).await.unwrap();
    assert!(held.fence().epoch() > 1_451_795_268_902, "{held:?}");
    transaction.commit().await.unwrap();
    // This is what an older version does.
    let counts =
        "INSERT INTO fencepost_tx (name, epoch) VALUES ('stock', 1) ON CONFLICT (name) DO NOTHING";
    let refused = stage.eye.batch_execute(counts).await.unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "42703");
}
