//! The tables: what they are called, and how they are made.

use sha2::{Digest, Sha256};

use super::failure;
use crate::error::Result;
use crate::fence::Fence;

/// What ShedLock calls its table.
pub(super) const USUAL: &str = "shedlock";
/// Longer names of tables would not leave room for the ending of ours in the 63 bytes that Postgres keeps of a name.
const LONGEST: usize = 57;

/// A table of locks, with two of ours beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tables {
    /// `None`: wherever the server's search path finds it.
    schema: Option<String>,
    table: String,
}

impl Tables {
    /// Reads `TABLE` or `SCHEMA.TABLE`, as Postgres stores them: what was created without quotes is in small letters.
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

    /// The same tables, where they were found or are to be made.
    pub(super) fn within(&self, schema: &str) -> Self {
        Self {
            schema: Some(schema.to_owned()),
            table: self.table.clone(),
        }
    }

    pub(super) fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// ShedLock's: a row per lock, held until `lock_until`. Rows are never deleted: a client of ShedLock that has seen a row once
    /// only updates it from then on.
    pub(super) fn locks(&self) -> String {
        self.quoted("")
    }

    /// Ours: the last epoch of a lock, and whose it was. Outlives the row of the lock.
    pub(super) fn fence(&self) -> String {
        self.quoted("_fence")
    }

    /// Ours: who waits, by ticket.
    pub(super) fn line(&self) -> String {
        self.quoted("_line")
    }

    /// Where the first in line is told that the lock is free.
    pub(super) fn channel(&self) -> String {
        let schema = self.schema.as_deref().unwrap_or_default();
        format!(
            "fencepost_{}",
            &digest(&format!("{schema}.{}", self.table))[..16]
        )
    }

    fn quoted(&self, ending: &str) -> String {
        let table = quote(&format!("{}{ending}", self.table));
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

    /// An epoch that no fence can carry is refused by the table itself, and with it the grant.
    pub(super) fn create_fence(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {} (name varchar(64) NOT NULL PRIMARY KEY, lock text NOT NULL, \
             epoch bigint NOT NULL CHECK (epoch > 0 AND epoch < {}), owner text NOT NULL, since timestamp(3) NOT NULL);",
            self.fence(),
            Fence::EPOCH_END
        )
    }

    /// Unlogged: after a crash of the server those who wait come back by themselves, with the tickets they had. That is also why a ticket
    /// is no key.
    pub(super) fn create_line(&self) -> String {
        format!(
            "CREATE UNLOGGED TABLE IF NOT EXISTS {} (name varchar(64) NOT NULL, owner text NOT NULL, \
             ticket bigint NOT NULL, lock text NOT NULL, label text NOT NULL, \
             joined timestamp(3) NOT NULL, PRIMARY KEY (name, owner));",
            self.line()
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

/// As an identifier in a statement, whatever is in it.
fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// SHA-256 in hexadecimal digits.
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
