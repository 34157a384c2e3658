//! [`Settings`], which the builder passes on to the store.

use std::time::Duration;

/// The settings of an [`Etcd`](super::Etcd).
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) connect_timeout: Duration,
    pub(super) max_outage: Duration,
}
