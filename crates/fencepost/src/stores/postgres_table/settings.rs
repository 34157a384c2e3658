//! [`Settings`], which the builder passes on to the store.

use std::time::Duration;

use super::tables::Tables;

/// The settings of a [`PostgresTable`](super::PostgresTable).
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) connect_timeout: Duration,
    pub(super) max_outage: Duration,
    pub(super) tables: Tables,
    pub(super) create: bool,
}
