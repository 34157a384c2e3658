//! The open database: one connection, its transactions, how long it waits for other programs, and how it is reopened when the file was
//! replaced.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::failure::{Failure, Result, read_only};
use super::features::TableFeatures;
use super::file::{self, Creation, Identity, Opened, Opening};
use super::settings::{Purpose, Settings};
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Error, Operation};
use crate::random::{Random, SystemRandom};

/// One open file.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) connection: Connection,
    /// Which tables and columns exist.
    pub(super) features: TableFeatures,
    /// The boot whose leases count.
    pub(super) boot: String,
    /// What was asked for before was not read from this file.
    pub(super) opened_at: Moment,
    at: Opened,
    /// How many files were opened before this one. Tickets of an earlier file mean nothing here.
    pub(super) generation: u64,
    busy_deadline: Arc<BusyDeadline>,
}

impl Database {
    fn open(settings: &Settings, generation: u64) -> Result<Self> {
        let deadline = BootClock.now() + settings.busy_timeout;
        file::folder(&settings.path)?;
        file::refuse_network(&settings.path)?;
        loop {
            match Self::open_once(settings, generation, deadline) {
                // SQLite does not call the busy handler when it switches to WAL while others open the file.
                Err(failure) if failure.is_busy() && BootClock.now() < deadline => {
                    std::thread::sleep(pause(4));
                }
                Ok(None) if BootClock.now() < deadline => {}
                Ok(None) => {
                    return Err(Failure::Unavailable(format!(
                        "{:?} is replaced again and again",
                        settings.path
                    )));
                }
                Ok(Some(database)) => return Ok(database),
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Returns `None` if the file was replaced while it was being opened.
    fn open_once(settings: &Settings, generation: u64, deadline: Moment) -> Result<Option<Self>> {
        let path = &settings.path;
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut opening = None;
        if Identity::of(path)?.is_some() {
            opening = Some(Opening::begin(file::folder(path)?));
        }
        let found = Identity::of(path)?;
        let creation = match found {
            Some(_) => None,
            None if settings.purpose != Purpose::Lock => {
                return Err(Failure::Unavailable(format!("there is no file {path:?}")));
            }
            None => {
                opening = None;
                let creation = Creation::begin(file::folder(path)?, deadline)?;
                if Identity::of(path)?.is_some() {
                    return Ok(None);
                }
                creation.clear_companions(path)?;
                flags |= OpenFlags::SQLITE_OPEN_CREATE;
                Some(creation)
            }
        };
        let connection = match Connection::open_with_flags(path, flags) {
            Err(_) if found.is_some() && Identity::of(path)?.is_none() => return Ok(None),
            // The folder may have been deleted meanwhile; then that is the reason.
            Err(error) => {
                file::folder(path)?;
                return Err(error.into());
            }
            Ok(connection) => connection,
        };
        let identity = match Identity::of(path)? {
            Some(identity) if creation.is_some() || found == Some(identity) => identity,
            _ => return Ok(None),
        };
        drop(creation);
        let mut database = Self {
            connection,
            features: TableFeatures::ALL,
            boot: settings.boot.clone(),
            opened_at: BootClock.now(),
            at: Opened::new(identity, path),
            generation,
            busy_deadline: Arc::default(),
        };
        database.busy_deadline.wait_until(deadline);
        database.configure(settings)?;
        // The first read opens the log, if there is one.
        database.version()?;
        database.at = Opened::new(identity, path);
        drop(opening);
        match settings.purpose {
            Purpose::Lock | Purpose::Release => database.prepare(settings)?,
            Purpose::Look => database.features = database.table_features(settings)?,
        }
        Ok(Some(database))
    }

    fn configure(&mut self, settings: &Settings) -> Result<()> {
        let deadline = Arc::clone(&self.busy_deadline);
        self.connection
            .busy_handler(Some(move |tries| deadline.pause_once(tries)))?;
        if settings.purpose == Purpose::Look {
            self.connection.pragma_update(None, "query_only", true)?;
            return Ok(());
        }
        if self.connection.is_readonly("main")? {
            return Err(Failure::Unusable(read_only(&settings.path)));
        }
        let mode: String = self
            .connection
            .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        if !mode.eq_ignore_ascii_case("wal") {
            return Err(Failure::Unusable(format!(
                "{:?} cannot be switched to WAL mode (it stays in mode {mode}): put it on a local disk",
                settings.path
            )));
        }
        set_synchronous(&self.connection, "NORMAL")?;
        // Otherwise SQLite plans a query again whenever its parameters change, in case another plan fits better. Here that would be for
        // every request, and would take longer than the query.
        self.connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        self.connection.set_prepared_statement_cache_capacity(32);
        Ok(())
    }

    pub(super) fn now(&self) -> Moment {
        BootClock.now()
    }

    /// Executes `work` in one write transaction, and passes it the current moment. If it fails, nothing is changed.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(&Connection, Moment) -> Result<T>,
    ) -> Result<T> {
        self.run("BEGIN IMMEDIATE")?;
        let done = work(&self.connection, self.now()).and_then(|value| {
            self.run("COMMIT")?;
            Ok(value)
        });
        if done.is_err() && !self.connection.is_autocommit() {
            // This fails only if SQLite has already rolled back.
            let _ = self.run("ROLLBACK");
        }
        done
    }

    /// Like [`write`](Self::write), and does not return before the change survives a power cut.
    pub(super) fn write_durably<T>(
        &self,
        work: impl FnOnce(&Connection, Moment) -> Result<T>,
    ) -> Result<T> {
        set_synchronous(&self.connection, "FULL")?;
        let done = self.write(work);
        set_synchronous(&self.connection, "NORMAL")?;
        done
    }

    /// Executes `work` on one consistent snapshot of the file.
    pub(super) fn read<T>(&self, work: impl FnOnce(&Connection, Moment) -> Result<T>) -> Result<T> {
        self.run("BEGIN")?;
        let done = work(&self.connection, self.now());
        let ended = self.run("COMMIT");
        let value = done?;
        ended?;
        Ok(value)
    }

    fn run(&self, statement: &str) -> Result<()> {
        self.connection.prepare_cached(statement)?.execute([])?;
        Ok(())
    }

    /// Moves the log into the file and empties it. Returns `false` if another program prevented part of that.
    pub(super) fn checkpoint(&self) -> Result<bool> {
        const SQL: &str = "PRAGMA wal_checkpoint(TRUNCATE)";
        let is_busy: bool = self.connection.query_row(SQL, [], |row| row.get(0))?;
        Ok(!is_busy)
    }

    /// Returns a number that changes when another program has committed.
    pub(super) fn data_version(&self) -> Result<i64> {
        let mut statement = self.connection.prepare_cached("PRAGMA data_version")?;
        Ok(statement.query_row([], |row| row.get(0))?)
    }
}

/// Sets how far SQLite waits for the disk at a commit.
pub(super) fn set_synchronous(connection: &Connection, how: &str) -> Result<()> {
    Ok(connection.pragma_update(None, "synchronous", how)?)
}

/// Until when this connection waits for other programs. SQLite calls what waits the busy handler.
#[derive(Debug, Default)]
struct BusyDeadline {
    until_ns: AtomicU64,
}

impl BusyDeadline {
    fn wait_until(&self, deadline: Moment) {
        self.until_ns.store(deadline.as_nanos(), Ordering::Relaxed);
    }

    /// Pauses, or returns `false` if it has waited long enough.
    fn pause_once(&self, tries: i32) -> bool {
        let deadline = Moment::from_nanos(self.until_ns.load(Ordering::Relaxed));
        let left = deadline.saturating_duration_since(BootClock.now());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(pause(tries).min(left));
        true
    }
}

/// Returns a random pause: short at first, because transactions are short, then up to 5 ms.
fn pause(tries: i32) -> Duration {
    const LEAST: Duration = Duration::from_micros(200);
    let doublings = tries.clamp(0, 12).unsigned_abs() / 4;
    let most = Duration::from_micros(800) * 2u32.pow(doublings);
    LEAST + SystemRandom.up_to(most.min(Duration::from_micros(4_800)))
}

/// The file behind the path, reopened when the path leads to another one.
#[derive(Debug)]
pub(super) struct LockFile {
    settings: Settings,
    /// The open file, or `None` if reopening it has failed.
    database: Option<Database>,
    opened: u64,
}

impl LockFile {
    /// Opens the file, and creates it if it does not exist.
    pub(super) fn open(settings: Settings) -> Result<Self, Error> {
        let mut file = Self {
            settings,
            database: None,
            opened: 0,
        };
        match file.current().map(|_| ()) {
            Ok(()) => Ok(file),
            Err(failure) => Err(file.explain(failure, Operation::Open)),
        }
    }

    /// Executes `work` on the file at the path, and waits for other programs as long as the settings allow.
    pub(super) fn run<T>(
        &mut self,
        operation: Operation,
        work: impl FnMut(&Database) -> Result<T>,
    ) -> Result<T, Error> {
        self.run_within(self.settings.busy_timeout, operation, work)
    }

    /// Executes `work` like [`run`](Self::run), but waits for other programs for at most `busy_timeout`.
    ///
    /// If the file was replaced, `work` was done to a file that nobody finds any more, and is repeated on the new one. The check comes
    /// last, so that no lock is granted in a deleted file.
    pub(super) fn run_within<T>(
        &mut self,
        busy_timeout: Duration,
        operation: Operation,
        mut work: impl FnMut(&Database) -> Result<T>,
    ) -> Result<T, Error> {
        const REPLACEMENTS_AT_MOST: u32 = 8;
        for _ in 0..REPLACEMENTS_AT_MOST {
            let done = self.current().map(|database| {
                database
                    .busy_deadline
                    .wait_until(BootClock.now() + busy_timeout);
                let done = work(database);
                (done, database.at)
            });
            match done {
                Err(failure) => return Err(self.explain(failure, operation)),
                Ok((done, at)) if at.is_at(&self.settings.path) => {
                    return done.map_err(|failure| self.explain(failure, operation));
                }
                Ok((_, at)) => {
                    // Do this while the file is open: otherwise the system could give the number of its log to another file.
                    let cleared = self.clear_stale_log(at);
                    self.close_replaced();
                    cleared.map_err(|failure| self.explain(failure, operation))?;
                }
            }
        }
        let again = format!("{:?} is replaced again and again", self.settings.path);
        Err(self.explain(Failure::Unavailable(again), operation))
    }

    fn current(&mut self) -> Result<&Database> {
        let database = match self.database.take() {
            Some(database) => database,
            None => {
                self.opened += 1;
                Database::open(&self.settings, self.opened)?
            }
        };
        Ok(self.database.insert(database))
    }

    fn close_replaced(&mut self) {
        tracing::warn!(
            path = ?self.settings.path,
            "the file of locks was deleted or replaced, and its locks with it; opening the new one"
        );
        // SQLite notices that the file has moved, and leaves the -wal and -shm at the path.
        self.database = None;
    }

    /// Deletes the log of the file that was replaced, if it still lies beside the new one, because SQLite would write it into the new file.
    ///
    /// Other programs that have the old file open keep its deleted log open, and find another log, or none, at the path.
    fn clear_stale_log(&self, replaced: Opened) -> Result<()> {
        let path = &self.settings.path;
        if !replaced.left_its_log_at(path) {
            return Ok(());
        }
        let deadline = BootClock.now() + self.settings.busy_timeout;
        let creation = Creation::begin(file::folder(path)?, deadline)?;
        if replaced.left_its_log_at(path) {
            creation.clear_companions(path)
        } else {
            Ok(())
        }
    }

    fn explain(&self, failure: Failure, operation: Operation) -> Error {
        failure.into_error(operation, &self.settings.path, self.settings.busy_timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_from_below_a_millisecond_to_five() {
        for tries in [0, 3, 4, 100, i32::MAX, -1] {
            for _ in 0..100 {
                let pause = pause(tries);
                assert!(pause >= Duration::from_micros(200) && pause <= Duration::from_millis(5));
                assert!(tries > 3 || pause <= Duration::from_millis(1));
            }
        }
    }
}
