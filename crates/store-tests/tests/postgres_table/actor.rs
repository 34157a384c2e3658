//! Children of the tests of the Postgres lease table.

use std::sync::Arc;

use fencepost::pg_tx::PgGate;
use fencepost::resource::{Credential, FencedError};
use fencepost::stores::postgres_table::PostgresTable;
use fencepost::{Guard, Locker};
use fencepost_store_tests::actor::{NoVerb, Opener, Wrote};
use serde::{Deserialize, Serialize};
use tokio_postgres::Client;

use crate::support::{NAME, Plain, patient};

/// The address of a server. The lock protects a table behind a gate.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct At(pub(crate) String);

impl Opener for At {
    type Store = PostgresTable;
    type Verb = NoVerb;

    async fn open(&self) -> Arc<PostgresTable> {
        Arc::new(patient(&self.0).open().await.unwrap())
    }

    async fn write(&self, _: &Arc<PostgresTable>, guard: &Guard) -> Wrote {
        let mut plain = Plain::open(&self.0).await;
        write(&mut plain.0, guard.credential(), "late").await.into()
    }

    async fn perform(&self, verb: &NoVerb, _: &Arc<PostgresTable>, _: &Locker) {
        match *verb {}
    }
}

/// Writes to a table behind a gate.
pub(crate) async fn write(
    client: &mut Client,
    credential: Credential,
    text: &str,
) -> Result<(), FencedError> {
    let transaction = client.transaction().await.unwrap();
    PgGate::admit(&transaction, NAME, credential).await?;
    let set = "UPDATE note SET text = $1";
    transaction.execute(set, &[&text]).await.unwrap();
    transaction.commit().await.unwrap();
    Ok(())
}
