//! Runs a lock trial and records its history.

use std::time::Duration;

use crate::history::{Event, Header};
use crate::processes::ANSWER_TIMEOUT;

pub(in crate::holds) mod chance;
mod clocks;
mod lease_start;
mod roads;
mod script;
mod servers;
mod stage;

pub use script::NAMES;
pub(crate) use script::{HOLDER, OTHER, THIRD};
pub use stage::run;

/// How long it may take until the effect of a signal is visible.
const WITNESS_TIMEOUT: Duration = Duration::from_secs(10);

/// Observes a run, and sets its time limits. By default, it observes nothing and the limits are the usual ones.
pub trait LockWatch {
    /// Returns how long a process may be silent while it starts, or beyond the time it was asked to wait.
    fn answer_timeout(&self) -> Duration {
        ANSWER_TIMEOUT
    }

    /// Returns how long the lab looks for the effect of a signal. A stop or a kill that it does not see is not recorded.
    fn witness_timeout(&self) -> Duration {
        WITNESS_TIMEOUT
    }

    /// Called while processes start: `ready` of `of` are ready.
    fn starting(&mut self, ready: usize, of: usize) {
        let _ = (ready, of);
    }

    /// Called after every event, and regularly in between, with the history so far and the current time.
    fn progressed(&mut self, header: &Header, events: &[Event], now_ns: u64) {
        let _ = (header, events, now_ns);
    }
}

/// Observes nothing.
impl LockWatch for () {}
