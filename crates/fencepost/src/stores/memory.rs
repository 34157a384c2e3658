//! Locks inside one process, for tests and for programs that run alone. This store is the reference for the behaviour of all others.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
//! use std::sync::Arc;
//! use fencepost::Locker;
//! use fencepost::stores::memory::Memory;
//!
//! let locker = Locker::new(Arc::new(Memory::new()));
//! let guard = locker.acquire("nightly-report").await?;
//! assert!(guard.release().await.is_released());
//! # Ok(()) }
//! ```
//!
//! **Algorithm.** One mutex protects a table of names. A name has at most one lease, which ends at a moment of the clock, and a line of
//! waiters with tickets. A release wakes the first waiter, which claims the lock when it is polled. A waiter whose future was dropped, and
//! which does not come back within the turn window of half a second, is passed over. It therefore delays the line only for a moment; if it
//! comes back later, it has its old place. A future that is kept but not polled may cost the rest of a TTL.
//!
//! **The fence** comes from one counter for the whole store, which ends with the process, like everything here.
//!
//! **What can go wrong.** There is no network that could fail. If a test's clock jumps ahead, leases end.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::backend::records::Records;
use crate::backend::{Backend, Capabilities, Listed, Record, Release, Renewal, Wait, name_matches};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::{BootClock, BoxFuture, Clock, Moment};
use crate::error::Result;
use crate::mutex::lock;

mod records;
mod table;

use records::MemoryRecords;
use table::{Table, Ticket};

/// Locks in memory.
#[derive(Debug)]
pub struct Memory {
    clock: Arc<dyn Clock>,
    table: Mutex<Table>,
    records: MemoryRecords,
}

/// What a waiter learns when it checks the lock.
enum Outcome {
    Granted(Grant),
    /// Check again when woken, or at this moment.
    Later(Moment),
}

impl Memory {
    /// What this store promises.
    pub const CAPABILITIES: Capabilities = Capabilities {
        fifo: true,
        across_processes: false,
        leases: true,
        records: true,
        lasting: true,
    };

    /// Creates an empty store on the real clock.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(BootClock))
    }

    /// Creates an empty store on this clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self {
            records: MemoryRecords::new(clock.clone()),
            clock,
            table: Mutex::default(),
        }
    }

    fn check(&self, claim: &Claim, ticket: &mut Option<Ticket>, wake: &Arc<Notify>) -> Outcome {
        let now = self.clock.now();
        let mut table = lock(&self.table);
        if let Some(grant) = table.claim(claim, now) {
            return Outcome::Granted(grant);
        }
        let drawn = table.enqueue(claim, *ticket, wake, now);
        *ticket = Some(drawn);
        Outcome::Later(table.turn_of(&claim.name, drawn))
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Backend for Memory {
    fn store_name(&self) -> &'static str {
        "memory"
    }

    fn capabilities(&self) -> Capabilities {
        Self::CAPABILITIES
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>> {
        Box::pin(async move {
            let now = self.clock.now();
            Ok(lock(&self.table).claim(claim, now))
        })
    }

    fn acquire<'a>(&'a self, claim: &'a Claim, wait: &'a Wait) -> BoxFuture<'a, Result<Grant>> {
        Box::pin(async move {
            let wake = Arc::new(Notify::new());
            let mut ticket = None;
            let _attendance = Attendance {
                store: self,
                claim,
                wake: &wake,
            };
            loop {
                let next = match self.check(claim, &mut ticket, &wake) {
                    Outcome::Granted(grant) => return Ok(grant),
                    Outcome::Later(next) => next,
                };
                wait.report_busy();
                tokio::select! {
                    () = wake.notified() => {}
                    () = self.clock.sleep_until(next) => {}
                }
            }
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(async move {
            let now = self.clock.now();
            let mut table = lock(&self.table);
            claims
                .iter()
                .map(|claim| Ok(table.renew(claim, now)))
                .collect()
        })
    }

    /// All leases are renewed in one pass under the mutex.
    fn renew_batch_size(&self) -> usize {
        1024
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Release>> {
        Box::pin(async move {
            let now = self.clock.now();
            Ok(lock(&self.table).release(claim, now))
        })
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Record>>> {
        Box::pin(async move {
            let now = self.clock.now();
            let table = lock(&self.table);
            Ok(table.names.get(name).and_then(|entry| entry.record(now)))
        })
    }

    fn list<'a>(&'a self, pattern: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Listed>>> {
        Box::pin(async move {
            let now = self.clock.now();
            let table = lock(&self.table);
            let wanted = table.names.iter().filter(|(name, _)| {
                pattern.is_none_or(|pattern| name_matches(pattern, name.as_str()))
            });
            let listed = wanted.filter_map(|(name, entry)| {
                Some(Listed {
                    name: name.to_string(),
                    record: entry.record(now)?,
                })
            });
            Ok(listed.collect())
        })
    }

    fn records(&self) -> Option<&dyn Records> {
        Some(&self.records)
    }
}

/// Records that a waiting future was dropped.
struct Attendance<'a> {
    store: &'a Memory,
    claim: &'a Claim,
    wake: &'a Arc<Notify>,
}

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        lock(&self.store.table).leave_unattended(self.claim, self.wake);
    }
}
