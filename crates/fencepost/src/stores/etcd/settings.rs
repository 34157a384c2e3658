//! The settings of an [`Etcd`](super::Etcd).

use std::time::Duration;

/// The settings of the builder.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) connect_timeout: Duration,
    pub(super) max_outage: Duration,
}
