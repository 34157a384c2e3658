//! Kinds of lock beside the mutex: each is a few rules on top of a [`Locker`](crate::Locker).
//!
//! | kind | what it allows | where |
//! |---|---|---|
//! | election | one leader at a time, with a value that everybody can see | [`election`] |
//! | once | a job on one machine at a time, for a limited time, and not twice for the same slot of its schedule | [`once`] |
//! | semaphore | several holders of permits at the same time | [`Semaphore`] |
//! | read-write lock | many readers, or one writer | [`RwLock`] |
//!
//! All keep the promises of the mutex: a validity that ends before the lease, a signal at a loss, a fence, and nothing left behind.
//! Semaphores and read-write locks need a store that keeps records and has a clock, and exclude only users of this library.

pub mod election;
mod held;
pub mod once;
mod rw_lock;
mod semaphore;

pub use rw_lock::{ReadGuard, RwLock, WriteGuard};
pub use semaphore::{Permit, Semaphore};
