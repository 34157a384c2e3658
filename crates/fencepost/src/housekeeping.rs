//! The background task of a locker, which renews its leases and releases what was left at the store.
//!
//! It runs in the runtime of the first call. If that runtime ends, the next call starts it again in its own runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Handle;

use crate::engine::Engine;
use crate::keeper;
use crate::mutex::lock;
use crate::reaper;

/// Starts the background task in `runtime` if it is not running anywhere.
pub(crate) fn ensure_running(engine: &Arc<Engine>, runtime: &Handle) {
    if engine.has_housekeeping.load(Ordering::Acquire) {
        return;
    }
    // Other callers wait here until the reaper can be reached.
    let _starting = lock(&engine.starting_housekeeping);
    if !engine.has_housekeeping.load(Ordering::Acquire) {
        let reader = engine.reaper.new_queue();
        let keeping = keeper::keep(Arc::downgrade(engine), engine.alarm.clone());
        let timeout = engine.settings.store_timeout;
        let reaping = reaper::reap(reader, engine.backend.clone(), timeout);
        let clear_on_drop = ClearOnDrop(engine.has_housekeeping.clone());
        // Set the flag before the task exists: a runtime that is shutting down drops the task inside `spawn`, which clears the flag.
        engine.has_housekeeping.store(true, Ordering::Release);
        runtime.spawn(async move {
            let _clear_on_drop = clear_on_drop;
            tokio::join!(keeping, reaping);
        });
    }
}

/// Clears the flag when the background task ends, including when its runtime shuts down.
struct ClearOnDrop(Arc<AtomicBool>);

impl Drop for ClearOnDrop {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
