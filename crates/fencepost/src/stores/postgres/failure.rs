//! Turns errors of the Postgres server, the client library or the network into errors that a caller can act on.

use std::error::Error as _;
use std::io;

use tokio_postgres::error::{DbError, SqlState};

use crate::error::{Effect, Error, ErrorKind, Operation};

/// Returns the error of a statement that was sent, or may have been.
pub(crate) fn of_statement(
    store: &'static str,
    operation: Operation,
    cause: tokio_postgres::Error,
) -> Error {
    let (kind, message, effect) = explain(&cause);
    Error::new(kind, store, operation, message)
        .with_effect(effect)
        .with_source(cause)
}

/// Returns the error of a connection that ended before the statement was answered, with the server's reason.
pub(crate) fn of_ending(
    store: &'static str,
    operation: Operation,
    said: &tokio_postgres::Error,
) -> Error {
    let (kind, message, _) = explain(said);
    let error = Error::new(kind, store, operation, message).with_effect(Effect::Maybe);
    match said.as_db_error() {
        Some(said) => error.with_source(said.clone()),
        None => error,
    }
}

/// Returns the error of a connection that could not be opened. No statement was sent yet.
pub(crate) fn of_connecting(
    store: &'static str,
    operation: Operation,
    cause: tokio_postgres::Error,
) -> Error {
    let (kind, message) = match cause.as_db_error() {
        None if is_about_tls(&cause) => (
            ErrorKind::Unusable,
            format!("no agreement on TLS: {}", deepest(&cause)),
        ),
        // The connection ended in the middle of something that is not a message of this protocol.
        None if io_cause(&cause).is_some_and(|io| io.kind() == io::ErrorKind::Other) => (
            ErrorKind::Unusable,
            format!(
                "what answers there does not talk like Postgres ({})",
                deepest(&cause)
            ),
        ),
        None if cause.to_string().starts_with("authentication") => (
            ErrorKind::Unusable,
            format!("user or password is wrong ({})", deepest(&cause)),
        ),
        _ => {
            let (kind, message, _) = explain(&cause);
            (kind, message)
        }
    };
    Error::new(kind, store, operation, message).with_source(cause)
}

/// Returns the error for a server that did not answer while connecting.
pub(crate) fn unreachable(store: &'static str, operation: Operation) -> Error {
    let message = "the server does not answer";
    Error::new(ErrorKind::Unavailable, store, operation, message)
}

/// Returns the error for a statement that was not answered in time. Its connection is given up.
pub(crate) fn unanswered(store: &'static str, operation: Operation) -> Error {
    unreachable(store, operation).with_effect(Effect::Maybe)
}

/// Returns the error for a standby, which cannot hold locks, with the reason.
pub(crate) fn standby(store: &'static str, operation: Operation, why: &str) -> Error {
    let message = format!(
        "this is a standby, {why}; locks need the primary (target_session_attrs=read-write finds it among several hosts)"
    );
    Error::new(ErrorKind::Unusable, store, operation, message).with_source(InRecovery)
}

/// The source that identifies a [`standby`] error.
#[derive(Debug)]
struct InRecovery;

impl std::fmt::Display for InRecovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the server is in recovery")
    }
}

impl std::error::Error for InRecovery {}

/// Returns whether the same request may succeed a little later without anybody repairing anything.
///
/// This includes a read-only server: during a failover the address may lead to a standby that is about to be promoted.
pub(crate) fn is_transient(error: &Error) -> bool {
    error.is_transient() || is_read_only(error)
}

/// Returns whether the server is a standby, or was one when the statement arrived.
fn is_read_only(error: &Error) -> bool {
    let cause = first(error).source();
    let is_ours = cause.is_some_and(|cause| cause.is::<InRecovery>());
    is_ours || code(error) == Some(&SqlState::READ_ONLY_SQL_TRANSACTION) || is_recovering(error)
}

/// Returns whether the server refused to assign a transaction number because it is a standby; its error code has many meanings.
fn is_recovering(error: &Error) -> bool {
    let is_state = code(error) == Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
    is_state && error.message().contains("recovery")
}

/// Returns whether the server ended a wait after the session's `lock_timeout`.
pub(crate) fn is_lock_timeout(error: &Error) -> bool {
    code(error) == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// Returns whether the session and its locks have ended, because the server said so or the connection broke.
pub(crate) fn is_over(error: &Error) -> bool {
    let broke = error
        .source()
        .and_then(|cause| cause.downcast_ref::<tokio_postgres::Error>())
        .is_some_and(|cause| cause.as_db_error().is_none());
    broke || was_ended(error)
}

/// Returns whether the server itself said that it ends the session. The request may have been executed before, but a lock that it took has
/// ended with the session, so it can be requested again in another one.
pub(crate) fn was_ended(error: &Error) -> bool {
    let code = code(error).map(SqlState::code);
    matches!(code, Some("57P01" | "57P02" | "57P03" | "57P05"))
}

/// Returns the error itself, or the error of another operation that it repeats.
fn first(error: &Error) -> &Error {
    let cause = error.source().and_then(|cause| cause.downcast_ref());
    cause.map_or(error, first)
}

/// Returns the server's error code, if the error came from the server.
pub(crate) fn code(error: &Error) -> Option<&SqlState> {
    let cause = first(error).source()?;
    if let Some(said) = cause.downcast_ref::<DbError>() {
        return Some(said.code());
    }
    cause.downcast_ref::<tokio_postgres::Error>()?.code()
}

fn explain(cause: &tokio_postgres::Error) -> (ErrorKind, String, Effect) {
    if let Some(said) = cause.as_db_error() {
        return of_server(said);
    }
    if let Some(refused) = io_cause(cause) {
        return of_network(refused);
    }
    if cause.is_closed() {
        let message = "the server closed the connection".to_owned();
        return (ErrorKind::Unavailable, message, Effect::Maybe);
    }
    let message = format!(
        "what answers there does not talk like Postgres ({})",
        chain(cause)
    );
    (ErrorKind::Unusable, message, Effect::Maybe)
}

fn of_network(cause: &io::Error) -> (ErrorKind, String, Effect) {
    match cause.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => (
            ErrorKind::Unavailable,
            format!("nothing listens there ({cause})"),
            Effect::None,
        ),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => (
            ErrorKind::Unusable,
            format!("what answers there does not talk like Postgres ({cause})"),
            Effect::Maybe,
        ),
        _ => (
            ErrorKind::Unavailable,
            format!("the connection broke: {cause}"),
            Effect::Maybe,
        ),
    }
}

/// Returns the error that the server sent. A server that refuses a statement has undone it. That does not hold for locks of a session; the
/// caller closes the session instead.
fn of_server(said: &DbError) -> (ErrorKind, String, Effect) {
    use ErrorKind::{Timeout, Unavailable, Unusable};
    let code = said.code();
    let (kind, advice) = match code.code() {
        "28P01" | "28000" if said.message().contains("no encryption") => (
            Unusable,
            "the server demands TLS: add sslmode=require to the address",
        ),
        "28P01" => (Unusable, "user or password is wrong"),
        "28000" => (Unusable, "the server does not let this user in from here"),
        "3D000" => (Unusable, "there is no such database; create it first"),
        "42501" => (Unusable, "the user may not do what locks need"),
        "42P01" => (Unusable, "there is no such table"),
        "42703" | "42804" | "42P10" => (Unusable, "the table lacks the columns of a lock table"),
        "25006" => (
            Unusable,
            "the server or session is read-only; locks need the primary",
        ),
        // Advisory locks work on a standby, but transaction numbers do not.
        "55000" if said.message().contains("recovery") => (
            Unusable,
            "this is a standby, which cannot give fences; locks need the primary",
        ),
        "57P01" => (Unavailable, "the server ended the connection"),
        "57P02" => (Unavailable, "the server crashed"),
        "57P03" => (Unavailable, "the server is starting or stopping"),
        "57P05" => (Unavailable, "the server ended an idle connection"),
        "57014" => (
            Timeout,
            "the server cancelled the statement (statement_timeout, or pg_cancel_backend)",
        ),
        "55P03" => (Timeout, "the server's lock_timeout passed"),
        "53300" => (
            Unavailable,
            "the server has no connection left; raise max_connections or use fewer",
        ),
        "53200" => (
            Unavailable,
            "the server is out of lock memory; raise max_locks_per_transaction",
        ),
        "53100" => (Unusable, "the server's disk is full"),
        "40001" | "40P01" => (
            Unavailable,
            "the server resolved a conflict by aborting this statement; try again",
        ),
        "08P01" => (
            Unusable,
            "what answers there refuses what locks need; is there a pooler in between?",
        ),
        _ if code.code().starts_with("08") => (Unavailable, "the connection broke"),
        _ if code.code().starts_with("53") => (Unavailable, "the server lacks resources"),
        _ => (Unusable, "the server refused"),
    };
    let message = format!("{advice} ({}, {})", said.message(), code.code());
    // The statement was cut off in the middle, so whatever it did before is not undone.
    let is_cut = kind == Unavailable
        && ["57P", "08"]
            .iter()
            .any(|class| code.code().starts_with(class));
    let effect = if is_cut { Effect::Maybe } else { Effect::None };
    (kind, message, effect)
}

/// Returns whether one side does not accept the other's certificate or does not speak TLS. Trying again will not help.
fn is_about_tls(cause: &tokio_postgres::Error) -> bool {
    cause.to_string().contains("TLS") && io_cause(cause).is_none_or(|io| io.get_ref().is_some())
}

fn io_cause(cause: &tokio_postgres::Error) -> Option<&io::Error> {
    let mut next = cause.source();
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

fn deepest(cause: &tokio_postgres::Error) -> String {
    let mut last: &dyn std::error::Error = cause;
    while let Some(next) = last.source() {
        last = next;
    }
    last.to_string()
}

fn chain(cause: &tokio_postgres::Error) -> String {
    match cause.source() {
        Some(why) => format!("{cause}: {why}"),
        None => cause.to_string(),
    }
}
