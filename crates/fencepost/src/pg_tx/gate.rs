//! [`PgGate`] refuses stale credentials inside the user's own Postgres transaction.

use tokio_postgres::{Client, Transaction};

use super::failure;
use crate::error::{Error, Operation};
use crate::fence::Fence;
use crate::resource::{ADMIT, CREATE_GATE, Credential, FencedError, Refused};
use crate::stores::postgres::fence::in_turn;

const HIGHEST: &str = "SELECT fence FROM fencepost_gate WHERE resource = $1";

/// Refuses stale credentials inside your own transaction, so that the check is atomic with whatever else the transaction does.
///
/// ```no_run
/// use fencepost::Guard;
/// use fencepost::pg_tx::PgGate;
/// # async fn example(client: &mut tokio_postgres::Client, guard: Guard) -> Result<(), Box<dyn std::error::Error>> {
/// PgGate::create(client).await?; // once, with your other tables
///
/// let transaction = client.transaction().await?;
/// PgGate::admit(&transaction, "stock", guard.credential()).await?;
/// transaction.execute("UPDATE stock SET left_over = left_over - 1", &[]).await?;
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct PgGate;

impl PgGate {
    /// Creates the table `fencepost_gate` if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the server does.
    ///
    /// # Cancel safety
    /// If the future is dropped, the table may have been created.
    pub async fn create(client: &Client) -> Result<(), Error> {
        let table = format!("IF to_regclass('fencepost_gate') IS NULL THEN {CREATE_GATE}; END IF;");
        let made = client.batch_execute(&in_turn(&table)).await;
        made.map_err(|cause| failure::of_statement(Operation::Resource, cause))
    }

    /// Admits a credential to the resource of this name (`UPDATE … WHERE fence < mine`). The gate remembers the fence when the transaction
    /// commits.
    ///
    /// Call it *first* in the transaction, for reads as well as for writes: from then on no other holder can get in between, so the
    /// transaction reads the latest data, and the data stay the latest until it ends.
    ///
    /// # Errors
    /// Returns [`FencedError::Refused`] if the gate has admitted a higher fence, or the same fence from another owner. Roll back then.
    /// Returns [`FencedError::Failed`] if Postgres fails or cannot be reached.
    ///
    /// # Cancel safety
    /// If the future is dropped, the gate may have admitted the credential in this transaction: roll it back.
    pub async fn admit(
        transaction: &Transaction<'_>,
        resource: &str,
        credential: Credential,
    ) -> Result<(), FencedError> {
        let failed = |cause| failure::of_statement(Operation::Resource, cause);
        let (fence, owner) = (credential.fence.as_i64(), credential.owner.to_string());
        let admitted = transaction
            .execute(ADMIT, &[&resource, &fence, &owner])
            .await;
        if admitted.map_err(failed)? == 1 {
            return Ok(());
        }
        let row = transaction.query_one(HIGHEST, &[&resource]).await;
        let highest: i64 = row.map_err(failed)?.get(0);
        Err(FencedError::Refused(Refused {
            offered: credential.fence,
            highest: Fence::from_i64(highest)?,
        }))
    }
}
