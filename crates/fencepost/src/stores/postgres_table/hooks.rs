//! What the tests need from the store of leases in a table, beyond the public API.

use std::sync::atomic::Ordering;

use super::PostgresTable;

impl PostgresTable {
    /// Returns how many statements were sent to the server: one for each attempt, place in line and renewal, two for a release. Statements
    /// for connecting do not count.
    pub fn statements_sent(&self) -> u64 {
        self.hub.sent.load(Ordering::Relaxed)
    }
}
