//! Locks in an SQLite file, shared by the processes of **one machine**.
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
//! A lock is a row with an owner and the time at which its lease ends. Acquiring, renewing and releasing are short write transactions
//! (`BEGIN IMMEDIATE`), so that simultaneous requests are served one after the other. The file can be a separate one (which is better) or
//! an application's database, which is then switched to WAL mode.
//!
//! One thread per [`Sqlite`] owns the connection and does all the waiting. Futures only exchange messages with it, so they never block the
//! async runtime. The thread executes requests in the order in which they were sent, so a release takes effect after an acquisition
//! whose future was dropped before.
//!
//! **Waiting.** Each waiter holds a ticket, and tickets are served in order. While claims of this process wait, the thread checks `PRAGMA
//! data_version` every 2 to 4 ms. It reads only if another program has committed or a time is due, and writes only if a claim may succeed.
//! Waiters send no heartbeats. Instead, when a lock becomes free, the first waiter has half a second to take it. After that the second one
//! may take it, and each further one a sixteenth of a second later. A killed or stopped process therefore costs the line half a second, not
//! a TTL. When it wakes up, it gets its old place back.
//!
//! **Time** is the time since boot (`CLOCK_BOOTTIME`), which all processes of a machine share and nobody can set, together with the
//! identity of the boot: leases and tickets of an earlier boot are void.
//!
//! **The fence** comes from one counter for the whole file, separate from the lock rows. The transaction that grants a lock raises it.
//! Commits survive the crash of a process, but a power cut may lose the last ones (`synchronous=NORMAL`), except those that record the run
//! of a job. The first program that opens the file after a boot therefore adds 10⁶ to the counter, and makes *that* durable. A new file
//! starts its counter at the wall time since 2024 in units of 7.8125 µs (the only use of wall time), so that the epochs of a deleted and
//! re-created file do not go back unless the system time did; [`SqliteBuilder::first_epoch`] overrides that. The time lifts new counters to
//! at most 2⁴⁶, which it reaches in 2041.
//!
//! # Tables
//! | table | holds |
//! |---|---|
//! | `fencepost_lock` | one row per lock that was held: `name`, `owner`, `label`, `boot`, `acquired_ns`, `expires_ns`, `epoch`, `ttl_ns` |
//! | `fencepost_line` | one row per waiter: `ticket`, `name`, `owner`, `label`, `boot`, `joined_ns` |
//! | `fencepost_fence` | the last epoch, for all names of the file, and the boot for which it was raised |
//! | `fencepost_record` | one row per record of another kind of lock ([`Records`]): `kind`, `name`, `value`, `version` |
//! | `fencepost_meta` | the version of the tables |
//!
//! Programs in other languages may read them. A lock is held only if its `owner` is not empty, its `boot` is that of this boot, and its
//! `expires_ns` is later than `CLOCK_BOOTTIME`. Other rows of `fencepost_lock` are locks that are free: somebody waits for them, or their
//! lease ended without a release.
//!
//! **Records** are kept until the file is deleted. A replacement is one write transaction, which gives the record a new, random version and
//! also raises the counter of fences, so that a reboot or a new file lifts the epochs in records as it lifts those of locks. Their time is
//! the time since boot, and its era is the boot. Those who wait for a change are told at once if this process replaced the record, and
//! otherwise by the thread's check of `PRAGMA data_version`, which goes on while anybody waits.
//!
//! **Versions.** The tables have version 2. A file of version 1, whose units of time were eight times as long, is upgraded when it is
//! opened for locking ([`SqliteBuilder::open_read_only`] leaves it as it is): its counter is lifted to the time in the new units. From then
//! on a program of version 1 refuses to open the file. One that already has it open keeps using the same counter in the same kind of
//! transactions, so its epochs and ours grow together. Programs of version 2 that know no records share the file: the table is added when
//! a newer program opens it, and they do not look at it.
//!
//! # What can go wrong
//! - *The holder dies.* The lock is free when its lease ends.
//! - *The file is deleted or replaced.* That deletes the locks in it: renewals answer [`Renewal::Lost`], and waiters enter the line of the
//!   new file. If the log (`-wal`, `-shm`) of the old file still lies beside the new one, the first program that notices deletes it,
//!   because SQLite would write it into the new file. Do not restore an old copy: that would bring back its old fence counter.
//! - *Another program keeps the file locked* for longer than [`SqliteBuilder::busy_timeout`]: [`ErrorKind::Unavailable`], without effect.
//!   Renewals wait behind the same lock, so an application that shares the file must keep its write transactions much shorter than the TTL.
//! - *A process is stopped in the middle of a transaction* (SIGSTOP, a debugger): it keeps the file locked until it is continued or
//!   killed, and others get [`ErrorKind::Unavailable`]. Transactions of this store take well under a millisecond.
//! - *The disk is full, or the file is read-only, damaged, not a database or on a network file system*: [`ErrorKind::Unusable`], without
//!   effect. The error says what to do.
//! - *A process in its own time namespace* (`unshare --time`) counts boot time differently and must not share the file.
//! - *Other systems than Linux*: opening is refused, because this store can read the identity of a boot only on Linux.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use tokio::sync::oneshot;

use crate::backend::records::Records;
use crate::backend::{Backend, Capabilities, Listed, Record, Release, Renewal, Wait};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::BoxFuture;
use crate::error::{Effect, Error, ErrorKind, Operation, Result};
use crate::stores::kit::renewals::all_failed;

mod boot;
mod builder;
mod columns;
mod failure;
mod features;
mod file;
#[cfg(feature = "unstable-hooks")]
mod hooks;
mod record_waiters;
mod records;
mod requests;
mod schema;
mod session;
mod settings;
mod stored_records;
mod view;
mod waiting;
mod worker;

pub use builder::SqliteBuilder;
#[cfg(feature = "unstable-hooks")]
pub use hooks::network_file_system;
use worker::Request;

/// The name of this store in errors, spans and metrics.
pub(crate) const STORE: &str = "sqlite";

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
        records: true,
        lasting: true,
    };

    /// Opens the file with the default settings, and creates it if it does not exist.
    ///
    /// # Errors
    /// Returns the same errors as [`SqliteBuilder::open`].
    ///
    /// # Cancel safety
    /// The same as for [`SqliteBuilder::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(path).open().await
    }

    /// Opens the file like [`open`](Self::open), but blocks the calling thread. Unlike the `open_blocking` of other stores, it does not
    /// need the feature `blocking`, because no runtime is involved.
    ///
    /// # Errors
    /// Returns the same errors as [`SqliteBuilder::open`].
    pub fn open_blocking(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(path).open_blocking()
    }

    /// Returns the settings for opening `path`.
    pub fn builder(path: impl AsRef<Path>) -> SqliteBuilder {
        SqliteBuilder::new(path.as_ref())
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves everything from the write-ahead log (`-wal`) into the file and empties the log, so that a copy of the file alone is complete.
    ///
    /// Returns `false` if another reader or writer kept a part in the log for longer than a second. Nothing is lost then: the file is
    /// complete together with its log. SQLite does the same by itself when the last program closes the file.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unusable`] or [`ErrorKind::Unavailable`], like every request to this store.
    ///
    /// # Cancel safety
    /// If the future is dropped, the checkpoint continues.
    pub async fn checkpoint(&self) -> Result<bool> {
        self.request(Operation::Inspect, |reply| Request::Checkpoint { reply })
            .await
    }

    /// Puts a request into the queue of the thread, and waits for its answer.
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

/// Returns the error for a thread that has ended. Only a bug in this crate ends it while its [`Sqlite`] is alive.
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

/// Opens the file that an address names, and blocks the calling thread.
#[cfg(feature = "blocking")]
pub(super) fn open_address_blocking(address: &str) -> Result<Sqlite> {
    Sqlite::open_blocking(path_of(address))
}

/// Opens the file that an address names, only to look at its locks.
pub(super) async fn open_address_read_only(address: &str) -> Result<Sqlite> {
    Sqlite::builder(path_of(address)).open_read_only().await
}

/// Opens the file that an address names, to look at its locks and to release them. Does not create it.
pub(super) async fn open_address_to_release(address: &str) -> Result<Sqlite> {
    Sqlite::builder(path_of(address)).open_to_release().await
}

fn path_of(address: &str) -> &str {
    address.strip_prefix("sqlite:").unwrap_or(address)
}

impl Backend for Sqlite {
    fn store_name(&self) -> &'static str {
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
            let (busy, has_to_wait) = oneshot::channel();
            let (reply, answer) = oneshot::channel();
            let claim = claim.clone();
            self.send(Operation::Acquire, Request::Acquire { claim, busy, reply })?;
            if has_to_wait.await.is_ok() {
                wait.report_busy();
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
                // All claims were in one transaction, so they fail together.
                Err(error) => all_failed(claims, &error),
            }
        })
    }

    /// All claims are renewed in one transaction. The number is larger than for a network store, because a commit costs more than a row.
    fn renew_batch_size(&self) -> usize {
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

    fn records(&self) -> Option<&dyn Records> {
        Some(self)
    }
}
