//! The task of a locker that renews its leases and gives back what was left at the store.
//!
//! It runs in the runtime of the first call. When that runtime ends, the next call starts it again in its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::Engine;
use crate::error::{ErrorKind, Operation, Result};
use crate::keeper;
use crate::lease::lock;
use crate::reaper;

/// Refuses work that could not be finished, and makes sure that somebody renews and tidies up.
pub(crate) fn ready(engine: &Arc<Engine>) -> Result<()> {
    if engine.is_closed() {
        return Err(engine.closed_error());
    }
    hire(engine)
}

/// Starts the task if it is not running.
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
    // Others wait here until the reaper can be reached.
    let _hiring = lock(&engine.hiring);
    if !engine.on_duty.load(Ordering::Acquire) {
        let errands = engine.reaper.open();
        let keeping = keeper::keep(Arc::downgrade(engine), engine.alarm.clone());
        let timeout = engine.settings.store_timeout;
        let reaping = reaper::reap(errands, engine.backend.clone(), timeout);
        let off_duty = OffDuty(engine.on_duty.clone());
        // Before the task is there: a runtime that is shutting down drops it, and clears the flag, inside `spawn`.
        engine.on_duty.store(true, Ordering::Release);
        runtime.spawn(async move {
            let _off_duty = off_duty;
            tokio::join!(keeping, reaping);
        });
    }
    Ok(())
}

/// Clears the flag when the housekeeping task ends, also when a runtime shuts down around it.
struct OffDuty(Arc<AtomicBool>);

impl Drop for OffDuty {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
