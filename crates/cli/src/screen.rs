//! Standard output and the live area on standard error.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fencepost_trial::text::ink::Ink;
use fencepost_trial::text::wrap::wrapped;

use crate::exit;
use crate::fault::{self, Fault, Wishes, system_words};

/// A live line appears when something takes longer than this.
const SUSPENSE: Duration = Duration::from_secs(1);
/// The width of what is not a terminal.
const PIPE_COLUMNS: usize = 100;

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    /// On a terminal that has not asked for none.
    Auto,
    Always,
    Never,
}

/// What a person sees.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) ink: Ink,
    is_terminal: bool,
    live: bool,
    /// How many lines of the live area are on the screen.
    live_lines: usize,
    started: Instant,
    failure: Option<io::Error>,
    wishes: Wishes,
}

impl Screen {
    pub(crate) fn new(colour: Colour, ascii: bool, quiet: bool) -> Self {
        let is_terminal = io::stdout().is_terminal();
        Self {
            ink: ink(colour, ascii, is_terminal),
            is_terminal,
            live: !quiet && io::stderr().is_terminal(),
            live_lines: 0,
            started: Instant::now(),
            failure: None,
            wishes: Wishes { colour, ascii },
        }
    }

    /// For text that stands for itself, such as help.
    pub(crate) fn plain(wishes: Wishes) -> Self {
        Self::new(Colour::Never, wishes.ascii, true)
    }

    /// Prints, as far as anybody reads: when the pipe is closed (`| head`), the rest goes nowhere, quietly.
    pub(crate) fn print(&mut self, text: &str) {
        self.clear_live();
        if self.failure.is_some() {
            return;
        }
        let mut stdout = io::stdout().lock();
        let written = stdout
            .write_all(self.shown(text).as_bytes())
            .and_then(|()| stdout.flush());
        self.failure = written.err();
    }

    /// The text in the glyphs and the width of this screen. A pipe has no width of its own.
    fn shown(&self, text: &str) -> String {
        let text = self.ink.glyphs(text);
        match self.is_terminal {
            true => wrapped(&text, self.ink.columns),
            false => text,
        }
    }

    /// Prints the one document of `--json`: for people on a terminal, else on a line.
    pub(crate) fn print_json(&mut self, document: &serde_json::Value) {
        let text = if self.is_terminal {
            format!("{document:#}")
        } else {
            document.to_string()
        };
        self.clear_live();
        if self.failure.is_none() {
            self.failure = writeln!(io::stdout().lock(), "{text}").err();
        }
    }

    /// Whether progress can be shown on a line that is written over.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// Shows where things stand, once it takes longer than a moment.
    pub(crate) fn suspense(&mut self, text: &str) {
        if self.started.elapsed() > SUSPENSE {
            self.live(text);
        }
    }

    /// Writes over the live area: as many lines as `text` has, each no wider than the screen.
    pub(crate) fn live(&mut self, text: &str) {
        if !self.live {
            return;
        }
        let width = terminal_columns().saturating_sub(1);
        let text = self.ink.glyphs(text);
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.chars().take(width).collect())
            .collect();
        let back = to_live_start(self.live_lines);
        let _ = write!(io::stderr().lock(), "{back}{}", lines.join("\n"));
        self.live_lines = lines.len();
    }

    pub(crate) fn clear_live(&mut self) {
        let lines = std::mem::take(&mut self.live_lines);
        if lines > 0 {
            let _ = write!(io::stderr().lock(), "{}", to_live_start(lines));
        }
    }

    /// Prints, and ends with 0 unless it could not be printed.
    pub(crate) fn finish(mut self, text: &str) -> ExitCode {
        self.print(text);
        self.end(0)
    }

    /// Ends with `code`, unless standard output failed for another reason than that nobody reads it.
    pub(crate) fn end(mut self, code: u8) -> ExitCode {
        self.clear_live();
        match self.failure.take() {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                let fault = Fault::new(exit::WRITE_FAILED, "cannot write the report");
                let fault = fault.at(format_args!("standard output: {}", system_words(&error)));
                fault::report(&fault, self.wishes)
            }
            _ => ExitCode::from(code),
        }
    }
}

/// Goes back to where the live area begins, and removes it.
fn to_live_start(lines: usize) -> String {
    match lines {
        0 | 1 => "\r\x1b[K".into(),
        more => format!("\r\x1b[{}A\x1b[J", more - 1),
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.clear_live();
    }
}

/// How to write on a stream, by the flags, the environment and what the stream is.
pub(crate) fn ink(colour: Colour, ascii: bool, is_terminal: bool) -> Ink {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let colour = match colour {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto if set("NO_COLOR") => false,
        Colour::Auto
            if std::env::var_os("CLICOLOR_FORCE").is_some_and(|v| !v.is_empty() && v != "0") =>
        {
            true
        }
        Colour::Auto => is_terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb"),
    };
    let columns = if is_terminal {
        terminal_columns()
    } else {
        PIPE_COLUMNS
    };
    Ink {
        colour,
        ascii: ascii || !locale_is_utf8(|name| std::env::var(name).ok()),
        columns,
    }
}

fn terminal_columns() -> usize {
    let size =
        terminal_size::terminal_size().or_else(|| terminal_size::terminal_size_of(io::stderr()));
    size.map_or(PIPE_COLUMNS, |(width, _)| width.0.into())
}

/// The first variable that is set decides, as for every program.
fn locale_is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(variable)
        .find(|value| !value.is_empty());
    let locale = locale.unwrap_or_default().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_is_read_as_every_program_reads_it() {
        let locale = |pairs: &'static [(&str, &str)]| {
            locale_is_utf8(|name| {
                pairs
                    .iter()
                    .find(|pair| pair.0 == name)
                    .map(|pair| pair.1.to_owned())
            })
        };
        assert!(locale(&[("LANG", "en_GB.UTF-8")]));
        assert!(locale(&[("LC_ALL", ""), ("LANG", "C.utf8")]));
        assert!(!locale(&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")]));
        assert!(!locale(&[]));
    }
}
