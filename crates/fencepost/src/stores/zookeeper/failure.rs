//! Turns errors of ZooKeeper, its client library or the network into errors that a caller can act on.

use std::time::Duration;

use zookeeper_client::Error as Cause;

use super::STORE;
use crate::error::{Effect, Error, ErrorKind, Operation};

/// Returns the error of a request that was sent, or may have been.
pub(super) fn of_request(operation: Operation, cause: Cause) -> Error {
    let (kind, message, effect) = explain(&cause);
    Error::new(kind, STORE, operation, message)
        .with_effect(effect)
        .with_source(cause)
}

/// Returns the error of a session that could not be created. No request was sent yet.
pub(super) fn of_connecting(operation: Operation, cause: Cause) -> Error {
    let (kind, message, _) = explain(&cause);
    Error::new(kind, STORE, operation, message).with_source(cause)
}

/// Returns the error if no server answered while connecting.
pub(super) fn unreachable(operation: Operation) -> Error {
    let message = "no ZooKeeper server answers there";
    Error::new(ErrorKind::Unavailable, STORE, operation, message)
}

/// Returns the error if the session ended during a request.
pub(super) fn session_ended(operation: Operation) -> Error {
    let message = "the session ended, and with it every lock it held";
    Error::new(ErrorKind::Unavailable, STORE, operation, message).with_effect(Effect::Maybe)
}

/// Returns the error if a candidate of a `LeaderLatch` wants to replace its value.
pub(super) fn a_latch_keeps_its_value() -> Error {
    let message = "in an election that Curator's LeaderLatch takes part in, a leader keeps the value of its campaign: the next candidate would \
                   never learn that it may lead. Resign and campaign with the new value, or use kazoo's layout (?election=kazoo)";
    Error::new(
        ErrorKind::Unsupported,
        STORE,
        Operation::ReplaceRecord,
        message,
    )
}

/// Returns the error if the server's session timeout is shorter than the requested lease.
pub(super) fn ttl_too_long(operation: Operation, ttl: Duration, session: Duration) -> Error {
    let message = format!(
        "a TTL of {ttl:?} is more than the session timeout of {session:?}, after which the server gives the lock away; choose a \
         shorter TTL, ask for a longer session_timeout, or let the server allow it (maxSessionTimeout)"
    );
    Error::new(ErrorKind::InvalidInput, STORE, operation, message)
}

/// Returns the error for transaction numbers that are too large for a fence.
pub(super) fn fence_exhausted(zxid: i64) -> Error {
    let message = format!(
        "the server's transaction number {zxid:#x} does not fit a fence: its ensemble has elected more than 32,767 leaders; locks with \
         fences need a new ensemble and new fenced resources"
    );
    Error::new(
        ErrorKind::FenceExhausted,
        STORE,
        Operation::Acquire,
        message,
    )
}

/// Returns the error for a folder whose 31-bit sequence numbers are used up.
pub(super) fn sequence_exhausted(folder: &str) -> Error {
    let message = format!(
        "the sequence numbers below {folder} are used up; delete that node while nobody wants the lock"
    );
    Error::new(ErrorKind::Unusable, STORE, Operation::Acquire, message)
}

/// Returns the error for a folder that vanished again and again between its creation and its use.
pub(super) fn no_folder(operation: Operation, folder: &str) -> Error {
    let message = format!("another client deletes {folder} as soon as it is created");
    Error::new(ErrorKind::Unusable, STORE, operation, message)
}

/// Returns the error for a record that no node can hold.
pub(super) fn record_too_long(bytes: usize, longest: usize) -> Error {
    let message = format!(
        "a record of {bytes} bytes does not fit into a node, which holds at most {longest}; keep less under this name, or use several names"
    );
    Error::new(
        ErrorKind::InvalidInput,
        STORE,
        Operation::ReplaceRecord,
        message,
    )
}

/// Returns whether the answer to a request was lost, so that the request may have been executed. The session continues if a server is found
/// in time.
pub(super) fn is_lost_answer(cause: &Cause) -> bool {
    matches!(
        cause,
        Cause::ConnectionLoss | Cause::Custom(_) | Cause::SessionMoved
    )
}

fn explain(cause: &Cause) -> (ErrorKind, String, Effect) {
    use ErrorKind::{Internal, Unavailable, Unusable};
    let refused = |kind, message: &str| (kind, message.to_owned(), Effect::None);
    match cause {
        Cause::NoHosts | Cause::Timeout => {
            refused(Unavailable, "no ZooKeeper server answers there")
        }
        Cause::ConnectionLoss | Cause::Custom(_) | Cause::SessionMoved => (
            Unavailable,
            format!("the connection broke: {cause}"),
            Effect::Maybe,
        ),
        Cause::SessionExpired | Cause::ClientClosed => (
            Unavailable,
            "the session ended, and with it every lock it held".to_owned(),
            Effect::Maybe,
        ),
        Cause::NotReadOnly => refused(
            Unavailable,
            "this server has lost its ensemble and only lets itself be read",
        ),
        Cause::Throttled => refused(Unavailable, "the server has too much to do"),
        Cause::NoAuth => refused(
            Unusable,
            "not allowed: user or password is wrong, or the ACLs of the node leave this user out",
        ),
        Cause::AuthFailed => refused(Unusable, "user or password is wrong"),
        Cause::InvalidAcl => refused(
            Unusable,
            "the server refuses the ACL 'auth': it has not accepted user and password",
        ),
        Cause::NoChildrenForEphemerals => refused(
            Unusable,
            "the lock's node is ephemeral, so nobody can stand in line below it; it is not a lock; choose another name or base",
        ),
        Cause::QuotaExceeded => refused(Unusable, "a quota of the server is used up"),
        Cause::Unimplemented => refused(Unusable, "the server is older than ZooKeeper 3.5"),
        Cause::UnmarshalError { .. } => (
            Unusable,
            format!("what answers there is not ZooKeeper ({cause})"),
            Effect::Maybe,
        ),
        // The client's own task ended with its runtime.
        Cause::UnexpectedError(_) => (
            Unavailable,
            format!("the session was cut off: {cause}"),
            Effect::Maybe,
        ),
        Cause::BadArguments(_) => refused(Internal, &format!("a malformed request: {cause}")),
        _ => (
            Unusable,
            format!("the server refused: {cause}"),
            Effect::Maybe,
        ),
    }
}
