//! Turns the reason why a trial ended without a verdict into an error message.

use std::path::Path;

use fencepost_trial::processes::Stopped;
use fencepost_trial::text::numbers::plural;

use crate::command_error::{CommandError, system_words};
use crate::exit;

/// The flags of a command that its error messages mention.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct UsedFlags<'a> {
    /// The file that receives the history, after the flag that named it.
    pub(crate) history: Option<(&'static str, &'a Path)>,
    /// Whether `--concurrency` sets the number of processes.
    pub(crate) has_concurrency: bool,
}

/// The error message for a trial without a verdict.
pub(crate) fn explain(stopped: &Stopped, flags: UsedFlags<'_>) -> CommandError {
    let history = flags.history.map(|(_, path)| path);
    match stopped {
        Stopped::Interrupted {
            signal,
            progress,
            stopped,
            events,
        } => {
            let what = format!("{progress}. No verdict.");
            let error = CommandError::interrupted(exit::interrupted(*signal), what).with(
                "stopped",
                format_args!(
                    "{}; nothing is left running, no temporary file stays",
                    plural(*stopped, "process", "processes")
                ),
            );
            match history {
                Some(path) => {
                    let path = path.display();
                    let events = plural(*events, "event", "events");
                    let check = format!("{path}, {events}: fencepost check {path}");
                    error.with("kept", check)
                }
                None => error,
            }
        }
        Stopped::Store(message) => CommandError::new(exit::STORE, "cannot use the store")
            .at(message)
            .effect("none: the trial did not take place"),
        Stopped::StoreLost { message, events } => {
            let error =
                CommandError::new(exit::STORE, "the store was lost during the trial").at(message);
            let events = plural(*events, "event", "events");
            match history {
                None => error.effect(format_args!("a part: {events}. No verdict.")),
                Some(path) => error.effect(format_args!(
                    "a part: {events}, in {}. No verdict.",
                    path.display()
                )),
            }
        }
        Stopped::TooManyFiles {
            asked,
            wanted,
            allowed,
            processes,
        } => CommandError::new(
            exit::INTERNAL,
            format!("{asked} processes are too many here"),
        )
        .at(format_args!(
            "open files: {wanted} are needed, {allowed} are allowed"
        ))
        .effect("none: no process was started")
        .try_this(if flags.has_concurrency {
            format!("ulimit -n {wanted}, or --concurrency={processes}")
        } else {
            format!("ulimit -n {wanted}")
        }),
        Stopped::NotStarted { program, error } => {
            CommandError::new(exit::INTERNAL, format!("cannot start '{program}'"))
                .at(system_words(error))
                .effect("none: the trial had not begun")
        }
        Stopped::NotReady {
            who,
            what,
            last_words,
        } => {
            let error = CommandError::new(exit::SUBJECT, format!("{who} did not get ready"))
                .at(format_args!("{who} {what}"));
            let error = last_words
                .iter()
                .fold(error, |error, words| error.with("said", words));
            error.effect("none: the trial had not begun")
        }
        Stopped::History {
            error,
            progress,
            events,
        } => {
            let (flag, path) = match flags.history {
                Some((flag, path)) => (flag, path.display().to_string()),
                None => ("--history", String::new()),
            };
            let error = CommandError::new(exit::WRITE_FAILED, "cannot write the history")
                .at(format_args!("{flag} {path}: {}", system_words(error)));
            if *events == 0 {
                return error.effect("none: the trial had not begun");
            }
            error.effect(format_args!(
                "maybe: {progress}; {path} ends at #{events} and is readable"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_history() -> UsedFlags<'static> {
        UsedFlags {
            history: Some(("--history", Path::new("run.jsonl"))),
            has_concurrency: true,
        }
    }

    #[test]
    fn only_flags_of_the_command_are_named() {
        let of_run_all = UsedFlags {
            history: Some(("--output", Path::new("results/crash.safe.jsonl"))),
            has_concurrency: false,
        };
        let unwritten = Stopped::History {
            error: std::io::Error::from_raw_os_error(28),
            progress: "1 of 50 attempts is answered".into(),
            events: 9,
        };
        let error = format!("{:?}", explain(&unwritten, of_run_all));
        let place = "--output results/crash.safe.jsonl: ";
        assert!(
            error.contains(place) && !error.contains("--history"),
            "{error}"
        );
        let crowded = Stopped::TooManyFiles {
            asked: 50,
            wanted: 400,
            allowed: 64,
            processes: 3,
        };
        let error = format!("{:?}", explain(&crowded, of_run_all));
        assert!(
            error.contains("ulimit -n 400") && !error.contains("--concurrency"),
            "{error}"
        );
        let error = format!("{:?}", explain(&crowded, with_history()));
        assert!(
            error.contains("ulimit -n 400, or --concurrency=3"),
            "{error}"
        );
    }

    #[test]
    fn one_process_is_not_several() {
        let stopped = Stopped::Interrupted {
            signal: fencepost_rig::Signal::SIGINT,
            progress: "the crash trial was not finished".into(),
            stopped: 1,
            events: 1,
        };
        let error = format!("{:?}", explain(&stopped, with_history()));
        assert!(error.contains("\"1 process; nothing is left"), "{error}");
        assert!(error.contains("\"run.jsonl, 1 event: "), "{error}");
    }
}
