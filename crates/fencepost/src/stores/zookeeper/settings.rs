//! [`Settings`], which the builder passes on to the store.

use std::time::Duration;

/// The settings of a [`Zookeeper`](super::Zookeeper).
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) session_timeout: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) max_outage: Duration,
}
