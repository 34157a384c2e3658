//! What an error of Postgres means for the user's transaction, and what the user should do.
//!
//! None of these errors has an effect: whatever a transaction did is undone unless it commits.

use tokio_postgres::error::SqlState;

use super::{PgTxLock, STORE};
use crate::error::{Effect, Error, ErrorKind, Operation};
use crate::fence::Fence;
use crate::stores::postgres::failure as common;

pub(super) fn of_statement(operation: Operation, cause: tokio_postgres::Error) -> Error {
    let said = cause.as_db_error().map(|said| said.message().to_owned());
    let said = said.unwrap_or_default();
    let code = cause.code().map(SqlState::code).unwrap_or_default();
    let (kind, message) = match code {
        "40P01" => (
            ErrorKind::Unavailable,
            format!(
                "a deadlock: this transaction and another wanted each other's locks, and the server ended this one ({said}); roll it back and \
                 run it again, and take several locks in the same order everywhere"
            ),
        ),
        "40001" => (
            ErrorKind::Unavailable,
            format!(
                "somebody else has held the lock since this transaction began, so its snapshot is older than the last holder's writes ({said}); roll it back and run \
                 it again, or use READ COMMITTED"
            ),
        ),
        "55P03" => (
            ErrorKind::Timeout,
            format!(
                "somebody else kept the lock for longer than this session's lock_timeout ({said}); roll the transaction back and run it again"
            ),
        ),
        "25P02" => (
            ErrorKind::Unusable,
            "a statement of this transaction failed before; it can only be rolled back".to_owned(),
        ),
        "23514" => (
            ErrorKind::FenceExhausted,
            format!(
                "the fence in fencepost_tx has reached {}: no further lock can be fenced",
                Fence::EPOCH_END
            ),
        ),
        "42703" if said.contains("fence") => (
            ErrorKind::Unusable,
            format!(
                "the table fencepost_tx is one of an older version, whose programs draw fences that cannot be compared with those of this one ({said}); \
                 stop them, and run PgTxLock::create_table, or: {}",
                PgTxLock::UPGRADE_TABLE
            ),
        ),
        "42P01" => (
            ErrorKind::Unusable,
            format!(
                "a table or a sequence is missing ({said}); make it with PgTxLock::create_table or PgGate::create, or let somebody with the right to do so run: {}",
                PgTxLock::CREATE_TABLE
            ),
        ),
        _ => {
            let error = common::of_statement(STORE, operation, cause);
            return error.with_effect(Effect::None);
        }
    };
    Error::new(kind, STORE, operation, message).with_source(cause)
}

/// Returns whether the user may not create, does not own what is to be upgraded, or has no schema to create in.
pub(super) fn is_missing_right(cause: &tokio_postgres::Error) -> bool {
    let code = cause.code().map(SqlState::code);
    matches!(code, Some("42501" | "3F000"))
}

/// Returns the error for a table or sequences that could not be created because the user lacks a permission.
pub(super) fn not_made(cause: tokio_postgres::Error, user: Option<String>) -> Error {
    let said = cause.as_db_error().map(|said| said.message().to_owned());
    let said = said.unwrap_or_default();
    let user = user.unwrap_or_else(|| "the user of this program".to_owned());
    let message = format!(
        "the table or the sequences are missing, and the user may not make them, or the table is one of an older version, and the user may not upgrade it by {} ({said}); \
         let somebody with the right to do so run: {}; GRANT SELECT, INSERT, UPDATE ON fencepost_tx TO {user}; \
         GRANT USAGE, SELECT, UPDATE ON SEQUENCE public.fencepost_fence, public.fencepost_lift TO {user}",
        PgTxLock::UPGRADE_TABLE,
        PgTxLock::CREATE_TABLE,
    );
    Error::new(ErrorKind::Unusable, STORE, Operation::Open, message).with_source(cause)
}

/// Returns whether the server waited until the end of the time limit.
pub(super) fn is_too_late(error: &Error) -> bool {
    common::code(error) == Some(&SqlState::LOCK_NOT_AVAILABLE)
}
