//! How a lock in the user's transaction gets its fence from the sequences of [`stores::postgres`](crate::stores::postgres).
//!
//! Sequences do not roll back, so no fence is drawn twice, whatever happens to the transaction. The row of the lock is set to the fence
//! that was drawn, which lets the server refuse transactions that see an older snapshot. If the row is ahead of the sequences (because one
//! of them was restored from elsewhere), the fence is lifted past it.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, SimpleQueryMessage, Transaction};

use super::{PgTxLock, STORE, ask, batch, failure};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::fence::Fence;
use crate::stores::postgres::fence::{self, DRAW, LIFT_END, LIFT_IN_TURN, NOTE_LIFTED};

/// How often to lift. If others undo every lift, more attempts would not help.
const LIFTS: usize = 3;

/// Draws a fence, and sets the locked row to it. Returns the fence if that was done, and the old value of the row; both are NULL if there
/// is no row.
pub(super) fn draw_statement() -> String {
    format!(
        "WITH drawn AS MATERIALIZED (SELECT {DRAW} AS fence), \
         followed AS (UPDATE fencepost_tx AS t SET fence = drawn.fence FROM drawn \
         WHERE t.name = $1 AND t.fence < drawn.fence RETURNING t.fence) \
         SELECT (SELECT fence FROM followed), (SELECT fence FROM fencepost_tx WHERE name = $1)"
    )
}

/// Returns the fence of the first attempt. If that attempt did not get one, lifts the sequence and draws again.
pub(super) async fn finish(
    lock: &PgTxLock,
    transaction: &Transaction<'_>,
    mut drawn: Vec<Row>,
) -> Result<Fence> {
    for _ in 0..LIFTS {
        let row = drawn.first();
        let (fence, stored): (Option<i64>, Option<i64>) =
            row.map_or((None, None), |row| (row.get(0), row.get(1)));
        if let Some(fence) = fence {
            return of_number(fence);
        }
        let stored = stored.ok_or_else(row_is_gone)?;
        if stored >= LIFT_END {
            return Err(exhausted(stored));
        }
        lift(transaction, stored).await?;
        let name: &[(&(dyn ToSql + Sync), Type)] = &[(&lock.name.as_str(), Type::TEXT)];
        drawn = ask(transaction, &draw_statement(), name).await?;
    }
    let message = "somebody sets the sequences of fences back while they are lifted; run the transaction again";
    Err(Error::new(
        ErrorKind::Unavailable,
        STORE,
        Operation::Acquire,
        message,
    ))
}

/// Lifts the sequence past the time and past `stored`. Rolls back to a savepoint, so that others can lift before this transaction ends; the
/// sequence does not roll back. The time limit applies only to this wait, which is short.
async fn lift(transaction: &Transaction<'_>, stored: i64) -> Result<()> {
    let lift = fence::lift(&stored.to_string());
    let statements = format!(
        "SAVEPOINT fencepost_lift; SET LOCAL lock_timeout = '10s'; {LIFT_IN_TURN}; {lift}; \
         ROLLBACK TO SAVEPOINT fencepost_lift; RELEASE SAVEPOINT fencepost_lift"
    );
    let messages = transaction.simple_query(&statements).await;
    let messages = messages.map_err(|cause| failure::of_statement(Operation::Acquire, cause))?;
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    // The last row is the lift; the rows before it belong to the turn.
    fence::lifted(STORE, rows.last())?;
    batch(transaction, NOTE_LIFTED).await?;
    Ok(())
}

fn of_number(epoch: i64) -> Result<Fence> {
    let fence = u64::try_from(epoch).ok();
    let fence = fence.and_then(|epoch| Fence::new(epoch, 0).ok());
    fence.ok_or_else(|| exhausted(epoch))
}

fn exhausted(epoch: i64) -> Error {
    let message = format!(
        "the fence in fencepost_tx is {epoch}, too close to the end ({}) to draw one that is larger",
        Fence::EPOCH_END
    );
    Error::new(
        ErrorKind::FenceExhausted,
        STORE,
        Operation::Acquire,
        message,
    )
}

fn row_is_gone() -> Error {
    let message = "somebody deleted the row of the lock from fencepost_tx just now; run the transaction again";
    Error::new(ErrorKind::Unavailable, STORE, Operation::Acquire, message)
}
