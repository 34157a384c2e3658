//! Why a server cannot be used, and how often and how long each kind of store asks before it says so.

use std::time::Duration;

/// How long to wait before asking again.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// The timeout of each attempt, including the last. It is long enough to report that nobody listens, rather than a timeout.
pub(super) const ATTEMPT: Duration = Duration::from_secs(1);

/// Why a server cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReached {
    /// Nobody answers at the address. Contains the system's message.
    Silent(String),
    /// A server answers, but not as expected: a password is missing, or it is a different kind of server.
    Refuses(String),
}
