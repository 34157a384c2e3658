//! Prints results to standard output and live progress to standard error.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use fencepost_trial::text::ink::Ink;
use fencepost_trial::text::wrap::wrapped;

use crate::command_error::{self, CommandError, system_words};
use crate::exit;
use crate::terminal::{Colour, OutputStyle, columns, ink};

/// Live progress appears only for work that takes longer than this.
const SUSPENSE: Duration = Duration::from_secs(1);

/// The flags for the form of the output, shared by most commands.
#[derive(Debug, Args)]
pub(crate) struct OutputFlags {
    #[arg(long)]
    pub(crate) json: bool,
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[arg(long, default_value = "auto", value_parser = Colour::parse)]
    pub(crate) color: Colour,
    #[arg(long)]
    pub(crate) ascii: bool,
}

impl OutputFlags {
    pub(crate) fn screen(&self) -> Screen {
        Screen::new(self.color, self.ascii, self.quiet || self.json)
    }
}

/// The output of a command.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) ink: Ink,
    is_terminal: bool,
    live: bool,
    /// How many lines the live area currently has on the screen.
    live_lines: usize,
    started: Instant,
    failure: Option<io::Error>,
    style: OutputStyle,
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
            style: OutputStyle { colour, ascii },
        }
    }

    /// Creates a screen for plain text without flags, such as help.
    pub(crate) fn plain(style: OutputStyle) -> Self {
        Self::new(Colour::Never, style.ascii, true)
    }

    /// Prints the text. If the reader closes the pipe (`| head`), the rest is dropped silently.
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

    /// Fits the text to the glyphs and the width of this screen; text for a pipe is not wrapped.
    fn shown(&self, text: &str) -> String {
        let text = self.ink.glyphs(text);
        if self.is_terminal {
            wrapped(&text, self.ink.columns)
        } else {
            text
        }
    }

    /// Prints the document of `--json`: indented on a terminal, otherwise on one line.
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

    /// Returns whether the terminal can show live progress.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// Shows progress, once the work has taken longer than a moment.
    pub(crate) fn suspense(&mut self, text: &str) {
        if self.started.elapsed() > SUSPENSE {
            self.live(text);
        }
    }

    /// Replaces the live area by the lines of `text`, cut to the width of the screen.
    pub(crate) fn live(&mut self, text: &str) {
        if !self.live {
            return;
        }
        let width = columns().saturating_sub(1);
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

    /// Prints the text and returns exit code 0, or an error code if printing failed.
    pub(crate) fn finish(mut self, text: &str) -> ExitCode {
        self.print(text);
        self.end(0)
    }

    /// Returns exit code `code`, unless writing to standard output failed for a reason other than a closed pipe.
    pub(crate) fn end(mut self, code: u8) -> ExitCode {
        self.clear_live();
        match self.failure.take() {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                let failure = CommandError::new(exit::WRITE_FAILED, "cannot write the report");
                let failure = failure.at(format_args!("standard output: {}", system_words(&error)));
                command_error::report(&failure, self.style)
            }
            _ => ExitCode::from(code),
        }
    }
}

/// Moves the cursor to the start of the live area and erases it.
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
