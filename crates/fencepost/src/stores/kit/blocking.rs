//! Opening a store from a program without an async runtime.

use std::future::Future;

use crate::error::{Error, ErrorKind, Operation, Result};

/// Runs `opening` to its end on the calling thread, in a runtime that ends with it.
///
/// # Errors
/// Returns [`ErrorKind::WrongContext`] inside an async runtime, which the call would stall, and otherwise what `opening` returns.
pub(crate) fn open<T>(store: &'static str, opening: impl Future<Output = Result<T>>) -> Result<T> {
    let wrong = |message| Error::new(ErrorKind::WrongContext, store, Operation::Open, message);
    if tokio::runtime::Handle::try_current().is_ok() {
        return Err(wrong(
            "a blocking call inside an async runtime would stall it; use open there",
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| wrong("cannot start a runtime").with_source(error))?;
    runtime.block_on(opening)
}
