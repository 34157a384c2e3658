//! [`lock`]: locks a mutex and ignores poisoning.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex and ignores poisoning. The only code of others that runs under these mutexes is the clock of a backend, and the subscriber
/// of `tracing` when it gets a warning of the reaper. If one of them panics, nothing is half changed; at worst a lease ends by its TTL. It is
/// not for [`resource`](crate::resource), which calls user code under its mutexes.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
