//! Opens a store from a program without an async runtime.

use std::future::Future;

use crate::error::{Error, ErrorKind, Operation, Result};

/// Runs `opening` to completion on the calling thread, in a temporary runtime. The runtime ends with this call, and with it the tasks of
/// the connection: the first request of the locker connects again.
///
/// # Errors
/// Returns [`ErrorKind::WrongContext`] inside an async runtime, which the call would stall, [`ErrorKind::Unavailable`] if no runtime can be
/// started, and otherwise the error of `opening`.
pub(crate) fn open<T>(store: &'static str, opening: impl Future<Output = Result<T>>) -> Result<T> {
    let failed = |kind, message| Error::new(kind, store, Operation::Open, message);
    if tokio::runtime::Handle::try_current().is_ok() {
        return Err(failed(
            ErrorKind::WrongContext,
            "a blocking call inside an async runtime would stall it; use open there",
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            failed(ErrorKind::Unavailable, "cannot start a runtime").with_source(error)
        })?;
    runtime.block_on(opening)
}
