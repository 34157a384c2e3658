//! Turns errors of etcd, its client library or the network into errors that a caller can act on.

use std::io;

use etcd_client::Error as Cause;

use super::STORE;
use crate::error::{Effect, Error, ErrorKind, Operation};

/// The gRPC codes that etcd uses.
mod code {
    pub(super) const INVALID_ARGUMENT: i32 = 3;
    pub(super) const NOT_FOUND: i32 = 5;
    pub(super) const PERMISSION_DENIED: i32 = 7;
    pub(super) const RESOURCE_EXHAUSTED: i32 = 8;
    pub(super) const FAILED_PRECONDITION: i32 = 9;
    pub(super) const UNIMPLEMENTED: i32 = 12;
    pub(super) const UNAUTHENTICATED: i32 = 16;
}

/// Returns the error of a request that was sent, or may have been.
pub(super) fn of_request(operation: Operation, cause: Cause) -> Error {
    let (kind, mut message, mut effect) = explain(&cause);
    if effect == Effect::Maybe && operation == Operation::Open {
        message.push_str("; is it etcd, and does it want TLS, or to see a certificate?");
        effect = Effect::None;
    }
    Error::new(kind, STORE, operation, message)
        .with_effect(effect)
        .with_source(cause)
}

/// Returns the error of a connection that could not be opened. No request was sent yet.
pub(super) fn of_connecting(operation: Operation, cause: Cause) -> Error {
    of_request(operation, cause).with_effect(Effect::None)
}

/// Returns the error if no server answered in time.
pub(super) fn unanswered(operation: Operation) -> Error {
    let message = "no server answers";
    Error::new(ErrorKind::Unavailable, STORE, operation, message).with_effect(Effect::Maybe)
}

/// Returns the error if the runtime of the request ended, or its task panicked.
pub(super) fn abandoned(operation: Operation, cause: tokio::task::JoinError) -> Error {
    let message = "the task of this request ended early (its runtime shut down, or it panicked)";
    Error::new(ErrorKind::Unavailable, STORE, operation, message)
        .with_effect(Effect::Maybe)
        .with_source(cause)
}

/// Returns the error for an answer that contradicts what etcd promises.
pub(super) fn unexpected(operation: Operation, what: &str) -> Error {
    Error::unexpected_answer(STORE, operation, what)
}

/// Returns the error if the leader changes faster than a request can be repeated.
pub(super) fn no_steady_leader(operation: Operation) -> Error {
    let message = "the cluster has no steady leader";
    Error::new(ErrorKind::Unavailable, STORE, operation, message).with_effect(Effect::Maybe)
}

/// Returns the error if the key is no longer ours.
pub(super) fn lost(operation: Operation) -> Error {
    let message = "the lock is no longer held; nothing was written";
    Error::new(ErrorKind::Lost, STORE, operation, message)
}

/// Returns whether the server does not know the lease.
pub(super) fn is_unknown_lease(cause: &Cause) -> bool {
    match cause {
        // The client's own message for an answer of zero seconds.
        Cause::LeaseKeepAliveError(said) => said == "lease not found",
        _ => status(cause).is_some_and(|(code, _)| code == code::NOT_FOUND),
    }
}

/// Returns whether the lease already exists.
pub(super) fn is_known_lease(cause: &Cause) -> bool {
    status(cause).is_some_and(|(code, said)| {
        code == code::FAILED_PRECONDITION && said.contains("lease already exists")
    })
}

/// Returns whether the user may not read or write there.
pub(super) fn is_forbidden(cause: &Cause) -> bool {
    status(cause).is_some_and(|(code, _)| code == code::PERMISSION_DENIED)
}

/// Returns whether this connection, or this server, cannot be used any more. Another server may work.
pub(super) fn ends_connection(cause: &Cause) -> bool {
    if is_unknown_lease(cause) {
        return false;
    }
    let is_expired = |(code, said): (i32, &str)| {
        code == code::UNAUTHENTICATED || said.contains("revision of auth store is old")
    };
    status(cause).is_some_and(is_expired) || explain(cause).0 == ErrorKind::Unavailable
}

/// Returns whether the servers answer but have no leader, which they will soon elect.
pub(super) fn is_between_leaders(cause: &Cause) -> bool {
    status(cause).is_some_and(|(_, said)| {
        ["no leader", "leader changed", "not leader", "timed out"]
            .iter()
            .any(|part| said.contains(part))
    })
}

fn status(cause: &Cause) -> Option<(i32, &str)> {
    match cause {
        Cause::GRpcStatus(status) => Some((i32::from(status.code()), status.message())),
        _ => None,
    }
}

fn explain(cause: &Cause) -> (ErrorKind, String, Effect) {
    use ErrorKind::{InvalidInput, Unavailable};
    let refused = |kind, message: &str| (kind, message.to_owned(), Effect::None);
    match cause {
        Cause::InvalidArgs(said) => (InvalidInput, said.clone(), Effect::None),
        Cause::InvalidUri(_) | Cause::InvalidMetadataValue(_) => {
            refused(InvalidInput, "the address is not usable")
        }
        Cause::GRpcStatus(status) => of_status(cause, i32::from(status.code()), status.message()),
        _ if is_refusal(cause) => refused(Unavailable, "nothing listens there"),
        _ => (
            Unavailable,
            format!("the connection broke: {}", innermost(cause)),
            Effect::Maybe,
        ),
    }
}

fn of_status(cause: &Cause, code: i32, said: &str) -> (ErrorKind, String, Effect) {
    use ErrorKind::{Unavailable, Unusable};
    // If the server refuses a request as a whole, it has not started it.
    let refused = |kind, message: &str| (kind, format!("{message} ({said})"), Effect::None);
    match code {
        code::INVALID_ARGUMENT if said.contains("user name is empty") => {
            refused(Unusable, "the server wants a user and a password")
        }
        code::INVALID_ARGUMENT if said.contains("authentication failed") => {
            refused(Unusable, "user or password is wrong")
        }
        code::UNAUTHENTICATED => refused(Unavailable, "the server has forgotten who we are"),
        code::PERMISSION_DENIED => refused(Unusable, "the user may not do what locks need"),
        code::RESOURCE_EXHAUSTED if said.contains("database space exceeded") => refused(
            Unusable,
            "the server is full; compact and defragment it, then disarm its alarm",
        ),
        code::RESOURCE_EXHAUSTED => refused(Unavailable, "the server has too much to do"),
        code::FAILED_PRECONDITION if said.contains("authentication is not enabled") => refused(
            Unusable,
            "the server knows no users; leave user and password out of the address",
        ),
        code::UNIMPLEMENTED => refused(Unusable, "what answers there is not etcd 3.4 or later"),
        code::INVALID_ARGUMENT | code::NOT_FOUND | code::FAILED_PRECONDITION => {
            refused(Unusable, "the server refused")
        }
        _ if is_refusal(cause) => {
            let message = "nothing listens there";
            (Unavailable, message.to_owned(), Effect::None)
        }
        _ if said.contains("no leader") => refused(Unavailable, "the cluster has no leader"),
        _ => match refuses_to_talk(cause) {
            Some(why) => (Unusable, why, Effect::None),
            None => (
                Unavailable,
                format!(
                    "the connection broke, or the cluster has no majority: {}",
                    innermost(cause)
                ),
                Effect::Maybe,
            ),
        },
    }
}

/// Returns whether nothing listens at the address.
fn is_refusal(cause: &Cause) -> bool {
    causes(cause).any(|cause| {
        let io = cause.downcast_ref::<io::Error>();
        io.is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused)
    })
}

/// Returns the reason if the server does not speak our protocol. Trying again will not help.
fn refuses_to_talk(cause: &Cause) -> Option<String> {
    let said: Vec<String> = causes(cause).map(ToString::to_string).collect();
    let contains = |parts: &[&str]| {
        let mut all = said.iter();
        all.any(|said| parts.iter().any(|part| said.contains(part)))
    };
    let last = said.last().cloned().unwrap_or_default();
    if contains(&[
        "certificate",
        "HandshakeFailure",
        "InvalidContentType",
        "corrupt message",
    ]) {
        return Some(format!("no agreement on TLS: {last}"));
    }
    contains(&[
        "frame with invalid size",
        "FRAME_SIZE_ERROR",
        "invalid HTTP version",
    ])
    .then(|| format!("what answers there is not etcd, or wants TLS: {last}"))
}

/// Returns the innermost cause, which is the most specific.
fn innermost(cause: &Cause) -> String {
    let innermost = causes(cause).last().map(ToString::to_string);
    innermost.unwrap_or_else(|| cause.to_string())
}

/// Returns the chain of causes. The client does not expose its causes as sources; the status and the transport do.
fn causes(cause: &Cause) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let first: &(dyn std::error::Error + 'static) = match cause {
        Cause::GRpcStatus(status) => status,
        Cause::TransportError(error) => error,
        Cause::IoError(error) => error,
        other => other,
    };
    std::iter::successors(Some(first), |&error| error.source())
}
