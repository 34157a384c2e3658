//! [`PgRwGate`] refuses stale credentials of a read-write lock inside the user's own Postgres transaction.

use tokio_postgres::{Client, Transaction};

use super::failure;
use crate::error::{Error, Operation};
use crate::fence::Fence;
use crate::resource::{ADMIT_READ, ADMIT_WRITE, CREATE_RW_GATE, Credential, FencedError, Refused};
use crate::stores::postgres::fence::in_turn;

const SEEN: &str = "SELECT fence FROM fencepost_rw_gate WHERE resource = $1";
const WRITTEN: &str = "SELECT written FROM fencepost_rw_gate WHERE resource = $1";

/// Refuses stale credentials of a read-write lock inside your own transaction, so that the check is atomic with whatever else the
/// transaction does.
///
/// ```no_run
/// use fencepost::ReadGuard;
/// use fencepost::pg_tx::PgRwGate;
/// # async fn example(client: &mut tokio_postgres::Client, reader: ReadGuard) -> Result<(), Box<dyn std::error::Error>> {
/// PgRwGate::create(client).await?; // once, with your other tables
///
/// let transaction = client.transaction().await?;
/// PgRwGate::admit_read(&transaction, "config", reader.credential()).await?;
/// let rows = transaction.query("SELECT value FROM config", &[]).await?;
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct PgRwGate;

impl PgRwGate {
    /// Creates the table `fencepost_rw_gate` if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the server does.
    ///
    /// # Cancel safety
    /// If the future is dropped, the table may have been created.
    pub async fn create(client: &Client) -> Result<(), Error> {
        let table =
            format!("IF to_regclass('fencepost_rw_gate') IS NULL THEN {CREATE_RW_GATE}; END IF;");
        let made = client.batch_execute(&in_turn(&table)).await;
        made.map_err(|cause| failure::of_statement(Operation::Resource, cause))
    }

    /// Admits a reader to the resource of this name. Call it *first* in the transaction. The gate remembers the fence when the transaction
    /// commits; until then, other holders wait.
    ///
    /// # Errors
    /// Returns [`FencedError::Refused`] if the resource was written with a higher fence, or with the same fence by another owner. Roll back
    /// then. Returns [`FencedError::Failed`] if Postgres fails or cannot be reached.
    ///
    /// # Cancel safety
    /// If the future is dropped, the gate may have admitted the credential in this transaction: roll it back.
    pub async fn admit_read(
        transaction: &Transaction<'_>,
        resource: &str,
        credential: Credential,
    ) -> Result<(), FencedError> {
        admit(transaction, [ADMIT_READ, WRITTEN], resource, credential).await
    }

    /// Admits a writer to the resource of this name. Otherwise it is the same as [`admit_read`](Self::admit_read).
    ///
    /// # Errors
    /// Returns [`FencedError::Refused`] if the gate has admitted a higher fence, or the same fence from another owner. Roll back then.
    /// Returns [`FencedError::Failed`] if Postgres fails or cannot be reached.
    ///
    /// # Cancel safety
    /// If the future is dropped, the gate may have admitted the credential in this transaction: roll it back.
    pub async fn admit_write(
        transaction: &Transaction<'_>,
        resource: &str,
        credential: Credential,
    ) -> Result<(), FencedError> {
        admit(transaction, [ADMIT_WRITE, SEEN], resource, credential).await
    }
}

async fn admit(
    transaction: &Transaction<'_>,
    [admit, highest]: [&str; 2],
    resource: &str,
    credential: Credential,
) -> Result<(), FencedError> {
    let failed = |cause| failure::of_statement(Operation::Resource, cause);
    let (fence, owner) = (credential.fence.as_i64(), credential.owner.to_string());
    let admitted = transaction
        .execute(admit, &[&resource, &fence, &owner])
        .await;
    if admitted.map_err(failed)? == 1 {
        return Ok(());
    }
    let row = transaction.query_one(highest, &[&resource]).await;
    let highest: i64 = row.map_err(failed)?.get(0);
    Err(FencedError::Refused(Refused {
        offered: credential.fence,
        highest: Fence::from_i64(highest)?,
    }))
}
