//! [`Settings`], which the builder passes on to the store.

use std::time::Duration;

use super::fence::Source;

/// The settings of a [`Postgres`](super::Postgres).
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) connect_timeout: Duration,
    pub(super) max_connections: usize,
    pub(super) idle_timeout: Duration,
    pub(super) max_outage: Duration,
    pub(super) requeue_after: Duration,
    pub(super) source: Source,
    /// Whether the store only looks at locks and releases them, so that it needs no fences.
    pub(super) only_to_release: bool,
}
