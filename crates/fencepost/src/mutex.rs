//! [`lock`]: locks a mutex and ignores poisoning.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex and ignores poisoning. Nothing panics while it holds one of the mutexes that are locked with this function, and if
/// something did, the data would still be consistent. It is not for [`resource`](crate::resource), which calls user code under its mutexes.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
