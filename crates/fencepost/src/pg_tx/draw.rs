//! The fence of a lock in the user's transaction: drawn from the sequences that [`stores::postgres`](crate::stores::postgres) draws from.
//!
//! Sequences do not roll back, so no fence is drawn twice, whatever becomes of the transaction. The row of the lock follows: it is set
//! to the fence that was drawn, which lets the server refuse transactions that see an older world. Should the row be ahead (it was
//! restored from elsewhere, or the sequences were), the fence is lifted past it.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, SimpleQueryMessage, Transaction};

use super::{PgTxLock, STORE, ask, batch, failure};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::fence::Fence;
use crate::stores::postgres::fence::{self, DRAW, LIFT_END, LIFT_IN_TURN, NOTE_LIFTED};

/// A lift that others undo again and again is no lift.
const LIFTS: usize = 3;

/// Draws, and sets the row that is locked. The fence if that was done; what the row said; NULL for both: there is no row.
pub(super) fn draw_statement() -> String {
    format!(
        "WITH drawn AS MATERIALIZED (SELECT {DRAW} AS fence), \
         followed AS (UPDATE fencepost_tx AS t SET fence = drawn.fence FROM drawn \
         WHERE t.name = $1 AND t.fence < drawn.fence RETURNING t.fence) \
         SELECT (SELECT fence FROM followed), (SELECT fence FROM fencepost_tx WHERE name = $1)"
    )
}

/// The fence out of the first attempt to draw; lifts and draws again where that did not succeed.
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

/// Lifts past the time and past `stored`. The savepoint is rolled back, so that others can lift before this transaction ends: the
/// sequence does not go back with it. The limit is that of this wait alone, which is short.
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
    // After that of the turn.
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
