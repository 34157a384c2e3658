//! The background task of a locker, which renews its leases and releases what was left at the store.
//!
//! It runs in the runtime of the first call. If that runtime ends, the next call starts it again in its own runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::Engine;
use crate::error::{ErrorKind, Operation, Result};
use crate::keeper;
use crate::mutex::lock;
use crate::reaper;

/// Returns an error if the locker is closed or there is no runtime; otherwise makes sure that the background task runs.
pub(crate) fn ready(engine: &Arc<Engine>) -> Result<()> {
    if engine.is_closed() {
        return Err(engine.closed_error());
    }
    hire(engine)
}

/// Starts the background task if it is not running.
pub(crate) fn hire(engine: &Arc<Engine>) -> Result<()> {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return Err(engine.error(
            ErrorKind::WrongContext,
            Operation::Acquire,
            "called outside a Tokio runtime; use fencepost::blocking there",
        ));
    };
    if engine.on_duty.load(Ordering::Acquire) {
        return Ok(());
    }
    // Other callers wait here until the reaper can be reached.
    let _hiring = lock(&engine.hiring);
    if !engine.on_duty.load(Ordering::Acquire) {
        let errands = engine.reaper.open();
        let keeping = keeper::keep(Arc::downgrade(engine), engine.alarm.clone());
        let timeout = engine.settings.store_timeout;
        let reaping = reaper::reap(errands, engine.backend.clone(), timeout);
        let off_duty = OffDuty(engine.on_duty.clone());
        // Set the flag before the task exists: a runtime that is shutting down drops the task inside `spawn`, which clears the flag.
        engine.on_duty.store(true, Ordering::Release);
        runtime.spawn(async move {
            let _off_duty = off_duty;
            tokio::join!(keeping, reaping);
        });
    }
    Ok(())
}

/// Clears the flag when the background task ends, including when its runtime shuts down.
struct OffDuty(Arc<AtomicBool>);

impl Drop for OffDuty {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
