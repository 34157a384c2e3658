//! Errors as people read them: what, where, whether it had an effect, what to do.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use fencepost_trial::text::ink::{Ink, Role};
use fencepost_trial::text::wrap::wrapped;

use crate::terminal::{self, Wishes};

/// Why a command did not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    code: u8,
    kind: &'static str,
    what: String,
    lines: Vec<(&'static str, String)>,
}

impl Fault {
    /// An error.
    pub(crate) fn new(code: u8, what: impl Into<String>) -> Self {
        Self {
            code,
            kind: "error",
            what: what.into(),
            lines: Vec::new(),
        }
    }

    /// Somebody stopped the program.
    pub(crate) fn interrupted(code: u8, what: impl Into<String>) -> Self {
        Self {
            kind: "interrupted",
            ..Self::new(code, what)
        }
    }

    /// Where: a flag, a file, an address, with the system's words.
    pub(crate) fn at(self, place: impl Display) -> Self {
        self.with("where", place)
    }

    /// What it changed, or may have.
    pub(crate) fn effect(self, effect: impl Display) -> Self {
        self.with("effect", effect)
    }

    /// What to do.
    pub(crate) fn try_this(self, advice: impl Display) -> Self {
        self.with("try", advice)
    }

    /// A further line; the same label is not repeated.
    pub(crate) fn with(mut self, label: &'static str, text: impl Display) -> Self {
        let again = self.lines.iter().any(|(earlier, _)| *earlier == label);
        self.lines
            .push((if again { "" } else { label }, text.to_string()));
        self
    }

    pub(crate) fn text(&self, ink: Ink) -> String {
        let mut text = format!(
            "{} {}\n",
            ink.paint(Role::Bad, format_args!("{}:", self.kind)),
            self.what
        );
        for (label, line) in &self.lines {
            text.push_str(&ink.labelled(label, line));
        }
        ink.glyphs(&text)
    }
}

/// Writes the fault to standard error.
pub(crate) fn report(fault: &Fault, wishes: Wishes) -> ExitCode {
    let is_terminal = io::stderr().is_terminal();
    let ink = terminal::ink(wishes.colour, wishes.ascii, is_terminal);
    let text = fault.text(ink);
    let text = if is_terminal {
        wrapped(&text, ink.columns)
    } else {
        text
    };
    // Nobody is left to be told when standard error is closed.
    let _ = io::stderr().write_all(text.as_bytes());
    ExitCode::from(fault.code)
}

/// The system's words, without its number and capital.
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
    fn a_fault_reads_from_what_to_try() {
        let fault = Fault::new(73, "cannot write the results")
            .at("--output results/safe.json: no such directory (results)")
            .effect("none: checked before the run")
            .try_this("mkdir results");
        assert_eq!(
            fault.text(Ink::PLAIN),
            "error: cannot write the results\n\
             \x20 where     --output results/safe.json: no such directory (results)\n\
             \x20 effect    none: checked before the run\n\
             \x20 try       mkdir results\n"
        );
    }

    #[test]
    fn the_system_speaks_in_the_middle_of_a_sentence() {
        let error = io::Error::from_raw_os_error(28);
        assert_eq!(system_words(&error), "no space left on device");
    }
}
