//! The names of the tables, and the statements that create them.

use sha2::{Digest, Sha256};

use super::failure;
use crate::error::Result;
use crate::fence::Fence;

/// The usual name of ShedLock's table.
pub(super) const USUAL: &str = "shedlock";
/// The longest table name. Postgres keeps 63 bytes of a name, and the suffixes of our tables need some of them.
const LONGEST: usize = 57;

/// What Postgres keeps of a name, in bytes.
const KEPT_OF_A_NAME: usize = 63;

/// A table of locks, and our tables that belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tables {
    /// The schema, or `None` for the one where the server's search path finds the table.
    schema: Option<String>,
    table: String,
}

impl Tables {
    /// Parses `TABLE` or `SCHEMA.TABLE`, as Postgres stores them: names created without quotes are in lower case.
    pub(super) fn read(text: &str) -> Result<Self> {
        let (schema, table) = match text.split_once('.') {
            Some((schema, table)) => (Some(schema), table),
            None => (None, text),
        };
        let parts = schema.into_iter().chain([table]);
        for part in parts {
            if part.is_empty() || part.len() > LONGEST || part.contains(['\0', '.', '{', '}']) {
                return Err(failure::no_name_of_a_table(text, LONGEST));
            }
        }
        Ok(Self {
            schema: schema.map(str::to_owned),
            table: table.to_owned(),
        })
    }

    /// Returns the same tables in the schema where they were found or will be created.
    pub(super) fn within(&self, schema: &str) -> Self {
        Self {
            schema: Some(schema.to_owned()),
            table: self.table.clone(),
        }
    }

    pub(super) fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// Returns ShedLock's table: a row per lock, held until `lock_until`. Rows are never deleted, because a client of ShedLock that has
    /// seen a row once only updates it from then on.
    pub(super) fn locks(&self) -> String {
        self.quoted("")
    }

    /// Returns our table of fences: the last epoch of a lock, and its owner. It survives the row of the lock.
    pub(super) fn fence(&self) -> String {
        self.quoted("_fence")
    }

    /// Returns our table of waiters, by ticket.
    pub(super) fn line(&self) -> String {
        self.quoted("_line")
    }

    /// Returns our table of records. If the name of the first table is one of the longest, Postgres cuts off the last letter of this one.
    pub(super) fn record(&self) -> String {
        self.quoted("_record")
    }

    /// Returns the channel on which the first waiter is notified that the lock is free.
    pub(super) fn channel(&self) -> String {
        let schema = self.schema.as_deref().unwrap_or_default();
        format!(
            "fencepost_{}",
            &digest(&format!("{schema}.{}", self.table))[..16]
        )
    }

    fn quoted(&self, ending: &str) -> String {
        let mut table = format!("{}{ending}", self.table);
        table.truncate(KEPT_OF_A_NAME);
        let table = quote(&table);
        match &self.schema {
            Some(schema) => format!("{}.{table}", quote(schema)),
            None => table,
        }
    }

    pub(super) fn create_locks(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {} (name varchar(64) NOT NULL PRIMARY KEY, lock_until timestamp(3) NOT NULL, \
             locked_at timestamp(3) NOT NULL, locked_by varchar(255) NOT NULL);",
            self.locks()
        )
    }

    /// Creates the table of fences. The table itself refuses an epoch that a fence cannot carry, and with it the grant.
    pub(super) fn create_fence(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {} (name varchar(64) NOT NULL PRIMARY KEY, lock text NOT NULL, \
             epoch bigint NOT NULL CHECK (epoch > 0 AND epoch < {}), owner text NOT NULL, since timestamp(3) NOT NULL);",
            self.fence(),
            Fence::EPOCH_END
        )
    }

    /// Creates the table of waiters. It is unlogged: after a crash of the server, waiters come back by themselves with their old tickets.
    /// That is also why a ticket is not a key.
    pub(super) fn create_line(&self) -> String {
        format!(
            "CREATE UNLOGGED TABLE IF NOT EXISTS {} (name varchar(64) NOT NULL, owner text NOT NULL, \
             ticket bigint NOT NULL, lock text NOT NULL, label text NOT NULL, \
             joined timestamp(3) NOT NULL, PRIMARY KEY (name, owner));",
            self.line()
        )
    }

    /// Creates the table of records. It is logged, because it says who holds what.
    pub(super) fn create_record(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {} (kind text NOT NULL, name text NOT NULL, value bytea NOT NULL, version bytea NOT NULL, \
             PRIMARY KEY (kind, name));",
            self.record()
        )
    }
}

impl std::fmt::Display for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "{schema}.{}", self.table),
            None => f.write_str(&self.table),
        }
    }
}

/// Quotes a name as an identifier, whatever it contains.
fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns the SHA-256 in hexadecimal digits.
pub(super) fn digest(text: &str) -> String {
    let bytes = Sha256::digest(text.as_bytes());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables_become_identifiers_and_nothing_else() {
        let tables = Tables::read("shop.locks\" (x int); --").unwrap();
        assert_eq!(tables.locks(), r#""shop"."locks"" (x int); --""#);
        assert_eq!(tables.fence(), r#""shop"."locks"" (x int); --_fence""#);
        assert_eq!(
            Tables::read("shedlock").unwrap().line(),
            r#""shedlock_line""#
        );
        let longest = Tables::read(&"x".repeat(57)).unwrap();
        assert_eq!(longest.record(), format!("\"{}_recor\"", "x".repeat(57)));
        for text in ["", ".", "a.", ".a", "a.b.c", &"x".repeat(58), "a\0b"] {
            assert!(Tables::read(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn every_table_has_a_channel_of_its_own() {
        let one = Tables::read("shedlock").unwrap();
        let other = one.within("shop");
        assert_ne!(one.channel(), other.channel());
        assert!(other.channel().len() <= 63);
    }
}
