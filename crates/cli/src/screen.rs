//! Standard output and the live area on standard error.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use fencepost_trial::text::ink::Ink;
use fencepost_trial::text::wrap::wrapped;

use crate::exit;
use crate::fault::{self, Fault, system_words};
use crate::terminal::{Colour, Wishes, columns, ink};

/// A live line appears when something takes longer than this.
const SUSPENSE: Duration = Duration::from_secs(1);

/// The flags that say how results are shown.
#[derive(Debug, Args)]
pub(crate) struct Look {
    #[arg(long)]
    pub(crate) json: bool,
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[arg(long, default_value = "auto", value_parser = Colour::parse)]
    pub(crate) color: Colour,
    #[arg(long)]
    pub(crate) ascii: bool,
}

impl Look {
    pub(crate) fn screen(&self) -> Screen {
        Screen::new(self.color, self.ascii, self.quiet || self.json)
    }
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
        if self.is_terminal {
            wrapped(&text, self.ink.columns)
        } else {
            text
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
