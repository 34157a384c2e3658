//! Turns the reason why a trial ended without a verdict into an error message.

use std::io;
use std::path::Path;

use fencepost_rig::Signal;
use fencepost_trial::processes::NoVerdict;
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

/// What a command without a verdict says if it changed nothing.
const NOT_BEGUN: &str = "none: the trial had not begun";
/// How to find out what is wrong with a store.
const DOCTOR: &str = "fencepost doctor --store …";

/// Returns the error message for a trial without a verdict.
pub(crate) fn explain(no_verdict: &NoVerdict, flags: UsedFlags<'_>) -> CommandError {
    match no_verdict {
        NoVerdict::Interrupted {
            signal,
            progress,
            stopped,
            events,
        } => interrupted(*signal, progress, *stopped, *events, flags),
        NoVerdict::Store(message) => CommandError::new(exit::STORE, "cannot use the store")
            .at(message)
            .effect("none: the trial did not take place")
            .try_this(DOCTOR),
        NoVerdict::StoreLost { message, events } => store_lost(message, *events, flags),
        NoVerdict::Lab(message) => CommandError::new(exit::INTERNAL, "the lab itself failed")
            .at(message)
            .effect(NOT_BEGUN),
        NoVerdict::Refused { who, message } => {
            CommandError::new(exit::SUBJECT, "the lock refused to get ready")
                .at(format_args!("{who}: {message}"))
                .effect(NOT_BEGUN)
        }
        NoVerdict::TooManyFiles {
            asked,
            wanted,
            allowed,
            processes,
        } => too_many_files(*asked, *wanted, *allowed, *processes, flags),
        NoVerdict::NotStarted { program, error } => {
            CommandError::new(exit::INTERNAL, format!("cannot start '{program}'"))
                .at(system_words(error))
                .effect(NOT_BEGUN)
        }
        NoVerdict::NotReady {
            who,
            what,
            last_words,
        } => not_ready(who, what, last_words),
        NoVerdict::NotRestarted { who, what, events } => {
            CommandError::new(exit::INTERNAL, "a process could not be started again")
                .at(format_args!("{who} {what}"))
                .effect(a_part(*events, flags))
        }
        NoVerdict::History {
            error,
            progress,
            events,
        } => unwritten(error, progress, *events, flags),
    }
}

fn interrupted(
    signal: Signal,
    progress: &str,
    stopped: usize,
    events: usize,
    flags: UsedFlags<'_>,
) -> CommandError {
    let what = format!("{progress}. No verdict.");
    let error = CommandError::interrupted(exit::interrupted(signal), what).with(
        "stopped",
        format_args!(
            "{}; nothing is left running, no temporary file stays",
            plural(stopped, "process", "processes")
        ),
    );
    match flags.history {
        Some((_, path)) => {
            let path = path.display();
            let events = plural(events, "event", "events");
            let check = format!("{path}, {events}: fencepost check {path}");
            error.with("kept", check)
        }
        None => error,
    }
}

fn store_lost(message: &str, events: usize, flags: UsedFlags<'_>) -> CommandError {
    CommandError::new(exit::STORE, "the store was lost during the trial")
        .at(message)
        .effect(a_part(events, flags))
        .try_this(DOCTOR)
}

/// Says how much of a trial was recorded, and where.
fn a_part(events: usize, flags: UsedFlags<'_>) -> String {
    let events = plural(events, "event", "events");
    match flags.history {
        None => format!("a part: {events}. No verdict."),
        Some((_, path)) => format!("a part: {events}, in {}. No verdict.", path.display()),
    }
}

fn too_many_files(
    asked: usize,
    wanted: u64,
    allowed: u64,
    processes: u64,
    flags: UsedFlags<'_>,
) -> CommandError {
    let what = format!("{asked} processes are too many here");
    CommandError::new(exit::INTERNAL, what)
        .at(format_args!(
            "open files: {wanted} are needed, {allowed} are allowed"
        ))
        .effect("none: no process was started")
        .try_this(if flags.has_concurrency {
            format!("ulimit -n {wanted}, or --concurrency={processes}")
        } else {
            format!("ulimit -n {wanted}")
        })
}

fn not_ready(who: &str, what: &str, last_words: &[String]) -> CommandError {
    let error = CommandError::new(exit::SUBJECT, format!("{who} did not get ready"))
        .at(format_args!("{who} {what}"));
    let said = last_words
        .iter()
        .fold(error, |error, words| error.with("said", words));
    said.effect(NOT_BEGUN)
}

/// Returns the error for a history that could not be written.
fn unwritten(
    error: &io::Error,
    progress: &str,
    events: usize,
    flags: UsedFlags<'_>,
) -> CommandError {
    let (flag, path) = match flags.history {
        Some((flag, path)) => (flag, path.display().to_string()),
        None => ("--history", String::new()),
    };
    let error = CommandError::new(exit::WRITE_FAILED, "cannot write the history")
        .at(format_args!("{flag} {path}: {}", system_words(error)));
    if events == 0 {
        return error.effect(NOT_BEGUN);
    }
    error.effect(format_args!(
        "maybe: {progress}; {path} ends at #{events} and is readable"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_trial::text::ink::Ink;

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
        let unwritten = NoVerdict::History {
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
        let crowded = NoVerdict::TooManyFiles {
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
    fn a_failure_of_the_lab_is_not_blamed_on_the_store() {
        let lab =
            NoVerdict::Lab("cannot create the file that starts all processes at once: x".into());
        let error = explain(&lab, with_history()).text(Ink::PLAIN);
        assert_eq!(
            error,
            "error: the lab itself failed\n  where     cannot create the file that starts all processes at once: x\n  \
             effect    none: the trial had not begun\n"
        );
        let store = NoVerdict::Store("it is gone".into());
        let error = explain(&store, with_history()).text(Ink::PLAIN);
        assert!(
            error.ends_with("  try       fencepost doctor --store …\n"),
            "{error}"
        );
    }

    #[test]
    fn one_process_is_not_several() {
        let no_verdict = NoVerdict::Interrupted {
            signal: fencepost_rig::Signal::SIGINT,
            progress: "the crash trial was not finished".into(),
            stopped: 1,
            events: 1,
        };
        let error = format!("{:?}", explain(&no_verdict, with_history()));
        assert!(error.contains("\"1 process; nothing is left"), "{error}");
        assert!(error.contains("\"run.jsonl, 1 event: "), "{error}");
    }
}
