//! [`Error`]: what failed, where, and whether it may have taken effect nevertheless.
//!
//! A busy lock is never an error in this crate: it is `Ok(None)`.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of a failure, which decides what a caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller passed something that can never work, such as an invalid name or a TTL out of range.
    InvalidInput,
    /// The store cannot be reached or does not serve requests now. Trying again later may work.
    Unavailable,
    /// The store did not answer in time. Trying again later may work.
    Timeout,
    /// The store answers, but cannot hold locks: it is not a database, read-only, full, or on a network file system. Somebody has to repair
    /// it.
    Unusable,
    /// The store can never do this, whatever its settings. Another store can.
    Unsupported,
    /// The lock of the operation is no longer held.
    Lost,
    /// The [`Locker`](crate::Locker) was shut down.
    Closed,
    /// A function that acquires or extends a lock was called outside a Tokio runtime, or a blocking function inside an async runtime.
    WrongContext,
    /// The store's fence counter left the range of a [`Fence`](crate::Fence). The lock is refused, because its fence could repeat.
    FenceExhausted,
    /// The backend broke its own contract.
    Internal,
}

/// Whether a failed operation may have changed the store.
///
/// The variants are complete on purpose: a new one would be a breaking change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing was changed.
    None,
    /// The request may have been executed: its answer was lost.
    Maybe,
}

/// What the crate was doing when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Opening or connecting to the store.
    Open,
    /// Acquiring a lock, with or without waiting.
    Acquire,
    /// Extending a lease.
    Renew,
    /// Releasing a lock, or leaving its waiting line.
    Release,
    /// Reading the state of a lock, or listing locks, without changing them.
    Inspect,
    /// Reading a record that the store keeps beside its locks, or listing such records.
    ReadRecord,
    /// Replacing such a record.
    ReplaceRecord,
    /// Reading or writing through a fenced resource.
    Resource,
    /// Building a value from the caller's input.
    Configure,
}

/// A failed operation: its kind, store, operation, effect and cause.
///
/// Cheap to clone, because every task that waits in one line gets the same error.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    /// `None` if no store was involved.
    store: Option<&'static str>,
    operation: Operation,
    effect: Effect,
    message: Cow<'static, str>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Creates an error without a source and without an effect on the store.
    pub fn new(
        kind: ErrorKind,
        store: &'static str,
        operation: Operation,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::create(kind, Some(store), operation, message.into())
    }

    fn create(
        kind: ErrorKind,
        store: Option<&'static str>,
        operation: Operation,
        message: Cow<'static, str>,
    ) -> Self {
        Self(Arc::new(Inner {
            kind,
            store,
            operation,
            effect: Effect::None,
            message,
            source: None,
        }))
    }

    /// Creates the error for an argument that never reached a store.
    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of_no_store(Operation::Configure, message)
    }

    /// Creates the error for an operation with an argument that names no store.
    pub(crate) fn of_no_store(operation: Operation, message: impl Into<Cow<'static, str>>) -> Self {
        Self::create(ErrorKind::InvalidInput, None, operation, message.into())
    }

    /// Creates the error for an address or settings with which a store can never be opened.
    pub(crate) fn invalid_settings(
        store: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::new(ErrorKind::InvalidInput, store, Operation::Open, message)
    }

    /// Creates the error for an answer that the store never gives to such a request.
    #[cfg(any(feature = "redis", feature = "postgres", feature = "etcd"))]
    pub(crate) fn unexpected_answer(
        store: &'static str,
        operation: Operation,
        what: impl fmt::Display,
    ) -> Self {
        let message = format!("an unexpected answer: {what}; is there a proxy in between?");
        Self::new(ErrorKind::Unusable, store, operation, message).with_effect(Effect::Maybe)
    }

    /// Sets the effect of this error.
    #[must_use]
    pub fn with_effect(self, effect: Effect) -> Self {
        self.map(|inner| inner.effect = effect)
    }

    /// Sets the source of this error.
    #[must_use]
    pub fn with_source(self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let source = Arc::from(source.into());
        self.map(|inner| inner.source = Some(source))
    }

    /// Sets what the crate was doing, for a request that is a part of something larger.
    pub(crate) fn during(self, operation: Operation) -> Self {
        self.map(|inner| inner.operation = operation)
    }

    /// Changes this error, but not the errors that it was cloned from.
    fn map(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns whether the same request may succeed later without anybody repairing anything. It judges by the kind alone; a store may also
    /// repeat requests that failed for another reason, for instance because a failover is under way.
    ///
    /// ```
    /// use fencepost::{Error, ErrorKind, Operation};
    ///
    /// let error = |kind| Error::new(kind, "my store", Operation::Acquire, "told to fail");
    /// assert!(error(ErrorKind::Unavailable).is_transient());
    /// assert!(error(ErrorKind::Timeout).is_transient());
    /// assert!(!error(ErrorKind::Unusable).is_transient());
    /// ```
    pub fn is_transient(&self) -> bool {
        matches!(self.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
    }

    /// Returns the store, as [`Backend::store_name`](crate::Backend::store_name) names it, or `"postgres_transaction"` for locks of `pg_tx`.
    /// Returns `None` for arguments that never reached a store.
    pub fn store(&self) -> Option<&'static str> {
        self.0.store
    }

    /// Returns the operation that failed.
    pub fn operation(&self) -> Operation {
        self.0.operation
    }

    /// Returns what went wrong, without the store, the operation and the effect, for callers that format these themselves.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns whether the operation may have changed the store although it failed.
    pub fn effect(&self) -> Effect {
        self.0.effect
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            store,
            operation,
            message,
            ..
        } = &*self.0;
        if *operation == Operation::Configure {
            return f.write_str(message);
        }
        if let Some(store) = store {
            write!(f, "{store}: ")?;
        }
        write!(f, "{operation}: {message}")?;
        if self.0.effect == Effect::Maybe {
            f.write_str(" (it may have taken effect)")?;
        }
        Ok(())
    }
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Inspect => "inspect",
            Self::ReadRecord => "read record",
            Self::ReplaceRecord => "replace record",
            Self::Resource => "fenced resource",
            Self::Configure => "configure",
        })
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("store", &self.0.store)
            .field("operation", &self.0.operation)
            .field("effect", &self.0.effect)
            .field("message", &self.0.message)
            .field("source", &self.0.source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.source {
            Some(source) => Some(&**source),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_store_operation_and_effect() {
        let error = Error::new(
            ErrorKind::Timeout,
            "sqlite",
            Operation::Acquire,
            "no answer for 5 s",
        )
        .with_effect(Effect::Maybe)
        .with_source(std::io::Error::other("underneath"));
        assert_eq!(
            error.to_string(),
            "sqlite: acquire: no answer for 5 s (it may have taken effect)"
        );
        assert_eq!(error.store(), Some("sqlite"));
        assert_eq!(error.effect(), Effect::Maybe);
        let source = std::error::Error::source(&error).unwrap();
        assert_eq!(source.to_string(), "underneath");
    }

    #[test]
    fn an_argument_that_never_reached_a_store_names_none() {
        let error = Error::invalid("no names: at least one is needed");
        assert_eq!(error.store(), None);
        assert_eq!(error.to_string(), "no names: at least one is needed");
        let error = Error::of_no_store(Operation::Open, "not a store address");
        assert_eq!(error.store(), None);
        assert_eq!(error.to_string(), "open: not a store address");
    }

    #[test]
    fn an_error_is_transient_unless_somebody_has_to_do_something() {
        use ErrorKind::*;
        let is_transient = |kind: &ErrorKind| {
            Error::new(*kind, "sqlite", Operation::Acquire, "told to fail").is_transient()
        };
        let transient = [Unavailable, Timeout];
        assert!(transient.iter().all(is_transient));
        let others = [
            InvalidInput,
            Unusable,
            Unsupported,
            Lost,
            Closed,
            WrongContext,
            FenceExhausted,
            Internal,
        ];
        assert!(!others.iter().any(is_transient));
    }

    #[test]
    fn an_error_that_others_have_too_can_be_changed() {
        let original = Error::new(ErrorKind::Timeout, "sqlite", Operation::Renew, "no answer");
        let changed = original.clone().with_effect(Effect::Maybe);
        let changed = changed.with_source(std::io::Error::other("underneath"));
        assert_eq!(changed.effect(), Effect::Maybe);
        assert!(std::error::Error::source(&changed).is_some());
        assert_eq!(original.effect(), Effect::None);
        assert!(std::error::Error::source(&original).is_none());
    }
}
