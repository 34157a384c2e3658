//! The statements of one uncontended acquire and release, with nothing around them: the same text, order and pragmas, prepared once, in the
//! same transactions, with the same parameters.
//!
//! Only the library does the following, so only it pays for it: the check after each transaction that the path still leads to the same
//! file, random owners, decisions about the meaning of rows, deadlines, errors, telemetry.

use std::path::Path;

use fencepost::clock::{BootClock, Clock};
use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, named_params, params};

const STATE: &str = "
SELECT held.owner, held.expires_ns, held.epoch, mine.ticket, mine.joined_ns,
       (SELECT count(*) FROM fencepost_line AS other
        WHERE other.name = :name AND other.boot = :boot
          AND other.ticket < coalesce(mine.ticket, 9223372036854775807))
FROM (SELECT 1)
LEFT JOIN fencepost_lock AS held ON held.name = :name AND held.boot = :boot
LEFT JOIN fencepost_line AS mine ON mine.name = :name AND mine.boot = :boot AND mine.owner = :owner";

const RAISE_EPOCH: &str = "UPDATE fencepost_fence SET epoch = epoch + 1 WHERE id = 1";
const EPOCH: &str = "SELECT epoch FROM fencepost_fence WHERE id = 1";

const SET_LOCK: &str = "
INSERT OR REPLACE INTO fencepost_lock (name, owner, label, boot, acquired_ns, expires_ns, epoch, ttl_ns)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

const LEAVE_LINE: &str = "DELETE FROM fencepost_line WHERE name = ?1 AND owner = ?2";

const SOMEBODY_WAITS: &str =
    "SELECT EXISTS (SELECT 1 FROM fencepost_line WHERE name = ?1 AND boot = ?2)";

const DELETE_LOCK: &str = "DELETE FROM fencepost_lock WHERE name = ?1";

const LABEL: &str = "host:12345";
const TTL_NS: i64 = 10_000_000_000;

/// Stops a benchmark that would compare with outdated statements.
///
/// # Panics
/// Panics if a statement here is not in the library's source, word for word.
pub(crate) fn are_those_of_the_library() {
    const SOURCE: &str = include_str!("../../src/stores/sqlite/requests.rs");
    for statement in [
        STATE,
        RAISE_EPOCH,
        EPOCH,
        SET_LOCK,
        LEAVE_LINE,
        SOMEBODY_WAITS,
        DELETE_LOCK,
    ] {
        assert!(
            SOURCE.contains(statement),
            "not a statement of the library: {statement}"
        );
    }
}

/// An open file, and the boot to which its rows belong.
pub(crate) struct Statements {
    connection: Connection,
    boot: String,
}

impl Statements {
    /// Opens a file that has the library's tables.
    pub(crate) fn open(path: &Path) -> Self {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).expect("the file is there");
        let set = |pragma, value| {
            let set = connection.pragma_update(None, pragma, value);
            set.expect("a pragma that SQLite knows");
        };
        set("journal_mode", "WAL");
        set("synchronous", "NORMAL");
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
            .expect("a setting that SQLite knows");
        connection.set_prepared_statement_cache_capacity(32);
        let boot = connection
            .query_row("SELECT boot FROM fencepost_fence", [], |row| row.get(0))
            .expect("the library's tables");
        Self { connection, boot }
    }

    /// Acquires the lock, which is free.
    pub(crate) fn acquire(&self, name: &str, owner: usize) {
        let done = self.try_acquire(name, &format!("{owner:032x}"));
        done.expect("the statements work");
    }

    /// Releases the lock.
    pub(crate) fn release(&self, name: &str, owner: usize) {
        let done = self.try_release(name, &format!("{owner:032x}"));
        done.expect("the statements work");
    }

    fn try_acquire(&self, name: &str, owner: &str) -> rusqlite::Result<()> {
        self.run("BEGIN IMMEDIATE")?;
        let now = BootClock.now().as_nanos() as i64;
        let held = self.holder(name, owner)?;
        assert_eq!(held, None, "the lock is free");
        self.connection.prepare_cached(RAISE_EPOCH)?.execute([])?;
        let mut epoch = self.connection.prepare_cached(EPOCH)?;
        let epoch: i64 = epoch.query_row([], |row| row.get(0))?;
        let mut set_lock = self.connection.prepare_cached(SET_LOCK)?;
        set_lock.execute(params![
            name,
            owner,
            LABEL,
            self.boot,
            now,
            now + TTL_NS,
            epoch,
            TTL_NS
        ])?;
        self.run("COMMIT")
    }

    fn try_release(&self, name: &str, owner: &str) -> rusqlite::Result<()> {
        self.run("BEGIN IMMEDIATE")?;
        let mut leave_line = self.connection.prepare_cached(LEAVE_LINE)?;
        leave_line.execute(params![name, owner])?;
        let held = self.holder(name, owner)?;
        assert_eq!(held.as_deref(), Some(owner), "the lock is held");
        let mut somebody_waits = self.connection.prepare_cached(SOMEBODY_WAITS)?;
        let _: bool = somebody_waits.query_row(params![name, self.boot], |row| row.get(0))?;
        self.connection
            .prepare_cached(DELETE_LOCK)?
            .execute([name])?;
        self.run("COMMIT")
    }

    /// Reads every column, as the library does.
    fn holder(&self, name: &str, owner: &str) -> rusqlite::Result<Option<String>> {
        let parameters = named_params! { ":name": name, ":owner": owner, ":boot": self.boot };
        let mut state = self.connection.prepare_cached(STATE)?;
        state.query_row(parameters, |row| {
            for column in 1..5 {
                row.get::<_, Value>(column)?;
            }
            row.get(0)
        })
    }

    fn run(&self, statement: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(statement)?.execute([])?;
        Ok(())
    }
}
