//! Kinds of lock beside the mutex: a [`Semaphore`], of which several clients hold permits at the same time, and an [`RwLock`], with many
//! readers or one writer.
//!
//! Both keep the promises of the mutex: a validity that ends before the lease, a signal at a loss, a fence, and nothing left behind. They
//! need a store that keeps records and has a clock: memory, SQLite, Redis, or a table in Postgres. They exclude only users of this library.

mod held;
mod rw_lock;
mod semaphore;

pub use rw_lock::{ReadGuard, RwLock, WriteGuard};
pub use semaphore::{Permit, Semaphore};
