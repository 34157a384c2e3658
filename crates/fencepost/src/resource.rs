//! Fenced resources: they refuse a holder whose lock has passed to somebody else.
//!
//! No lock service can prevent a paused holder from waking up late and writing. The resource can: it remembers the highest [`Fence`]
//! that it has seen, and refuses a lower one. This is safe under two rules:
//!
//! - **Reads are fenced too.** If only writes were fenced, an update could be lost: A reads, A loses the lock, B reads, A writes (its
//!   fence is old but still the highest *written*), B writes over A's update. If reads are fenced, B's read shuts A out.
//! - The check, the new highest fence and the operation itself are **one atomic step**.
//!
//! An equal fence from another owner is refused as well: it can only come from a store that lost its counter.
//!
//! This module contains [`FencedCell`], a value in memory. With the feature `sqlite` it contains `SqliteGate`, a gate in front of whatever
//! your own transaction does, and `SqliteRegister`, a value behind such a gate. With the feature `postgres`, `pg_tx::PgGate` is a gate for
//! Postgres; if you use another database crate, use [`CREATE_GATE`] and [`ADMIT`]. With the feature `redis` it contains `RedisRegister`, a
//! value in Redis, and `REDIS_ADMIT`, a gate for your own scripts. With the feature `etcd`, `stores::etcd::Etcd::write_while_held` writes
//! only while the lock is held, and needs no gate.
//!
//! # Read-write locks and semaphores
//! Several holders are right at the same time, so these gates would refuse some of them.
//!
//! Behind an [`RwLock`](crate::RwLock), a resource refuses a write below any fence that it has seen, and a read below any fence that has
//! written: [`FencedRwCell`], `SqliteRwGate`, `pg_tx::PgRwGate`, the statements [`ADMIT_READ`] and [`ADMIT_WRITE`], and `REDIS_ADMIT_RW`.
//!
//! Behind a [`Semaphore`](crate::Semaphore), each slot is a resource of its own: use the gates above under the name `name#slot`, for each slot
//! of [`Permit::credentials`](crate::Permit::credentials).

use std::sync::{Mutex, PoisonError};

pub use crate::credential::Credential;
use crate::fence::Fence;

mod rw;
#[cfg(feature = "sqlite")]
mod rw_sqlite;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use crate::refusal::{FencedError, Refused};
#[cfg(feature = "redis")]
pub use crate::stores::redis::register::{REDIS_ADMIT, REDIS_ADMIT_RW, RedisRegister};
pub use rw::{ADMIT_READ, ADMIT_WRITE, CREATE_RW_GATE, FencedRwCell};
#[cfg(feature = "sqlite")]
pub use rw_sqlite::SqliteRwGate;
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteGate, SqliteRegister};

/// A value that only the holder of a lock can read and write.
///
/// Both operations check the credential, remember its fence as the highest seen, and read or write the value, in one atomic
/// step. They may block: in async code, call them through `spawn_blocking` unless the implementation says otherwise.
///
/// ```
/// use fencepost::random::SystemRandom;
/// use fencepost::resource::{FencedCell, FencedResource, Credential};
/// use fencepost::{Fence, OwnerId};
///
/// let stock = FencedCell::new(3);
/// let earlier = Credential::new(Fence::new(41, 0)?, OwnerId::random(&SystemRandom));
/// let later = Credential::new(Fence::new(43, 0)?, OwnerId::random(&SystemRandom));
///
/// let left = stock.read(later).unwrap();
/// assert!(stock.write(earlier, 0).is_err());
/// stock.write(later, left - 1).unwrap();
/// # Ok::<(), fencepost::Error>(())
/// ```
pub trait FencedResource {
    /// The type of the value.
    type Value;

    /// Returns the value.
    ///
    /// # Errors
    /// Returns [`FencedError::Refused`] if the resource has seen a higher fence, or the same fence from another owner, and
    /// [`FencedError::Failed`] if the resource fails or cannot be reached.
    fn read(&self, credential: Credential) -> Result<Self::Value, FencedError>;

    /// Replaces the value.
    ///
    /// # Errors
    /// Returns [`FencedError::Refused`] if the resource has seen a higher fence, or the same fence from another owner, and
    /// [`FencedError::Failed`] if the resource fails or cannot be reached.
    fn write(&self, credential: Credential, value: Self::Value) -> Result<(), FencedError>;
}

/// A fenced value in memory. Its operations do not wait for anything but a short mutex.
#[derive(Debug, Default)]
pub struct FencedCell<T>(Mutex<Fenced<T>>);

#[derive(Debug, Default)]
struct Fenced<T> {
    highest: Option<Credential>,
    value: T,
}

impl<T> FencedCell<T> {
    /// Creates a value that has not seen any fence yet.
    pub fn new(value: T) -> Self {
        Self(Mutex::new(Fenced {
            highest: None,
            value,
        }))
    }

    /// Calls `work` with exclusive access to the value.
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
        if let Some(highest) = &fenced.highest
            && !credential.follows(highest)
        {
            return Err(Refused {
                offered: credential.fence,
                highest: highest.fence,
            });
        }
        fenced.highest = Some(credential);
        Ok(work(&mut fenced.value))
    }

    /// Returns the highest fence seen, or `None` if there has been no access yet.
    pub fn highest(&self) -> Option<Fence> {
        let fenced = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fenced.highest.map(|credential| credential.fence)
    }
}

impl<T: Clone> FencedResource for FencedCell<T> {
    type Value = T;

    fn read(&self, credential: Credential) -> Result<T, FencedError> {
        Ok(self.update(credential, |value| value.clone())?)
    }

    fn write(&self, credential: Credential, value: T) -> Result<(), FencedError> {
        Ok(self.update(credential, |old| *old = value)?)
    }
}

/// The SQL statement that creates the table of highest fences, for SQLite and Postgres.
pub const CREATE_GATE: &str = "\
CREATE TABLE IF NOT EXISTS fencepost_gate (
    resource TEXT PRIMARY KEY,
    fence BIGINT NOT NULL,
    owner TEXT NOT NULL
)";

/// The SQL statement that admits or refuses a credential, for SQLite and Postgres.
///
/// Its parameters are the name of the resource, [`Fence::as_i64`] and the owner as text. **If it changes one row, the credential is
/// admitted. If it changes no row, the credential is refused**, and you must roll back. Run it first in the transaction that reads or
/// writes the resource: the row stays locked until the transaction ends, so no other holder can get in between.
pub const ADMIT: &str = "\
INSERT INTO fencepost_gate (resource, fence, owner) VALUES ($1, $2, $3)
ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence, owner = excluded.owner
WHERE fencepost_gate.fence < excluded.fence
   OR (fencepost_gate.fence = excluded.fence AND fencepost_gate.owner = excluded.owner)";
