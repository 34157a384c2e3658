//! The background thread of a blocking locker, and the runtime in it.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::clock::{Clock, within};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::mutex::lock;
use crate::reaper::OpenErrands;

/// The background thread. It ends after the last locker and guard are dropped and everything they held is released.
#[derive(Debug)]
pub(super) struct Worker {
    runtime: Option<Runtime>,
    errands: Arc<OpenErrands>,
    /// How long the end of the thread may take.
    shutdown_timeout: Duration,
    /// The name of the store, for errors.
    store: &'static str,
}

impl Worker {
    pub(super) fn start(
        errands: Arc<OpenErrands>,
        shutdown_timeout: Duration,
        store: &'static str,
    ) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("fencepost")
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => Ok(Self {
                runtime: Some(runtime),
                errands,
                shutdown_timeout,
                store,
            }),
            Err(error) => {
                let message = "cannot start the background thread";
                let unavailable = ErrorKind::Unavailable;
                Err(Error::new(unavailable, store, Operation::Open, message).with_source(error))
            }
        }
    }

    /// Runs the future to completion. `operation` is what a refusal names.
    pub(super) fn wait<F: Future>(&self, operation: Operation, future: F) -> Result<F::Output> {
        if Handle::try_current().is_ok() {
            let message = "a blocking call inside an async runtime would stall it; use fencepost::Locker there";
            let wrong_context = ErrorKind::WrongContext;
            return Err(Error::new(wrong_context, self.store, operation, message));
        }
        let runtime = self.runtime.as_ref();
        let runtime = runtime.expect("only `drop` takes the runtime");
        Ok(runtime.block_on(future))
    }

    /// Waits for the loss of a lock, which is the end of its renewals. Returns `None` if the future did not complete within `timeout`.
    pub(super) fn wait_for_loss<F: Future>(
        &self,
        clock: &dyn Clock,
        timeout: Duration,
        future: F,
    ) -> Result<Option<F::Output>> {
        let until = clock.now() + timeout;
        self.wait(Operation::Renew, within(clock, until, future))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        let (errands, timeout) = (self.errands.clone(), self.shutdown_timeout);
        if Handle::try_current().is_err() {
            return finish(runtime, &errands, timeout);
        }
        // Waiting here would stall the async runtime that we are in, and a runtime must not be dropped in it.
        let runtime = Arc::new(Mutex::new(Some(runtime)));
        let handed_over = runtime.clone();
        let thread = std::thread::Builder::new().name("fencepost-end".into());
        let started = thread.spawn(move || {
            if let Some(runtime) = lock(&handed_over).take() {
                finish(runtime, &errands, timeout);
            }
        });
        if let Err(error) = started
            && let Some(runtime) = lock(&runtime).take()
        {
            tracing::warn!(%error, "no thread could be started; what is not released ends with its TTL");
            runtime.shutdown_background();
        }
    }
}

/// Waits until everything is released, for at most `timeout`, and ends the runtime.
fn finish(runtime: Runtime, errands: &OpenErrands, timeout: Duration) {
    runtime.block_on(async {
        let done = tokio::time::timeout(timeout, errands.done());
        if done.await.is_err() {
            tracing::warn!("ended before the store had confirmed every release");
        }
    });
    runtime.shutdown_background();
}
