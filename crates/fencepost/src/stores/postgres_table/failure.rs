//! Errors about the tables, with what to do. All other errors are the same as in the other Postgres store.

use tokio_postgres::error::SqlState;

use super::STORE;
use crate::error::{Effect, Error, ErrorKind, Operation};
use crate::fence::Fence;
use crate::stores::postgres::failure as common;

pub(super) use common::{code, is_transient};

/// Returns the error of a statement that was sent, or may have been.
pub(super) fn of_statement(operation: Operation, cause: tokio_postgres::Error) -> Error {
    if cause.code() == Some(&SqlState::CHECK_VIOLATION) {
        let message = format!(
            "the epoch in the fence table has reached {}: no further lock can be fenced; correct its row, and reset the fences that the \
             protected resources have seen",
            Fence::EPOCH_END
        );
        return Error::new(ErrorKind::FenceExhausted, STORE, operation, message).with_source(cause);
    }
    common::of_statement(STORE, operation, cause)
}

/// Returns whether somebody keeps a row locked in a transaction that does not end.
pub(super) fn is_row_locked(error: &Error) -> bool {
    common::is_lock_timeout(error)
}

/// Returns the error if no server answered.
pub(super) fn unreachable(operation: Operation) -> Error {
    common::unreachable(STORE, operation)
}

/// Returns the error for a statement that was not answered in time. Its connection is given up.
pub(super) fn unanswered(operation: Operation) -> Error {
    common::unanswered(STORE, operation)
}

/// Returns the error for an answer that none of our statements returns.
pub(super) fn unexpected(operation: Operation, what: &str) -> Error {
    Error::unexpected_answer(STORE, operation, what)
}

pub(super) fn no_name_of_a_table(text: &str, longest: usize) -> Error {
    let message = format!(
        "{text:?} names no table; expected TABLE or SCHEMA.TABLE of at most {longest} bytes each"
    );
    Error::invalid_settings(STORE, message)
}

/// Returns the error for an invalid value of `create`. It does not quote the value, because an address may contain secrets.
pub(super) fn neither_yes_nor_no() -> Error {
    let message = "create in the address is true or false";
    Error::invalid_settings(STORE, message)
}

/// Returns the error for missing tables, with the statements that create them.
pub(super) fn missing(tables: &[String], statements: &str) -> Error {
    unusable(format!(
        "there is no table {}; say create=true in the address (in a program: create_table(true)), and the next program that locks creates what is missing; or let somebody with the right to do so run: {statements}",
        tables.join(", ")
    ))
}

/// Returns the error for a table of records that is missing, with the statement that creates it.
pub(super) fn no_records(operation: Operation, table: &str, statement: &str) -> Error {
    let message = format!(
        "there is no table {table}, which locks do without, and other kinds of lock need; open the store with create=true in the address (in a \
         program: create_table(true)), or let somebody with the right to do so run: {statement}"
    );
    Error::new(ErrorKind::Unusable, STORE, operation, message)
}

/// Returns the error for a table of records that a crash would empty.
pub(super) fn unlogged_records(operation: Operation, table: &str) -> Error {
    let message = format!(
        "the table {table} is unlogged or temporary: a crash of the server empties it, and forgets who holds what; run: ALTER TABLE {table} SET LOGGED"
    );
    Error::new(ErrorKind::Unusable, STORE, operation, message)
}

/// Returns the error for a table of records that this user may not use.
pub(super) fn no_right_to_records(operation: Operation, table: &str) -> Error {
    let message = format!(
        "this user lacks rights on {table}; let its owner run: GRANT SELECT, INSERT, UPDATE ON {table} TO …"
    );
    Error::new(ErrorKind::Unusable, STORE, operation, message)
}

/// Returns the error for tables that could not be created.
pub(super) fn not_created(statements: &str, cause: tokio_postgres::Error) -> Error {
    let why = common::of_statement(STORE, Operation::Open, cause);
    let message = format!(
        "the tables could not be made: {}; let somebody with the right to do so run: {statements}",
        why.message()
    );
    Error::new(why.kind(), STORE, Operation::Open, message)
        .with_effect(Effect::None)
        .with_source(why)
}

/// Returns the error for a standby.
pub(super) fn standby() -> Error {
    common::standby(STORE, Operation::Open, "which can only be read")
}

/// Returns the error for a server, permissions or tables that are not suitable for locks; `what` contains the reason and what to do.
pub(super) fn unusable(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unusable, STORE, Operation::Open, what.into())
}

/// Returns the error for a statement that found its connection closed; `said` is the server's reason.
pub(super) fn cut_off(operation: Operation, said: &tokio_postgres::Error) -> Error {
    let message = match said.as_db_error() {
        Some(said) => format!("the server ended the connection ({})", said.message()),
        None => "the server ended the connection".to_owned(),
    };
    Error::new(ErrorKind::Unavailable, STORE, operation, message).with_effect(Effect::Maybe)
}

/// Returns whether the connection cannot be used any more: it broke, or its server became a standby.
pub(super) fn ends_connection(error: &Error) -> bool {
    let code = common::code(error);
    code.is_some_and(|code| code.code().starts_with("57P"))
        || code == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
}
