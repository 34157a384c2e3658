//! The tables, their version, and what the first program after a boot changes in them.

use std::time::SystemTime;

use rusqlite::{OptionalExtension, params};

use super::columns::to_sql;
use super::failure::{Failure, Result};
use super::features::TableFeatures;
use super::session::{Database, set_synchronous};
use super::settings::Settings;
use crate::fence::{Fence, epoch_of_time};

/// The version of the tables that this program creates and understands.
///
/// Version 1 has the same tables, but a new file's counter started at the time in units that were eight times as long. Upgrading lifts the
/// counter to the time in units of version 2. A program of version 1 refuses to open a file of version 2. One that already has the file
/// open continues with the same counter, so its epochs and ours grow together.
const VERSION: i64 = 2;
const COARSER_VERSION: i64 = 1;

/// All times are nanoseconds since the boot whose identity is stored beside them.
///
/// A lock row with an empty owner has been free since `expires_ns`, and is kept because somebody waits. With `AUTOINCREMENT`, a ticket
/// number is never used twice, so a waiter can put its ticket back.
const TABLES: &str = "
CREATE TABLE fencepost_meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE fencepost_fence (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    epoch INTEGER NOT NULL,
    boot TEXT NOT NULL
);
CREATE TABLE fencepost_lock (
    name TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    label TEXT NOT NULL,
    boot TEXT NOT NULL,
    acquired_ns INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    ttl_ns INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE fencepost_line (
    ticket INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    label TEXT NOT NULL,
    boot TEXT NOT NULL,
    joined_ns INTEGER NOT NULL DEFAULT 0,
    UNIQUE (name, owner)
);
CREATE INDEX fencepost_line_order ON fencepost_line (name, ticket);
";

/// Values of other kinds of lock, which files of earlier programs lack. A program without records does not look at this table. It raises
/// the same counter as one with records, at grants and after a boot.
const RECORDS: &str = "
CREATE TABLE IF NOT EXISTS fencepost_record (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    version BLOB NOT NULL,
    PRIMARY KEY (kind, name)
);
";

/// Columns for people that files of earlier programs lack: how long a lease was when it was last extended, and since when a ticket exists.
/// Those programs continue to write zero, which means unknown.
const LATER_COLUMNS: [(&str, &str); 2] = [
    ("fencepost_lock", "ttl_ns"),
    ("fencepost_line", "joined_ns"),
];

/// How much a power cut can take from the fence counter at most: the commits since SQLite last synced the file, which it does about every
/// thousand pages.
const EPOCHS_LOST_AT_MOST: i64 = 1_000_000;

/// A lock that has been free for this long, in nanoseconds, has no waiter that is awake.
const ABANDONED_NS: i64 = 3600 * 1_000_000_000;

impl Database {
    /// Creates the tables if they do not exist, and voids what is left of an earlier boot.
    pub(super) fn prepare(&self, settings: &Settings) -> Result<()> {
        if self.version()?.is_none() {
            self.durably(|| self.create(settings))?;
        }
        if self.version()? == Some(COARSER_VERSION) {
            self.durably(|| self.upgrade())?;
        }
        match self.version()? {
            Some(VERSION) => {}
            Some(version) => return Err(of_another_version(version, settings)),
            None => return Err(rusqlite::Error::QueryReturnedNoRows.into()),
        }
        for (table, column) in LATER_COLUMNS {
            if !self.has_column(table, column)? {
                self.add_column(table, column)?;
            }
        }
        if !self.has_table("fencepost_record")? {
            self.write(|connection, _| Ok(connection.execute_batch(RECORDS)?))?;
        }
        if self.fence_boot()? != self.boot {
            self.durably(|| self.begin_boot())?;
        }
        self.sweep()
    }

    /// Returns which tables and columns exist, without changing anything.
    pub(super) fn table_features(&self, settings: &Settings) -> Result<TableFeatures> {
        match self.version()? {
            None => Ok(TableFeatures::NONE),
            Some(VERSION | COARSER_VERSION) => {
                let [(locks, ttl), (line, joined)] = LATER_COLUMNS;
                Ok(TableFeatures {
                    has_tables: true,
                    has_ttl: self.has_column(locks, ttl)?,
                    has_joined: self.has_column(line, joined)?,
                    has_records: self.has_table("fencepost_record")?,
                })
            }
            Some(version) => Err(of_another_version(version, settings)),
        }
    }

    pub(super) fn version(&self) -> Result<Option<i64>> {
        const VERSION: &str = "SELECT value FROM fencepost_meta WHERE key = 'version'";
        if !self.has_table("fencepost_meta")? {
            return Ok(None);
        }
        let version = self.connection.query_row(VERSION, [], |row| row.get(0));
        Ok(Some(version?))
    }

    fn create(&self, settings: &Settings) -> Result<()> {
        self.write(|connection, _| {
            // Another program may have been faster.
            if self.version()?.is_some() {
                return Ok(());
            }
            connection.execute_batch(TABLES)?;
            connection.execute_batch(RECORDS)?;
            connection.execute(
                "INSERT INTO fencepost_meta (key, value) VALUES ('version', ?1)",
                [VERSION],
            )?;
            connection.execute(
                "INSERT INTO fencepost_fence (id, epoch, boot) VALUES (1, ?1, ?2)",
                params![counter_of_a_new_file(settings.first_epoch), self.boot],
            )?;
            Ok(())
        })
    }

    /// Upgrades a file of version 1 to version 2.
    fn upgrade(&self) -> Result<()> {
        self.write(|connection, _| {
            // Another program may have been faster.
            if self.version()? != Some(COARSER_VERSION) {
                return Ok(());
            }
            connection.execute(
                "UPDATE fencepost_fence SET epoch = max(epoch, ?1) WHERE id = 1",
                [counter_of_a_new_file(None)],
            )?;
            connection.execute(
                "UPDATE fencepost_meta SET value = ?1 WHERE key = 'version'",
                [VERSION],
            )?;
            Ok(())
        })
    }

    fn has_table(&self, table: &str) -> Result<bool> {
        const SQL: &str = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
        let count: i64 = self.connection.query_row(SQL, [table], |row| row.get(0))?;
        Ok(count > 0)
    }

    fn has_column(&self, table: &str, column: &str) -> Result<bool> {
        const SQL: &str = "SELECT count(*) FROM pragma_table_info(?1) WHERE name = ?2";
        let mut statement = self.connection.prepare_cached(SQL)?;
        let count: i64 = statement.query_row([table, column], |row| row.get(0))?;
        Ok(count > 0)
    }

    fn add_column(&self, table: &str, column: &str) -> Result<()> {
        self.write(|connection, _| {
            // Another program may have been faster.
            if !self.has_column(table, column)? {
                connection.execute_batch(&format!(
                    "ALTER TABLE {table} ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0"
                ))?;
            }
            Ok(())
        })
    }

    fn fence_boot(&self) -> Result<String> {
        const SQL: &str = "SELECT boot FROM fencepost_fence WHERE id = 1";
        Ok(self.connection.query_row(SQL, [], |row| row.get(0))?)
    }

    fn begin_boot(&self) -> Result<()> {
        let raised = self.write(|connection, _| {
            let raised = connection.execute(
                "UPDATE fencepost_fence SET epoch = epoch + ?1, boot = ?2 WHERE boot <> ?2",
                params![EPOCHS_LOST_AT_MOST, self.boot],
            )?;
            connection.execute("DELETE FROM fencepost_lock WHERE boot <> ?1", [&self.boot])?;
            connection.execute("DELETE FROM fencepost_line WHERE boot <> ?1", [&self.boot])?;
            Ok(raised)
        })?;
        if raised > 0 {
            tracing::debug!(
                "the machine was booted: locks of before are void, the fence was raised"
            );
        }
        Ok(())
    }

    /// Removes names whose holder and waiters died long ago. Otherwise a program that names a lock after each order, and crashes now and
    /// then, would fill the file.
    fn sweep(&self) -> Result<()> {
        const ANY: &str = "SELECT name FROM fencepost_lock WHERE expires_ns < ?1 LIMIT 1";
        let now = to_sql(self.now());
        let before = now.saturating_sub(ABANDONED_NS);
        let any: Option<String> = self
            .connection
            .query_row(ANY, [before], |row| row.get(0))
            .optional()?;
        if any.is_none() {
            return Ok(());
        }
        self.write(|connection, _| {
            connection.execute(
                "DELETE FROM fencepost_line WHERE name IN (SELECT name FROM fencepost_lock WHERE expires_ns < ?1)",
                [before],
            )?;
            connection.execute("DELETE FROM fencepost_lock WHERE expires_ns < ?1", [before])?;
            Ok(())
        })
    }

    /// Executes `work` so that not even a power cut undoes it.
    ///
    /// Without this, two power cuts in a row would repeat epochs: the second boot would add to the counter from before the first one.
    fn durably<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        set_synchronous(&self.connection, "FULL")?;
        let done = work();
        set_synchronous(&self.connection, "NORMAL")?;
        done
    }
}

fn of_another_version(version: i64, settings: &Settings) -> Failure {
    Failure::Unusable(format!(
        "the locks in {:?} were made by another version of this program (tables of version {version}, this \
         one knows {VERSION}): use that version everywhere, or give another path",
        settings.path
    ))
}

/// Returns the start value of the counter, which contains the last epoch that was granted.
fn counter_of_a_new_file(first_epoch: Option<u64>) -> i64 {
    let last = match first_epoch {
        Some(first) => first.saturating_sub(1).min(Fence::EPOCH_END),
        None => epoch_of_time(SystemTime::now()),
    };
    // The value is at most 2^47.
    last as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_starts_below_the_first_epoch_that_was_asked_for() {
        assert_eq!(counter_of_a_new_file(Some(0)), 0);
        assert_eq!(counter_of_a_new_file(Some(42)), 41);
        assert_eq!(counter_of_a_new_file(Some(u64::MAX)), 1 << 47);
    }
}
