//! [`lock`]: locks a mutex and ignores poisoning.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex and ignores poisoning. The only code of a user that runs under one of these mutexes is a source of random numbers. If that
/// panics, nothing is half changed; at worst a lease ends by its TTL. It is not for [`resource`](crate::resource), which calls user code
/// under its mutexes.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
