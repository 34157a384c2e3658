//! [`Settings`], which the builder passes on to the store.

use std::time::Duration;

/// The settings of a [`Redlock`](super::Redlock).
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// How long one server may take to answer, unless the TTL is short.
    pub(super) server_timeout: Duration,
    pub(super) max_outage: Duration,
    pub(super) restart_delay: Duration,
    /// How long a counter is kept after its last use.
    pub(super) keep_fences: Duration,
}
