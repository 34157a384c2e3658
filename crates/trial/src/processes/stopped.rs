//! Why a run has no verdict.

use std::io;

use fencepost_rig::Signal;

use crate::protocol::Failure;

/// A run without a verdict.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// Somebody asked the program to stop.
    #[error("interrupted by {signal}")]
    Interrupted {
        /// How.
        signal: Signal,
        /// How far it had come, such as `23 of 50 attempts were answered`.
        progress: String,
        /// Processes that were stopped.
        stopped: usize,
        /// Events in the history.
        events: usize,
    },
    /// The store cannot be used.
    #[error("{0}")]
    Store(String),
    /// The store could not be used any more when the trial was under way.
    #[error("{message}")]
    StoreLost {
        /// Why.
        message: String,
        /// Events in the history.
        events: usize,
    },
    /// The system does not let so many processes be spoken to.
    #[error("{wanted} open files are needed, {allowed} are allowed")]
    TooManyFiles {
        /// Processes asked for.
        asked: usize,
        /// Open files needed.
        wanted: u64,
        /// Open files allowed.
        allowed: u64,
        /// How many processes would do.
        processes: u64,
    },
    /// A process could not be started, or did not get ready.
    #[error("{who}: {what}")]
    NotReady {
        /// Which.
        who: String,
        /// What it did instead.
        what: String,
        /// The last lines of its standard error.
        last_words: Vec<String>,
    },
    /// The history cannot be written.
    #[error("{error}")]
    History {
        /// Why.
        error: io::Error,
        /// How far the run had come.
        progress: String,
        /// The last event in the file.
        events: usize,
    },
}

impl Stopped {
    /// The same after so many events: a store that cannot be used then was lost on the way.
    pub(crate) fn after(self, events: usize) -> Self {
        match self {
            Self::Store(message) if events > 0 => Self::StoreLost { message, events },
            other => other,
        }
    }
}

/// The lab itself cannot use the store.
impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Store(failure.message)
    }
}
