//! Turns the reason why a trial ended without a verdict into an error message.

use std::path::Path;

use fencepost_trial::processes::Stopped;
use fencepost_trial::text::numbers::plural;

use crate::command_error::{CommandError, system_words};
use crate::exit;

/// The error message for a trial without a verdict.
pub(crate) fn explain(stopped: &Stopped, history: Option<&Path>) -> CommandError {
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
        .try_this(format_args!(
            "ulimit -n {wanted}, or --concurrency={processes}"
        )),
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
            let path = history
                .map(|path| path.display().to_string())
                .unwrap_or_default();
            let error = CommandError::new(exit::WRITE_FAILED, "cannot write the history")
                .at(format_args!("--history {path}: {}", system_words(error)));
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

    #[test]
    fn one_process_is_not_several() {
        let stopped = Stopped::Interrupted {
            signal: fencepost_rig::Signal::SIGINT,
            progress: "the crash trial was not finished".into(),
            stopped: 1,
            events: 1,
        };
        let error = format!("{:?}", explain(&stopped, Some(Path::new("run.jsonl"))));
        assert!(error.contains("\"1 process; nothing is left"), "{error}");
        assert!(error.contains("\"run.jsonl, 1 event: "), "{error}");
    }
}
