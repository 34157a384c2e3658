//! The settings of a [`PostgresTable`](super::PostgresTable).

use std::time::Duration;

use super::tables::Tables;

/// The settings of the builder.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) connect_timeout: Duration,
    pub(super) max_outage: Duration,
    pub(super) tables: Tables,
    pub(super) create: bool,
}
