//! A gate in front of the work of a transaction, which refuses late holders.

use fencepost::pg_tx::PgGate;
use fencepost::random::SystemRandom;
use fencepost::resource::{Credential, FencedError};
use fencepost::{Fence, OwnerId};
use tokio_postgres::Client;

use crate::stage::{Stage, soon};

fn credential(epoch: u64) -> Credential {
    let fence = Fence::new(epoch, 0).unwrap();
    Credential::new(fence, OwnerId::random(&SystemRandom))
}

async fn sell(session: &mut Client, credential: Credential) -> Result<i64, FencedError> {
    let transaction = session.transaction().await.unwrap();
    PgGate::admit(&transaction, "stock", credential).await?;
    let sold = "UPDATE stock SET left_over = left_over - 1 RETURNING left_over";
    let left = transaction.query_one(sold, &[]).await.unwrap().get(0);
    transaction.commit().await.unwrap();
    Ok(left)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_pass_is_refused_and_writes_nothing() {
    let stage = Stage::set().await;
    let mut session = stage.session().await;
    let (earlier, later) = (credential(41), credential(43));
    assert_eq!(sell(&mut session, earlier).await.unwrap(), 99);
    assert_eq!(sell(&mut session, later).await.unwrap(), 98);
    assert_eq!(sell(&mut session, later).await.unwrap(), 97);
    for stale in [earlier, credential(42), credential(43)] {
        let Err(FencedError::Refused(refused)) = sell(&mut session, stale).await else {
            panic!("{stale:?} was admitted");
        };
        assert_eq!(
            (refused.offered, refused.highest),
            (stale.fence, later.fence)
        );
    }
    assert_eq!(stage.number("SELECT left_over FROM stock").await, 97);
}

/// The later holder's read alone shuts out the earlier one, once it has committed. Before that, the earlier one waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_under_a_later_fence_shuts_the_earlier_one_out() {
    let stage = Stage::set().await;
    let (mut one, mut other) = (stage.session().await, stage.session().await);
    let reading = one.transaction().await.unwrap();
    PgGate::admit(&reading, "stock", credential(8))
        .await
        .unwrap();
    let late = tokio::spawn(async move { sell(&mut other, credential(7)).await.map(|_| ()) });
    stage.until_waiting(1).await;
    assert!(!late.is_finished());
    reading.commit().await.unwrap();
    let outcome = soon("the late one", late).await.unwrap();
    assert!(
        matches!(outcome, Err(FencedError::Refused(_))),
        "{outcome:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_rolled_back_leaves_the_gate_as_it_was() {
    let stage = Stage::set().await;
    let mut session = stage.session().await;
    let transaction = session.transaction().await.unwrap();
    PgGate::admit(&transaction, "stock", credential(50))
        .await
        .unwrap();
    transaction.rollback().await.unwrap();
    assert_eq!(sell(&mut session, credential(7)).await.unwrap(), 99);
}
