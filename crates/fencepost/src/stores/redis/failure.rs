//! Turns errors of the Redis server, the client library or the network into errors that a caller can act on.

#[cfg(feature = "redis-tls")]
use std::{io, sync::Arc};

use redis::{ErrorKind as Cause, RedisError, ServerErrorKind};

use super::STORE;
use crate::error::{Effect, Error, ErrorKind, Operation};

/// What the scripts return when they do not know the layout of a fence.
const NEWER_LAYOUT: &str = "FENCEPOST_NEWER_LAYOUT";

/// Returns the error of a command that was sent, or may have been.
pub(crate) fn of_command(operation: Operation, cause: RedisError) -> Error {
    let (kind, message, effect) = explain(&cause);
    Error::new(kind, STORE, operation, message)
        .with_effect(effect)
        .with_source(cause)
}

/// Returns the error of a connection that could not be opened. No command was sent yet.
pub(super) fn of_connecting(operation: Operation, cause: RedisError) -> Error {
    let (kind, message) = if refuses_tls(&cause) {
        (ErrorKind::Unusable, format!("no agreement on TLS: {cause}"))
    } else {
        let (kind, message, _) = explain(&cause);
        (kind, message)
    };
    Error::new(kind, STORE, operation, message).with_source(cause)
}

/// Returns whether one side does not accept the other's certificate or does not speak TLS. Trying again will not help.
#[cfg(feature = "redis-tls")]
fn refuses_tls(cause: &RedisError) -> bool {
    use std::error::Error;
    let mut next: Option<&(dyn Error + 'static)> = Some(cause);
    while let Some(error) = next {
        let inner = error.downcast_ref::<Arc<dyn Error + Send + Sync>>();
        let error = inner.map_or(error, |inner| &**inner);
        let inside = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        if error.is::<rustls::Error>() || inside.is_some_and(|inside| inside.is::<rustls::Error>())
        {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(not(feature = "redis-tls"))]
fn refuses_tls(_: &RedisError) -> bool {
    false
}

/// Returns the error for a lock name that is one of our own keys.
pub(crate) fn reserved(operation: Operation) -> Error {
    let message = "a lock's name in Redis must not begin with `fp:{`, which is reserved for Fencepost's own keys";
    Error::new(ErrorKind::InvalidInput, STORE, operation, message)
}

/// Returns the error for the key of a record that contains something else.
pub(super) fn not_a_record(key: &str) -> Error {
    let message = format!(
        "the key {key} does not hold a record of this program, or a newer version has written it: use that version, or delete the key"
    );
    Error::new(ErrorKind::Unusable, STORE, Operation::ReadRecord, message)
}

/// Returns the error for a server that did not answer while connecting.
pub(crate) fn unreachable(operation: Operation) -> Error {
    let message = "the server does not answer";
    Error::new(ErrorKind::Unavailable, STORE, operation, message)
}

/// Returns the error for an answer that none of our scripts returns.
pub(crate) fn unexpected(operation: Operation, what: &str) -> Error {
    Error::unexpected_answer(STORE, operation, what)
}

/// Returns whether the same request may succeed a little later without anybody repairing anything.
pub(crate) fn is_transient(error: &Error) -> bool {
    let cause = std::error::Error::source(error);
    let cause = cause.and_then(|cause| cause.downcast_ref::<RedisError>());
    error.is_transient() || cause.is_some_and(is_demoted)
}

/// Returns whether the server is a demoted primary or a replica. The address may soon lead to the new primary.
fn is_demoted(cause: &RedisError) -> bool {
    cause.kind() == Cause::Server(ServerErrorKind::ReadOnly)
}

/// Returns whether the server does not know the script's hash.
pub(crate) fn is_unknown_script(cause: &RedisError) -> bool {
    cause.kind() == Cause::Server(ServerErrorKind::NoScript)
}

/// Returns whether the connection cannot be used any more.
pub(super) fn ends_connection(cause: &RedisError) -> bool {
    cause.is_unrecoverable_error() || cause.is_connection_dropped() || is_demoted(cause)
}

fn explain(cause: &RedisError) -> (ErrorKind, String, Effect) {
    use ErrorKind::{Unavailable, Unusable};
    let said = cause.to_string();
    let code = cause.code().unwrap_or_default();
    if said.contains(NEWER_LAYOUT) {
        let message = "the fence of this lock was written by a newer version of this program: use that version everywhere";
        return (Unusable, message.to_owned(), Effect::Maybe);
    }
    // If the server refuses a command as a whole, it has not started it.
    let refused = |kind, message: &str| (kind, format!("{message} ({said})"), Effect::None);
    match cause.kind() {
        Cause::Io if cause.is_connection_refusal() => refused(Unavailable, "nothing listens there"),
        Cause::Io => (
            Unavailable,
            format!("the connection broke: {said}"),
            Effect::Maybe,
        ),
        Cause::AuthenticationFailed => refused(Unusable, "user or password is wrong"),
        Cause::RESP3NotSupported => refused(Unusable, "the server is older than Redis 6.2"),
        Cause::InvalidClientConfig => refused(ErrorKind::InvalidInput, "the address is not usable"),
        Cause::Parse => (
            Unusable,
            format!("what answers there is not Redis ({said})"),
            Effect::Maybe,
        ),
        Cause::Server(kind) => of_server(kind, &said),
        _ => match code {
            "OOM" => refused(Unusable, "the server is out of memory for new keys"),
            "WRONGTYPE" => refused(
                Unusable,
                "the key of this name holds something other than a lock; choose another name",
            ),
            "NOAUTH" | "WRONGPASS" => refused(Unusable, "user or password is wrong"),
            "BUSY" | "NOREPLICAS" | "MISCONF" => {
                refused(Unavailable, "the server does not accept writes now")
            }
            _ => (
                Unusable,
                format!("the server refused: {said}"),
                Effect::Maybe,
            ),
        },
    }
}

fn of_server(kind: ServerErrorKind, said: &str) -> (ErrorKind, String, Effect) {
    use ErrorKind::{Unavailable, Unusable};
    let (kind, message) = match kind {
        ServerErrorKind::BusyLoading => (Unavailable, "the server is still loading its data"),
        ServerErrorKind::MasterDown | ServerErrorKind::ClusterDown | ServerErrorKind::TryAgain => {
            (Unavailable, "the server does not serve now")
        }
        ServerErrorKind::ReadOnly => (
            Unusable,
            "this is a read-only replica; locks need the primary",
        ),
        ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::CrossSlot => (
            Unusable,
            "this is a node of a Redis Cluster, which is not supported yet",
        ),
        ServerErrorKind::NoPerm => (
            Unusable,
            "the user may not do what locks need; see fencepost doctor",
        ),
        _ => {
            let message = format!("the server refused: {said}");
            return (Unusable, message, Effect::Maybe);
        }
    };
    (kind, format!("{message} ({said})"), Effect::None)
}
