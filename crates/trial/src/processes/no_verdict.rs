//! The reasons why a run ends without a verdict.

use std::io;

use fencepost_rig::Signal;

use crate::protocol::Failure;

/// The reason why a run has no verdict.
#[derive(Debug, thiserror::Error)]
pub enum NoVerdict {
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
    /// A process could not be started again, or did not become ready again, during the trial.
    #[error("{who} {what}")]
    NotRestarted {
        /// The name of the process, or its program.
        who: String,
        /// What it did instead.
        what: String,
        /// The number of events in the history.
        events: usize,
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

impl NoVerdict {
    /// Returns the process and what it did instead of getting ready, if the program on trial is the reason and nothing was tried yet.
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

    /// Returns what the reason means after so many recorded events: an unusable store was lost, and a process that does not start or get
    /// ready was started again.
    pub(crate) fn after(self, events: usize) -> Self {
        match self {
            _ if events == 0 => self,
            Self::Store(message) => Self::StoreLost { message, events },
            Self::NotStarted { program, error } => Self::NotRestarted {
                who: format!("'{program}'"),
                what: format!("cannot be started: {error}"),
                events,
            },
            Self::NotReady {
                who,
                what,
                last_words,
            } => {
                let said = last_words.last().map(|words| format!(" ({words})"));
                let what = format!("{what}{}", said.unwrap_or_default());
                Self::NotRestarted { who, what, events }
            }
            other => other,
        }
    }
}

/// A failure of the lab's own access to the store.
impl From<Failure> for NoVerdict {
    fn from(failure: Failure) -> Self {
        Self::Store(failure.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_started() -> NoVerdict {
        NoVerdict::NotStarted {
            program: "./lock".into(),
            error: io::Error::from_raw_os_error(2),
        }
    }

    fn not_ready() -> NoVerdict {
        NoVerdict::NotReady {
            who: "B".into(),
            what: "ended with 4 before it was ready".into(),
            last_words: vec!["no database".into()],
        }
    }

    #[test]
    fn a_process_that_does_not_start_again_leaves_events_and_is_not_unready() {
        for no_verdict in [not_started(), not_ready()] {
            let after = no_verdict.after(9);
            assert!(
                matches!(after, NoVerdict::NotRestarted { events: 9, .. }),
                "{after:?}"
            );
            assert_eq!(after.not_ready(), None);
        }
        assert_eq!(
            not_ready().after(9).to_string(),
            "B ended with 4 before it was ready (no database)"
        );
        assert!(
            not_started()
                .after(9)
                .to_string()
                .starts_with("'./lock' cannot be started: ")
        );
    }

    #[test]
    fn before_the_first_event_nothing_was_tried() {
        for no_verdict in [not_started(), not_ready()] {
            assert!(no_verdict.after(0).not_ready().is_some());
        }
    }
}
