//! The reasons why a run ends without a verdict.

use std::io;

use fencepost_rig::Signal;

use crate::protocol::Failure;

/// The reason why a run has no verdict.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// A signal asked the program to stop.
    #[error("interrupted by {signal}")]
    Interrupted {
        /// The signal.
        signal: Signal,
        /// How far the run had come, such as `23 of 50 attempts were answered`.
        progress: String,
        /// The number of processes that were stopped.
        stopped: usize,
        /// The number of events in the history.
        events: usize,
    },
    /// The store cannot be used.
    #[error("{0}")]
    Store(String),
    /// The store became unusable during the trial.
    #[error("{message}")]
    StoreLost {
        /// The reason.
        message: String,
        /// The number of events in the history.
        events: usize,
    },
    /// The lab itself failed.
    #[error("{0}")]
    Lab(String),
    /// The lock on trial answered `init` with an error.
    #[error("{who}: {message}")]
    Refused {
        /// The name of the process.
        who: String,
        /// Its message.
        message: String,
    },
    /// The system does not allow enough open files for this many processes.
    #[error("{wanted} open files are needed, {allowed} are allowed")]
    TooManyFiles {
        /// The number of processes that were requested.
        asked: usize,
        /// The number of open files that are needed.
        wanted: u64,
        /// The number of open files that are allowed.
        allowed: u64,
        /// The number of processes that would be possible.
        processes: u64,
    },
    /// A process could not be started.
    #[error("cannot start '{program}': {error}")]
    NotStarted {
        /// The program.
        program: String,
        /// The reason.
        error: io::Error,
    },
    /// A process did not become ready.
    #[error("{who}: {what}")]
    NotReady {
        /// The name of the process.
        who: String,
        /// What it did instead.
        what: String,
        /// The last lines of its standard error.
        last_words: Vec<String>,
    },
    /// The history cannot be written.
    #[error("{error}")]
    History {
        /// The reason.
        error: io::Error,
        /// How far the run had come.
        progress: String,
        /// The last event in the file.
        events: usize,
    },
}

impl Stopped {
    /// Returns the process and what it did instead of getting ready, if the program on trial is the reason.
    pub fn not_ready(&self) -> Option<(Option<&str>, String)> {
        match self {
            Self::Refused { who, message } => Some((Some(who), format!("it says: {message}"))),
            Self::NotReady {
                who,
                what,
                last_words,
            } => {
                let said = last_words.last().map(|words| format!(" ({words})"));
                Some((Some(who), format!("it {what}{}", said.unwrap_or_default())))
            }
            Self::NotStarted { error, .. } => {
                Some((None, format!("it cannot be started: {error}")))
            }
            _ => None,
        }
    }

    /// Returns the reason if the lock is one of ours: it refuses to get ready only if it cannot use the store.
    pub(crate) fn of_our_lock(self) -> Self {
        match self {
            Self::Refused { message, .. } => Self::Store(message),
            other => other,
        }
    }

    /// Turns an unusable store into a lost one if events were already recorded.
    pub(crate) fn after(self, events: usize) -> Self {
        match self {
            Self::Store(message) if events > 0 => Self::StoreLost { message, events },
            other => other,
        }
    }
}

/// A failure of the lab's own access to the store.
impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Store(failure.message)
    }
}
