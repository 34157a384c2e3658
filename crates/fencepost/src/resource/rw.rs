//! Fenced resources behind a read-write lock: what a gate remembers, and a value in memory.
//!
//! Readers are beside each other, so "the highest fence wins" would refuse readers that are right. A gate for a read-write lock remembers two
//! fences: the highest that it has *seen*, and the highest that has *written*.
//!
//! - A write is refused below any fence that was seen. So a writer that lost its lock is refused as soon as a later reader was there:
//!   otherwise it would change what that reader has just read.
//! - A read is refused below any fence that has written: its holder has lost its lock, and what it read before may not fit what it would read
//!   now. Later readers do not matter to it.

use std::sync::{Mutex, PoisonError};

use super::{FencedError, FencedResource, Refused};
use crate::credential::Credential;
use crate::fence::Fence;

/// A value in memory that the holders of a read-write lock can read and write. Its operations do not wait for anything but a short mutex.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
/// use fencepost::resource::FencedRwCell;
///
/// let config = FencedRwCell::new(String::new());
/// let lock = locker.rw_lock("config")?;
/// let writer = lock.write().await?;
/// config.update(writer.credential(), |text| text.push_str("port = 80"))?;
/// let stale = writer.credential();
///
/// let reader = writer.downgrade().await?;
/// assert_eq!(config.view(reader.credential(), String::len)?, 9);
/// assert!(config.update(stale, String::clear).is_err());
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct FencedRwCell<T>(Mutex<Fenced<T>>);

#[derive(Debug, Default)]
struct Fenced<T> {
    gate: Gate,
    value: T,
}

/// What is remembered of those who were admitted.
#[derive(Debug, Default)]
struct Gate {
    seen: Option<Credential>,
    written: Option<Credential>,
}

impl Gate {
    fn admit_write(&mut self, credential: Credential) -> Result<(), Refused> {
        check(credential, self.seen)?;
        (self.seen, self.written) = (Some(credential), Some(credential));
        Ok(())
    }

    fn admit_read(&mut self, credential: Credential) -> Result<(), Refused> {
        check(credential, self.written)?;
        if self.seen.is_none_or(|seen| seen.fence < credential.fence) {
            self.seen = Some(credential);
        }
        Ok(())
    }
}

fn check(credential: Credential, highest: Option<Credential>) -> Result<(), Refused> {
    match highest {
        Some(highest) if !credential.follows(&highest) => Err(Refused {
            offered: credential.fence,
            highest: highest.fence,
        }),
        _ => Ok(()),
    }
}

impl<T> FencedRwCell<T> {
    /// Creates a value that has not seen any fence yet.
    pub fn new(value: T) -> Self {
        Self(Mutex::new(Fenced {
            gate: Gate::default(),
            value,
        }))
    }

    /// Calls `work` with the value, on behalf of a reader or writer.
    ///
    /// # Errors
    /// Returns [`Refused`] without calling `work` if the cell was written with a higher fence, or with the same fence by another owner.
    pub fn view<R>(
        &self,
        credential: Credential,
        work: impl FnOnce(&T) -> R,
    ) -> Result<R, Refused> {
        let mut fenced = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fenced.gate.admit_read(credential)?;
        Ok(work(&fenced.value))
    }

    /// Calls `work` with exclusive access to the value, on behalf of a writer.
    ///
    /// # Errors
    /// Returns [`Refused`] without calling `work` if the cell has seen a higher fence, or the same fence from another owner.
    pub fn update<R>(
        &self,
        credential: Credential,
        work: impl FnOnce(&mut T) -> R,
    ) -> Result<R, Refused> {
        // The fence is set before `work` can panic. In what state `work` leaves the value is its own responsibility.
        let mut fenced = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fenced.gate.admit_write(credential)?;
        Ok(work(&mut fenced.value))
    }

    /// Returns the highest fence seen, or `None` if there has been no access yet.
    pub fn highest(&self) -> Option<Fence> {
        let fenced = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fenced.gate.seen.map(|credential| credential.fence)
    }
}

impl<T: Clone> FencedResource for FencedRwCell<T> {
    type Value = T;

    fn read(&self, credential: Credential) -> Result<T, FencedError> {
        Ok(self.view(credential, T::clone)?)
    }

    fn write(&self, credential: Credential, value: T) -> Result<(), FencedError> {
        Ok(self.update(credential, |old| *old = value)?)
    }
}

/// The SQL statement that creates the table of fences for read-write locks, for SQLite and Postgres.
pub const CREATE_RW_GATE: &str = "\
CREATE TABLE IF NOT EXISTS fencepost_rw_gate (
    resource TEXT PRIMARY KEY,
    fence BIGINT NOT NULL,
    owner TEXT NOT NULL,
    written BIGINT NOT NULL,
    writer TEXT NOT NULL
)";

/// The SQL statement that admits or refuses a reader of a read-write lock, for SQLite and Postgres. Its parameters and its result are those of
/// [`ADMIT`](super::ADMIT), and it comes first in the transaction, too.
///
/// It refuses a fence below any that has written. The row stays locked until the transaction ends, so transactions that read the same resource
/// run one after the other.
pub const ADMIT_READ: &str = "\
INSERT INTO fencepost_rw_gate (resource, fence, owner, written, writer) VALUES ($1, $2, $3, -1, '')
ON CONFLICT (resource) DO UPDATE SET
    fence = CASE WHEN fencepost_rw_gate.fence < excluded.fence THEN excluded.fence ELSE fencepost_rw_gate.fence END,
    owner = CASE WHEN fencepost_rw_gate.fence < excluded.fence THEN excluded.owner ELSE fencepost_rw_gate.owner END
WHERE fencepost_rw_gate.written < excluded.fence
   OR (fencepost_rw_gate.written = excluded.fence AND fencepost_rw_gate.writer = excluded.owner)";

/// The SQL statement that admits or refuses a writer of a read-write lock, for SQLite and Postgres. Its parameters and its result are those of
/// [`ADMIT`](super::ADMIT), and it comes first in the transaction, too.
///
/// It refuses a fence below any that was seen, be it of a reader or of a writer.
pub const ADMIT_WRITE: &str = "\
INSERT INTO fencepost_rw_gate (resource, fence, owner, written, writer) VALUES ($1, $2, $3, $2, $3)
ON CONFLICT (resource) DO UPDATE SET
    fence = excluded.fence, owner = excluded.owner, written = excluded.written, writer = excluded.writer
WHERE fencepost_rw_gate.fence < excluded.fence
   OR (fencepost_rw_gate.fence = excluded.fence AND fencepost_rw_gate.owner = excluded.owner)";
