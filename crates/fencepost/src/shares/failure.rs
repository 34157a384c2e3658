//! Errors of semaphores and read-write locks: what the store cannot do, what is in the record, and what can never be granted.

use super::machine::{Capacity, Impossible, Unreadable};
use crate::claim::LockName;
use crate::error::{Error, ErrorKind, Operation};

const OTHER_STORE: &str = "use a store that has both, such as SQLite, Redis or a table in Postgres";

/// Returns the error of a store that keeps no records.
pub(crate) fn no_records(store: &'static str, operation: Operation) -> Error {
    let message = format!(
        "semaphores and read-write locks need a store that keeps records and has a clock, and this one keeps no records; {OTHER_STORE}"
    );
    Error::new(ErrorKind::Unsupported, store, operation, message)
}

/// Returns the error of a store whose clients cannot ask for its time.
pub(super) fn no_time(store: &'static str, operation: Operation) -> Error {
    let message = format!(
        "semaphores and read-write locks need a store that keeps records and has a clock, and this one has no clock that its clients can \
         ask; {OTHER_STORE}"
    );
    Error::new(ErrorKind::Unsupported, store, operation, message)
}

/// Returns the error of a record that cannot be read.
pub(super) fn unreadable(
    store: &'static str,
    operation: Operation,
    name: &LockName,
    why: &Unreadable,
) -> Error {
    let message = match why {
        Unreadable::Newer(layout) => format!(
            "the record of {name} was written by a newer version of fencepost (layout {layout}); upgrade this program"
        ),
        Unreadable::Line(line) => format!(
            "the record of {name} is not one of a semaphore or read-write lock (line {line}); has another program written it?"
        ),
    };
    Error::new(ErrorKind::Unusable, store, operation, message)
}

/// Returns the error of a replacement that others were faster with, again and again.
pub(super) fn too_contended(store: &'static str, operation: Operation, name: &LockName) -> Error {
    let message = format!(
        "others kept changing the record of {name}; try again later, or spread the load over several names"
    );
    Error::new(ErrorKind::Unavailable, store, operation, message)
}

/// Returns the error of a request that can never be granted.
pub(super) fn impossible(
    store: &'static str,
    operation: Operation,
    name: &LockName,
    why: Impossible,
) -> Error {
    let (kind, message) = match why {
        Impossible::OtherKind(capacity) => {
            let kind = match capacity {
                Capacity::Permits(_) => "semaphore",
                Capacity::ReadWrite => "read-write lock",
            };
            let message = format!("{name} is a {kind} already; choose another name");
            (ErrorKind::InvalidInput, message)
        }
        Impossible::TooMany { wanted, permits } => {
            let message =
                format!("{wanted} permits of {name} can never be had: there are only {permits}");
            (ErrorKind::InvalidInput, message)
        }
        Impossible::Nothing => {
            let message = format!("zero permits of {name}: there must be at least one");
            (ErrorKind::InvalidInput, message)
        }
        Impossible::Whole => {
            let message = "a semaphore or a read-write lock is not taken as a whole";
            (ErrorKind::Internal, message.to_owned())
        }
        Impossible::NotWriting => {
            let message = format!("the lock {name} is lost: it was no longer held for writing");
            (ErrorKind::Lost, message)
        }
    };
    Error::new(kind, store, operation, message)
}
