//! Counts how often the lab was right.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A count of successes among a total.
pub(crate) struct Rate {
    right: AtomicU64,
    all: AtomicU64,
}

impl Rate {
    const fn new() -> Self {
        Self {
            right: AtomicU64::new(0),
            all: AtomicU64::new(0),
        }
    }

    pub(crate) fn count(&self, is_right: bool) {
        self.all.fetch_add(1, Relaxed);
        self.right.fetch_add(u64::from(is_right), Relaxed);
    }

    fn figures(&self) -> String {
        format!("{} of {}", self.right.load(Relaxed), self.all.load(Relaxed))
    }
}

/// Bad locks that were convicted every time, per lock.
pub(crate) static CONVICTED: Rate = Rate::new();
/// The same, per run.
pub(crate) static CONVICTIONS: Rate = Rate::new();
/// Subjects whose misbehaviour was reported every time.
pub(crate) static REPORTED: Rate = Rate::new();
/// Runs of good or harmless locks that ended in an accusation.
pub(crate) static FALSE_ALARMS: Rate = Rate::new();
/// Runs of good locks that were acquitted.
pub(crate) static ACQUITTALS: Rate = Rate::new();
/// Runs of good locks whose lab was stopped again and again, and that ended in an accusation.
pub(crate) static STOPPED: Rate = Rate::new();
/// The same, had the lab not noticed.
pub(crate) static STOPPED_UNAWARE: Rate = Rate::new();

pub(crate) fn print() {
    let is_empty = |rate: &Rate| rate.all.load(Relaxed) == 0;
    if !is_empty(&STOPPED) {
        println!(
            "with a stopped lab: false alarms {} (had it not noticed: {})",
            STOPPED.figures(),
            STOPPED_UNAWARE.figures(),
        );
    }
    if is_empty(&CONVICTED) && is_empty(&REPORTED) && is_empty(&FALSE_ALARMS) {
        return;
    }
    println!(
        "convicted {} (runs: {}), reported {}, false alarms {} (acquitted {}, the rest showed nothing)",
        CONVICTED.figures(),
        CONVICTIONS.figures(),
        REPORTED.figures(),
        FALSE_ALARMS.figures(),
        ACQUITTALS.figures(),
    );
}
