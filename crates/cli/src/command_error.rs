//! Error messages of the command line: what failed, where, whether it had an effect, and what to try.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use fencepost_trial::text::ink::{Ink, Role};
use fencepost_trial::text::wrap::wrapped;

use crate::terminal::{self, OutputStyle};

/// An error message and its exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandError {
    code: u8,
    kind: &'static str,
    what: String,
    lines: Vec<(&'static str, String)>,
}

impl CommandError {
    /// Creates an error with this exit code and message.
    pub(crate) fn new(code: u8, what: impl Into<String>) -> Self {
        Self {
            code,
            kind: "error",
            what: what.into(),
            lines: Vec::new(),
        }
    }

    /// Creates the error for a program that the user stopped.
    pub(crate) fn interrupted(code: u8, what: impl Into<String>) -> Self {
        Self {
            kind: "interrupted",
            ..Self::new(code, what)
        }
    }

    /// Adds where it happened: a flag, a file or an address, with the system's message.
    pub(crate) fn at(self, place: impl Display) -> Self {
        self.with("where", place)
    }

    /// Adds what the command changed, or may have changed.
    pub(crate) fn effect(self, effect: impl Display) -> Self {
        self.with("effect", effect)
    }

    /// Adds what the user can try.
    pub(crate) fn try_this(self, advice: impl Display) -> Self {
        self.with("try", advice)
    }

    /// Adds a line. If the line before it has the same label, the label is not printed again.
    pub(crate) fn with(mut self, label: &'static str, text: impl Display) -> Self {
        self.lines.push((label, text.to_string()));
        self
    }

    /// Returns what failed and where, in one sentence.
    pub(crate) fn in_short(&self) -> String {
        match self.lines.iter().find(|(label, _)| *label == "where") {
            Some((_, place)) => format!("{}: {place}", self.what),
            None => self.what.clone(),
        }
    }

    pub(crate) fn text(&self, ink: Ink) -> String {
        let mut text = format!(
            "{} {}\n",
            ink.paint(Role::Bad, format_args!("{}:", self.kind)),
            self.what
        );
        let mut last = "";
        for (label, line) in &self.lines {
            let shown = if *label == last { "" } else { label };
            text.push_str(&ink.labelled(shown, line));
            last = label;
        }
        ink.glyphs(&text)
    }
}

/// Writes the error to standard error.
pub(crate) fn report(error: &CommandError, style: OutputStyle) -> ExitCode {
    let is_terminal = io::stderr().is_terminal();
    let ink = terminal::ink(style.colour, style.ascii, is_terminal);
    let text = error.text(ink);
    let text = if is_terminal {
        wrapped(&text, ink.columns)
    } else {
        text
    };
    // If standard error is closed, there is nowhere left to report to.
    let _ = io::stderr().write_all(text.as_bytes());
    ExitCode::from(error.code)
}

/// Returns the system's message for an error, without the error number and in lower case.
pub(crate) fn system_words(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_lowercase().collect::<String>() + letters.as_str()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_from_what_to_try() {
        let error = CommandError::new(73, "cannot write the results")
            .at("--output results/safe.json: no such directory (results)")
            .effect("none: checked before the run")
            .try_this("mkdir results");
        assert_eq!(
            error.text(Ink::PLAIN),
            "error: cannot write the results\n\
             \x20 where     --output results/safe.json: no such directory (results)\n\
             \x20 effect    none: checked before the run\n\
             \x20 try       mkdir results\n"
        );
    }

    #[test]
    fn only_a_label_that_follows_itself_is_left_out() {
        let error = CommandError::new(64, "no")
            .at("--a")
            .at("--b")
            .try_this("c")
            .at("--d");
        assert_eq!(
            error.text(Ink::PLAIN),
            "error: no\n\
             \x20 where     --a\n\
             \x20           --b\n\
             \x20 try       c\n\
             \x20 where     --d\n"
        );
    }

    #[test]
    fn the_system_speaks_in_the_middle_of_a_sentence() {
        let error = io::Error::from_raw_os_error(28);
        assert_eq!(system_words(&error), "no space left on device");
    }
}
