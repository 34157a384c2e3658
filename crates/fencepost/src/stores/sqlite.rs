//! The embedded store: locks shared by the processes of **one machine** through one SQLite file.
//!
//! ```no_run
//! # async fn example() -> fencepost::Result<()> {
//! use std::sync::Arc;
//! use fencepost::Locker;
//! use fencepost::stores::sqlite::Sqlite;
//!
//! let locker = Locker::new(Arc::new(Sqlite::open("locks.db").await?));
//! let guard = locker.acquire("nightly-report").await?;
//! assert!(guard.release().await.is_released());
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//! A lock is a row with an owner and a time at which its lease ends. Taking, renewing and releasing are short
//! write transactions (`BEGIN IMMEDIATE`), so that of two who ask at once one is served first. The tables are
//! named `fencepost_…`: the file may be one of its own (better) or an application's database, which is then
//! switched to WAL mode. Programs in other languages may read the tables.
//!
//! One thread per [`Sqlite`] owns the connection and does all the waiting; futures only exchange messages with
//! it, so the async runtime is never blocked. Requests are carried out in the order in which they were sent:
//! a release therefore takes effect after the acquisition whose future was dropped before.
//!
//! **Waiting.** Those who wait hold a ticket each, served in order. While claims of this process wait, the
//! thread looks at `PRAGMA data_version` every 2 to 4 ms, reads only when another program has committed or a
//! time is due, and writes only when a claim may succeed. Nobody sends signs of life. Instead, from the moment
//! a lock becomes free, its first waiter has half a second to take it; after that the second may, and each further
//! one a sixteenth of a second later. So a killed or stopped process costs the line half a second, not a TTL; when it
//! wakes up, it gets its old place back.
//!
//! **Time** is the time since boot (`CLOCK_BOOTTIME`), which all processes of a machine share and nobody can set,
//! together with the boot's identity: leases and tickets of an earlier boot are void.
//!
//! **The fence** is one counter for the whole file, apart from the lock rows, raised in the transaction that grants.
//! Commits survive the crash of a process, but the last ones may be lost in a power cut (`synchronous=NORMAL`);
//! therefore the first to open the file after a boot adds 10⁶ to the counter, and makes *that* durable. A new
//! file starts its counter at the wall time since 2024 in units of 7.8125 µs (the only use of wall time), so that the
//! epochs of a deleted and re-created file do not go back unless the system time did; [`SqliteBuilder::first_epoch`]
//! overrides that. The time lifts new counters to 2⁴⁶ at most, which it reaches in 2041.
//!
//! **Versions.** The tables have version 2. A file of version 1, whose units of time were eight times as long, is upgraded when it is opened to lock
//! ([`SqliteBuilder::open_to_look`] leaves it as it is): its counter is lifted to the time in the new units. A program of version 1 refuses the file from then on; one that has it open keeps
//! counting with the same counter, under the same transactions, so its epochs and ours grow together.
//!
//! # What can go wrong
//! - *The holder dies.* The lock is free when its lease ends.
//! - *The file is deleted or replaced.* That deletes the locks in it: renewals answer [`Renewal::Lost`], waiters
//!   enter the line of the new file. The first program that notices deletes the log (`-wal`, `-shm`) of the old file if it still lies
//!   beside the new one, because SQLite would write it into the new file. Restoring an old copy brings back its old fence counter: do not.
//! - *Another program keeps the file locked* for longer than [`SqliteBuilder::busy_timeout`]:
//!   [`ErrorKind::Unavailable`], without effect. Renewals wait behind the same lock, so an application that shares
//!   the file keeps its write transactions much shorter than the TTL.
//! - *A process is stopped in the middle of a transaction* (SIGSTOP, a debugger): it keeps the file locked until it is continued or
//!   killed, and others get [`ErrorKind::Unavailable`]. Transactions here take well under a millisecond.
//! - *Disk full, read-only, damaged, no database, a network file system*: [`ErrorKind::Unusable`], without effect,
//!   with what to do.
//! - *A process in a time namespace of its own* (`unshare --time`) counts boot time differently and must not share
//!   the file.
//! - Only Linux tells the identity of a boot in a way this backend knows; elsewhere opening is refused.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::backend::{Backend, Capabilities, Listed, Record, Release, Renewal, Wait};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::BoxFuture;
use crate::error::{Effect, Error, ErrorKind, Operation, Result};

mod boot;
mod database;
mod failure;
mod file;
#[cfg(feature = "unstable-hooks")]
mod hooks;
mod lease;
mod look;
mod schema;
mod waiting;
mod window;
mod worker;

use database::{Purpose, Settings};
#[cfg(feature = "unstable-hooks")]
pub use hooks::network_file_system;
use worker::Request;

/// How this store calls itself in errors, spans and metrics.
pub(crate) const STORE: &str = "sqlite";

/// How a [`Sqlite`] is opened; made by [`Sqlite::builder`].
#[derive(Debug, Clone)]
pub struct SqliteBuilder {
    path: PathBuf,
    busy_timeout: Duration,
    first_epoch: Option<u64>,
    boot_id: Option<String>,
}

impl SqliteBuilder {
    /// How long a request waits while another program keeps the file locked. Default: 5 s.
    #[must_use]
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// The epoch of the first grant, at least 1, when the file is *created*; has no effect on an existing one.
    ///
    /// Give one larger than every epoch a protected resource has seen, when the file was lost and the system time
    /// cannot be trusted. Default: the wall time since 2024 in units of 7.8125 µs.
    #[must_use]
    pub fn first_epoch(mut self, epoch: u64) -> Self {
        self.first_epoch = Some(epoch);
        self
    }

    /// Opens the file, creating it when it is missing, without blocking the runtime.
    ///
    /// # Errors
    /// [`ErrorKind::Unusable`] when the file cannot hold locks (see the [module](self)),
    /// [`ErrorKind::Unavailable`] when another program keeps it locked, [`ErrorKind::InvalidInput`] for an empty path.
    ///
    /// # Cancel safety
    /// Dropping the future closes the file again; a file that was created stays.
    pub async fn open(self) -> Result<Sqlite> {
        self.open_for(Purpose::Lock).await
    }

    /// Opens the file to look at the locks in it, with [`inspect`](Backend::inspect) and [`list`](Backend::list), and changes nothing: no file and no
    /// table is made, and a file of version 1 stays one, which programs of that version go on using. Taking a lock fails.
    ///
    /// # Errors
    /// As [`open`](Self::open), and [`ErrorKind::Unavailable`] when there is no file.
    ///
    /// # Cancel safety
    /// Dropping the future closes the file again.
    pub async fn open_to_look(self) -> Result<Sqlite> {
        self.open_for(Purpose::Look).await
    }

    async fn open_for(self, purpose: Purpose) -> Result<Sqlite> {
        let (opened, answer) = oneshot::channel();
        let sqlite = self.start(purpose, |outcome| {
            // Nobody listens any more: the thread sees that its requests have ended, too.
            let _ = opened.send(outcome);
        })?;
        answer
            .await
            .unwrap_or_else(|_| Err(thread_gone(Operation::Open)))?;
        Ok(sqlite)
    }

    /// [`open`](Self::open), blocking the calling thread.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_blocking(self) -> Result<Sqlite> {
        let (opened, answer) = std::sync::mpsc::channel();
        let sqlite = self.start(Purpose::Lock, move |outcome| {
            let _ = opened.send(outcome);
        })?;
        answer
            .recv()
            .unwrap_or_else(|_| Err(thread_gone(Operation::Open)))?;
        Ok(sqlite)
    }

    fn start(
        self,
        purpose: Purpose,
        opened: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<Sqlite> {
        let path = std::path::absolute(&self.path).map_err(|error| {
            Error::new(
                ErrorKind::InvalidInput,
                STORE,
                Operation::Open,
                format!("{:?} is not a path of a file", self.path),
            )
            .with_source(error)
        })?;
        let settings = Settings {
            path: path.clone(),
            busy_timeout: self.busy_timeout,
            first_epoch: self.first_epoch,
            boot: match self.boot_id {
                Some(id) => id,
                None => boot::current_id()?,
            },
            purpose,
        };
        let requests = worker::start(settings, opened)?;
        Ok(Sqlite { path, requests })
    }
}

/// Locks in an SQLite file, for the processes of one machine. See the [module](self).
///
/// Dropping it ends its thread and closes the file.
pub struct Sqlite {
    path: PathBuf,
    requests: Sender<Request>,
}

impl Sqlite {
    /// What this store promises.
    pub const CAPABILITIES: Capabilities = Capabilities {
        fifo: true,
        across_processes: true,
        leases: true,
    };

    /// Opens the file with the default settings, creating it when it is missing.
    ///
    /// # Errors
    /// As [`SqliteBuilder::open`].
    ///
    /// # Cancel safety
    /// As [`SqliteBuilder::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(path).open().await
    }

    /// [`open`](Self::open), blocking the calling thread.
    ///
    /// # Errors
    /// As [`SqliteBuilder::open`].
    pub fn open_blocking(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(path).open_blocking()
    }

    /// The settings for opening `path`.
    pub fn builder(path: impl AsRef<Path>) -> SqliteBuilder {
        SqliteBuilder {
            path: path.as_ref().to_owned(),
            busy_timeout: Duration::from_secs(5),
            first_epoch: None,
            boot_id: None,
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves everything from the write-ahead log (`-wal`) into the file and empties the log, so that a copy of the file alone is complete.
    ///
    /// Returns `false` when another program that reads or writes kept part of it in the log for longer than a second. Nothing is lost by
    /// that: the file is complete together with its log. SQLite does the same by itself when the last program closes the file.
    ///
    /// # Errors
    /// As for every request: [`ErrorKind::Unusable`], [`ErrorKind::Unavailable`].
    ///
    /// # Cancel safety
    /// It goes on when the future is dropped.
    pub async fn checkpoint(&self) -> Result<bool> {
        self.request(Operation::Inspect, |reply| Request::Checkpoint { reply })
            .await
    }

    /// Puts a request into the thread's queue and waits for its answer.
    async fn request<T>(
        &self,
        operation: Operation,
        make: impl FnOnce(oneshot::Sender<Result<T>>) -> Request,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.send(operation, make(reply))?;
        answer
            .await
            .unwrap_or_else(|_| Err(thread_gone(operation).with_effect(Effect::Maybe)))
    }

    fn send(&self, operation: Operation, request: Request) -> Result<()> {
        self.requests
            .send(request)
            .map_err(|_| thread_gone(operation))
    }
}

/// Only a defect of this crate ends the thread while its [`Sqlite`] is alive.
fn thread_gone(operation: Operation) -> Error {
    Error::new(
        ErrorKind::Internal,
        STORE,
        operation,
        "the thread that serves this file has ended unexpectedly",
    )
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Opens the file that an address names: `sqlite:PATH`.
pub(super) async fn open_address(address: &str) -> Result<Sqlite> {
    Sqlite::open(path_of(address)).await
}

/// The same, to look at its locks.
pub(super) async fn look_at_address(address: &str) -> Result<Sqlite> {
    Sqlite::builder(path_of(address)).open_to_look().await
}

fn path_of(address: &str) -> &str {
    address.strip_prefix("sqlite:").unwrap_or(address)
}

impl Backend for Sqlite {
    fn store(&self) -> &'static str {
        STORE
    }

    fn capabilities(&self) -> Capabilities {
        Self::CAPABILITIES
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>> {
        Box::pin(
            self.request(Operation::Acquire, |reply| Request::TryAcquire {
                claim: claim.clone(),
                reply,
            }),
        )
    }

    fn acquire<'a>(&'a self, claim: &'a Claim, wait: &'a Wait) -> BoxFuture<'a, Result<Grant>> {
        Box::pin(async move {
            let (heard, has_to_wait) = oneshot::channel();
            let (reply, answer) = oneshot::channel();
            let claim = claim.clone();
            self.send(
                Operation::Acquire,
                Request::Acquire {
                    claim,
                    heard,
                    reply,
                },
            )?;
            if has_to_wait.await.is_ok() {
                wait.heard();
            }
            answer
                .await
                .unwrap_or_else(|_| Err(thread_gone(Operation::Acquire).with_effect(Effect::Maybe)))
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(async move {
            let batch = self.request(Operation::Renew, |reply| Request::Renew {
                claims: claims.to_vec(),
                reply,
            });
            match batch.await {
                Ok(renewals) => renewals.into_iter().map(Ok).collect(),
                // One transaction for all: they fail together.
                Err(error) => claims.iter().map(|_| Err(error.clone())).collect(),
            }
        })
    }

    /// One transaction. Larger than a request over a network would be: a commit costs more than a row.
    fn renewed_at_once(&self) -> usize {
        1024
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Release>> {
        Box::pin(self.request(Operation::Release, |reply| Request::Release {
            claim: claim.clone(),
            reply,
        }))
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Record>>> {
        Box::pin(self.request(Operation::Inspect, |reply| Request::Inspect {
            name: name.clone(),
            reply,
        }))
    }

    fn list<'a>(&'a self, pattern: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Listed>>> {
        let pattern = pattern.map(str::to_owned);
        Box::pin(self.request(Operation::Inspect, |reply| Request::List { pattern, reply }))
    }
}
