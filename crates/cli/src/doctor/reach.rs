//! Connects to a server that is to be examined, and turns a failure to do so into an error message.

use fencepost::{Error, ErrorKind};

use crate::command_error::CommandError;
use crate::exit;
use crate::store::LockStore;

#[cfg(any(feature = "postgres", feature = "etcd", feature = "zookeeper"))]
/// Runs an examination whose client library needs a tokio runtime.
pub(super) fn in_runtime<T>(
    looking: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| {
        CommandError::new(exit::STORE, "cannot start")
            .at(crate::command_error::system_words(&error))
    })?;
    runtime.block_on(looking)
}

#[cfg(any(feature = "postgres", feature = "etcd", feature = "zookeeper"))]
/// Calls `open` until it succeeds or fails for a reason other than a silent server, at most for [`super::ANSWER_TIMEOUT`].
pub(super) async fn until_it_answers<T, F>(open: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let started = std::time::Instant::now();
    loop {
        match open().await {
            Err(error)
                if error.kind() == ErrorKind::Unavailable
                    && started.elapsed() < super::ANSWER_TIMEOUT =>
            {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            opened => return opened,
        }
    }
}

/// Returns the error for a store that cannot be examined.
pub(super) fn refused(store: &LockStore, error: &Error) -> CommandError {
    let (form, name) = match store {
        LockStore::Address(address) => (address.kind().address_form, address.kind().server),
        LockStore::Sqlite(_) => ("sqlite:PATH", "it"),
    };
    let place = format!("{}: {}", store.place(), error.message());
    match error.kind() {
        ErrorKind::InvalidInput => CommandError::new(exit::USAGE, "not the address of a server")
            .at(place)
            .try_this(form),
        ErrorKind::Unavailable | ErrorKind::Timeout => {
            CommandError::new(exit::STORE, "cannot reach the store")
                .at(place)
                .effect("none: nothing was examined")
                .try_this(format_args!("start {name} there, or give another address"))
        }
        _ => CommandError::new(exit::STORE, "cannot use the store")
            .at(place)
            .effect("none: nothing was examined")
            .try_this(form),
    }
}
