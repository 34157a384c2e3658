//! Runs a lock trial and records its history.

use std::fs::File;
use std::process::Command;
use std::time::Duration;

use fencepost_rig::Interrupt;

use super::Trial;
use crate::history::{Event, Header, History};
use crate::processes::{ANSWER_TIMEOUT, Stopped};

mod chance;
mod clocks;
mod lease;
mod roads;
mod script;
mod servers;
mod stage;

pub use script::NAMES;
pub(crate) use script::{HOLDER, OTHER, THIRD};

/// Observes a run while it happens. By default, every method does nothing.
pub trait LockWatch {
    /// Returns how long a process may be silent while it starts, or beyond the time it was asked to wait.
    fn answer_timeout(&self) -> Duration {
        ANSWER_TIMEOUT
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

/// Runs a lock trial.
///
/// `subject` makes the command of each process; `file` receives the history as it happens.
///
/// Call this function from a thread that outlives the run (see [`fencepost_rig::Child::spawn`]). Whatever the outcome, no
/// process and no temporary file is left when it returns.
///
/// # Errors
/// Returns a [`Stopped`] that says why there is nothing to judge.
pub fn run(
    trial: &Trial,
    subject: &dyn Fn() -> Command,
    file: Option<File>,
    watch: &mut dyn LockWatch,
    interrupt: Interrupt,
) -> Result<History, Stopped> {
    stage::run(trial, subject, file, watch, interrupt)
}
