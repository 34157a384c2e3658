//! What the tests need of this store.

use std::sync::atomic::Ordering;

use super::PostgresTable;

impl PostgresTable {
    /// How many statements were sent to the server: one for each attempt, place in line and renewal, two for a release. What connecting
    /// takes is not counted.
    pub fn statements_sent(&self) -> u64 {
        self.hub.sent.load(Ordering::Relaxed)
    }
}
