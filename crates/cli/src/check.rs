//! `fencepost check`: reads a saved history, judges it again, and draws it if asked to.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fencepost_trial::report::html::Page;
use fencepost_trial::report::json;
use fencepost_trial::report::terminal::check;
use fencepost_trial::saved::{NotAHistory, Rejudged, Saved};

use crate::command_error::{CommandError, system_words};
use crate::exit;
use crate::results::{DrawingFlags, Drawings};
use crate::screen::OutputFlags;

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Check {
    file: PathBuf,
    #[command(flatten)]
    drawings: DrawingFlags,
    #[command(flatten)]
    output_flags: OutputFlags,
}

/// Runs `fencepost check`.
pub(crate) fn run(arguments: &Check) -> Result<ExitCode, CommandError> {
    let &OutputFlags { json, quiet, .. } = &arguments.output_flags;
    let name = arguments.file.display().to_string();
    let history = ("check", "FILE.jsonl", Some(arguments.file.as_path()));
    let drawings = Drawings::open(&arguments.drawings, &[history])?;
    let saved = File::open(&arguments.file)
        .map_err(NotAHistory::Unreadable)
        .and_then(|file| Saved::read(BufReader::new(file)))
        .map_err(|error| refuse(&name, &error))?;
    let judged = Rejudged::of(saved);
    if let Some((line, last)) = judged.cut() {
        // If standard error is closed, there is nowhere left to report to.
        let _ = writeln!(
            io::stderr(),
            "warning: line {line} is cut off; judged up to #{last}"
        );
    }
    let mut screen = arguments.output_flags.screen();
    if json {
        screen.print_json(&json::check::report(&judged, &name));
    } else {
        let ink = screen.ink;
        screen.print(&format!(
            "{}\n{}\n{}",
            check::title(&judged, &name),
            check::table(&judged, quiet, ink),
            check::conclusion(&judged, ink)
        ));
    }
    drawings.fill(&Page::of_saved(&judged))?;
    Ok(screen.end(judged.verdict.outcome.exit_code()))
}

fn refuse(name: &str, error: &NotAHistory) -> CommandError {
    match error {
        NotAHistory::Unreadable(error) => {
            let what = "cannot read the history";
            CommandError::new(exit::NOT_A_HISTORY, what)
                .at(format_args!("{name}: {}", system_words(error)))
        }
        NotAHistory::Line { .. } => CommandError::new(exit::NOT_A_HISTORY, "this is not a history")
            .at(format_args!("{name}, {error}"))
            .try_this("a file that --history wrote: one JSON object on each line"),
    }
}
