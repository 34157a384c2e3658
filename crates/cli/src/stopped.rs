//! Turns the reason why a trial ended without a verdict into an error message.

use std::path::Path;

use fencepost_trial::processes::Stopped;
use fencepost_trial::text::numbers::plural;

use crate::exit;
use crate::fault::{Fault, system_words};

/// The error message for a trial without a verdict.
pub(crate) fn explain(stopped: &Stopped, history: Option<&Path>) -> Fault {
    match stopped {
        Stopped::Interrupted {
            signal,
            progress,
            stopped,
            events,
        } => {
            let what = format!("{progress}. No verdict.");
            let fault = Fault::interrupted(exit::interrupted(*signal), what).with(
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
                    fault.with("kept", check)
                }
                None => fault,
            }
        }
        Stopped::Store(message) => Fault::new(exit::STORE, "cannot use the store")
            .at(message)
            .effect("none: the trial did not take place"),
        Stopped::StoreLost { message, events } => {
            let fault = Fault::new(exit::STORE, "the store was lost during the trial").at(message);
            let events = plural(*events, "event", "events");
            match history {
                None => fault.effect(format_args!("a part: {events}. No verdict.")),
                Some(path) => fault.effect(format_args!(
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
        } => Fault::new(
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
        Stopped::NotReady {
            who,
            what,
            last_words,
        } => {
            let fault = Fault::new(exit::INTERNAL, format!("{who} did not get ready"))
                .at(format_args!("{who} {what}"));
            let fault = last_words
                .iter()
                .fold(fault, |fault, words| fault.with("said", words));
            fault.effect("none: the trial had not begun")
        }
        Stopped::History {
            error,
            progress,
            events,
        } => {
            let path = history
                .map(|path| path.display().to_string())
                .unwrap_or_default();
            let fault = Fault::new(exit::WRITE_FAILED, "cannot write the history")
                .at(format_args!("--history {path}: {}", system_words(error)));
            if *events == 0 {
                return fault.effect("none: the trial had not begun");
            }
            fault.effect(format_args!(
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
        let fault = format!("{:?}", explain(&stopped, Some(Path::new("run.jsonl"))));
        assert!(fault.contains("\"1 process; nothing is left"), "{fault}");
        assert!(fault.contains("\"run.jsonl, 1 event: "), "{fault}");
    }
}
