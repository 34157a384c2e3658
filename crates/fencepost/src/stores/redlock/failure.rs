//! Combines the errors of several servers into one error that a caller can act on.

use super::STORE;
use crate::error::{Effect, Error, ErrorKind, Operation};

/// The errors of the servers that could not be asked.
pub(super) struct Failures {
    operation: Operation,
    servers: usize,
    needed: usize,
    /// The errors, each with the address of its server.
    all: Vec<(String, Error)>,
}

impl Failures {
    pub(super) fn new(operation: Operation, servers: usize, needed: usize) -> Self {
        Self {
            operation,
            servers,
            needed,
            all: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, address: &str, error: Error) {
        self.all.push((address.to_owned(), error));
    }

    /// Returns the error for a majority that could not be asked.
    pub(super) fn into_error(self) -> Error {
        let said: Vec<String> = self
            .all
            .iter()
            .map(|(address, error)| format!("{address}: {}", error.message()))
            .collect();
        let (failed, servers, needed) = (self.all.len(), self.servers, self.needed);
        let message = format!(
            "{failed} of {servers} servers cannot be asked, and {needed} must agree: {}",
            said.join("; ")
        );
        let kind = if self.all.iter().any(|(_, error)| error.is_transient()) {
            ErrorKind::Unavailable
        } else {
            ErrorKind::Unusable
        };
        let is_open = self
            .all
            .iter()
            .any(|(_, error)| error.effect() == Effect::Maybe);
        let error = Error::new(kind, STORE, self.operation, message);
        let error = if is_open {
            error.with_effect(Effect::Maybe)
        } else {
            error
        };
        match self.all.into_iter().next() {
            Some((_, cause)) => error.with_source(cause),
            None => error,
        }
    }
}

/// Returns the error for a server that did not answer in time.
pub(super) fn unanswered(operation: Operation) -> Error {
    Error::new(ErrorKind::Timeout, STORE, operation, "no answer in time").with_effect(Effect::Maybe)
}

/// Returns the error for a server that was started too recently to know what was locked before.
pub(super) fn young(up_seconds: i64) -> Error {
    let message =
        format!("up for {up_seconds} s only: it may have forgotten locks, and does not vote yet");
    Error::new(ErrorKind::Unavailable, STORE, Operation::Acquire, message)
}

/// Returns the error for a majority that answered so late that the lease is practically over.
pub(super) fn too_slow() -> Error {
    let message = "the servers took longer to agree than the lease is valid; a longer TTL helps, or faster servers";
    Error::new(ErrorKind::Timeout, STORE, Operation::Acquire, message).with_effect(Effect::Maybe)
}

/// Returns the error for settings that can never work.
pub(super) fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::invalid_settings(STORE, message)
}

/// Returns the error for a server that answers, but in a way that waiting will not fix.
pub(super) fn at(address: &str, error: &Error) -> Error {
    let message = format!("{address}: {}", error.message());
    Error::new(error.kind(), STORE, error.operation(), message).with_source(error.clone())
}

/// Returns the error for two addresses of the same server.
pub(super) fn twice(address: &str, other: &str) -> Error {
    invalid(format!(
        "{address} and {other} are the same server, which would vote twice"
    ))
}

/// Returns the error for a server that is a replica of another.
pub(super) fn replica() -> Error {
    let message = "is a replica, and takes no votes; Redlock needs independent servers";
    Error::new(ErrorKind::Unusable, STORE, Operation::Open, message)
}

/// Returns the same error with the name of this store.
pub(super) fn ours(error: &Error) -> Error {
    Error::new(
        error.kind(),
        STORE,
        error.operation(),
        error.message().to_owned(),
    )
    .with_effect(error.effect())
    .with_source(error.clone())
}
