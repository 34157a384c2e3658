//! A gate for read-write locks in front of the work of a transaction.

use fencepost::pg_tx::PgRwGate;
use fencepost::resource::FencedError;
use fencepost_store_tests::rw_gate::{Visit, visits};
use tokio_postgres::Client;

use crate::stage::{Stage, soon};

async fn admit(session: &mut Client, visit: Visit) -> Result<(), FencedError> {
    let transaction = session.transaction().await.unwrap();
    if visit.writes {
        PgRwGate::admit_write(&transaction, "config", visit.credential).await?;
    } else {
        PgRwGate::admit_read(&transaction, "config", visit.credential).await?;
    }
    transaction.commit().await.unwrap();
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_writer_or_reader_is_refused() {
    let stage = Stage::set().await;
    let mut session = stage.session().await;
    PgRwGate::create(&session).await.unwrap();
    PgRwGate::create(&session).await.unwrap();
    for visit in visits() {
        let refused = match admit(&mut session, visit).await {
            Ok(()) => None,
            Err(FencedError::Refused(refused)) => Some(refused.highest),
            Err(error) => panic!("{visit:?}: {error}"),
        };
        assert_eq!(refused, visit.refused_by, "{visit:?}");
    }
}

/// A reader that has not committed yet keeps earlier writers waiting, and shuts them out when it commits.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_shuts_an_earlier_writer_out() {
    let stage = Stage::set().await;
    let (mut one, mut other) = (stage.session().await, stage.session().await);
    PgRwGate::create(&one).await.unwrap();
    let mut visits = visits().into_iter().skip(1);
    let (Some(reader), Some(writer)) = (visits.next(), visits.next()) else {
        panic!("a reader and a writer");
    };
    assert!(!reader.writes && writer.writes);
    let reading = one.transaction().await.unwrap();
    PgRwGate::admit_read(&reading, "config", writer.credential)
        .await
        .unwrap();
    let earlier = Visit {
        credential: reader.credential,
        ..writer
    };
    let late = tokio::spawn(async move { admit(&mut other, earlier).await });
    stage.until_waiting(1).await;
    assert!(!late.is_finished());
    reading.commit().await.unwrap();
    let outcome = soon("the late writer", late).await.unwrap();
    assert!(
        matches!(outcome, Err(FencedError::Refused(_))),
        "{outcome:?}"
    );
}
