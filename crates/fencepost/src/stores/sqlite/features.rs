//! Files of older programs lack tables and columns that those of this one have: which there are, and how to read without the others.

/// Which of the tables and columns the file has. Files that were opened to lock have all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TableFeatures {
    pub(super) has_tables: bool,
    pub(super) has_ttl: bool,
    pub(super) has_joined: bool,
    pub(super) has_records: bool,
}

impl TableFeatures {
    pub(super) const ALL: Self = Self {
        has_tables: true,
        has_ttl: true,
        has_joined: true,
        has_records: true,
    };
    pub(super) const NONE: Self = Self {
        has_tables: false,
        has_ttl: false,
        has_joined: false,
        has_records: false,
    };

    /// Returns the query for the holders.
    pub(super) fn holders(self, condition: &str) -> String {
        let ttl = if self.has_ttl { "ttl_ns" } else { "0" };
        format!(
            "SELECT name, owner, label, epoch, acquired_ns, expires_ns, {ttl} FROM fencepost_lock WHERE {condition}"
        )
    }

    /// Returns the query for the waiters, in order.
    pub(super) fn lines(self, condition: &str) -> String {
        let joined = if self.has_joined { "joined_ns" } else { "0" };
        format!(
            "SELECT name, label, {joined} FROM fencepost_line WHERE {condition} ORDER BY ticket"
        )
    }
}
