//! `fencepost oversell`: one race, or every strategy in the same race.

use std::fs::File;
use std::io::{Write, stderr};
use std::path::Path;
use std::process::ExitCode;

use fencepost_rig::Interrupt;
use fencepost_trial::protocol::Resource;
use fencepost_trial::report::html;
use fencepost_trial::report::json::sale as json;
use fencepost_trial::report::terminal::sale::{self as race, Columns};
use fencepost_trial::report::terminal::{grounds, table};
use fencepost_trial::sale::facts::Attempt;
use fencepost_trial::sale::{self, Judged, Sale, Stopped, Watch};
use fencepost_trial::strategy;
use fencepost_trial::text::numbers::plural;

use crate::arguments::{Lock, Oversell, random_seed};
use crate::contender::Contender;
use crate::drawings::Drawings;
use crate::exit;
use crate::fault::{Fault, system_words};
use crate::help;
use crate::results::{Files, Results};
use crate::screen::Screen;

/// The lease that a stranger is told of when it is asked what it promises; in the race it is longer than the work.
const LEASE_MS: u64 = 10_000;

/// Runs the command.
pub(crate) fn run(arguments: Oversell, interrupt: Interrupt) -> Result<ExitCode, Fault> {
    let list = || Ok(arguments.common.screen().finish(&help::strategies()));
    if let Lock::Help = arguments.lock {
        return list();
    }
    let site = arguments.common.open_store(Some(&arguments.lock))?;
    let setting = (LEASE_MS, Resource::Stock);
    let Some(contender) = Contender::of(&arguments.lock, &site, setting, interrupt)? else {
        return list();
    };
    let strategy = contender.strategy;
    let sale = Sale {
        strategy,
        stock: arguments.stock,
        concurrency: arguments.concurrency,
        delay_us: arguments.delay,
        wait_ms: arguments.wait,
        place: site.place.clone(),
        ..Sale::new(strategy, arguments.seed.unwrap_or_else(random_seed))
    };
    if arguments.all {
        all(&arguments, &sale, interrupt)
    } else {
        one(&arguments, &sale, &contender, interrupt)
    }
}

fn one(
    arguments: &Oversell,
    sale: &Sale,
    contender: &Contender,
    interrupt: Interrupt,
) -> Result<ExitCode, Fault> {
    let (json, quiet) = (arguments.common.json, arguments.common.quiet);
    let files = Files::open(
        arguments.output.as_deref(),
        arguments.history.as_deref(),
        &arguments.drawings,
    )?;
    let file = files.history()?;
    let mut screen = arguments.common.screen();
    let ink = screen.ink;
    if !json {
        screen.print(&format!("{}\n", race::title(sale)));
    }
    let columns = (!json && !quiet).then(|| Columns::of(sale, ink));
    let mut watch = Viewer {
        screen: &mut screen,
        columns,
        begun: false,
    };
    let judged = hold(sale, contender, file, &mut watch, interrupt)
        .map_err(|stopped| explain(&stopped, files.history_path()))?;
    if json {
        screen.print_json(&json::report(&judged));
    } else {
        let gap = if quiet { "" } else { "\n" };
        let figures = race::figures(&judged, ink);
        screen.print(&format!(
            "{gap}{figures}\n{}",
            grounds::text(&judged.verdict, quiet, ink)
        ));
    }
    files.fill(
        &json::report(&judged),
        &judged.verdict,
        judged.events.len(),
        &html::page_of_sales(std::slice::from_ref(&judged)),
    )?;
    Ok(screen.end(judged.verdict.outcome.exit_code()))
}

fn all(arguments: &Oversell, sale: &Sale, interrupt: Interrupt) -> Result<ExitCode, Fault> {
    let output = arguments.output.as_deref();
    let drawings = Drawings::open(&arguments.drawings, &[("--output", "FILE.json", output)])?;
    let output = output
        .map(|path| Results::open("--output", path))
        .transpose()?;
    let (json, quiet) = (arguments.common.json, arguments.common.quiet);
    let mut screen = arguments.common.screen();
    if !json {
        screen.print(&format!(
            "{}\n",
            table::all_title(sale, strategy::at(&sale.place).count())
        ));
    }
    let mut runs = Vec::new();
    for strategy in strategy::at(&sale.place) {
        let sale = Sale {
            strategy,
            ..sale.clone()
        };
        let mut watch = Viewer {
            screen: &mut screen,
            columns: None,
            begun: false,
        };
        let judged = Contender::ours(strategy)
            .and_then(|ours| hold(&sale, &ours, None, &mut watch, interrupt));
        runs.push(judged.map_err(|stopped| explain(&stopped, None))?);
    }
    if json {
        screen.print_json(&json::reports(&runs));
    } else {
        screen.print(&table::all(&runs, quiet, screen.ink));
    }
    if let Some(output) = output {
        output.fill(&json::reports(&runs))?;
    }
    drawings.fill(&html::page_of_sales(&runs))?;
    Ok(screen.end(u8::from(!runs.iter().all(Judged::as_expected))))
}

/// Runs a sale, and judges it.
pub(crate) fn hold(
    sale: &Sale,
    contender: &Contender,
    file: Option<File>,
    watch: &mut dyn Watch,
    interrupt: Interrupt,
) -> Result<Judged, Stopped> {
    let subject = || contender.command();
    let history = sale::run(sale, &subject, file, watch, interrupt)?;
    Ok(Judged::of(sale, history))
}

/// Shows a race while it runs.
pub(crate) struct Viewer<'a> {
    pub(crate) screen: &'a mut Screen,
    /// How to show answers, if they are shown.
    pub(crate) columns: Option<Columns>,
    pub(crate) begun: bool,
}

impl Watch for Viewer<'_> {
    fn starting(&mut self, ready: usize, of: usize) {
        self.screen
            .suspense(&format!("  {ready} of {of} processes are ready"));
    }

    fn answered(&mut self, attempt: &Attempt, sold: i64) {
        let Some(columns) = self.columns else { return };
        if !std::mem::replace(&mut self.begun, true) {
            self.screen.print(&columns.heading());
        }
        self.screen.print(&columns.line(attempt, sold));
    }

    fn waiting(&mut self, answered: usize, of: usize) {
        self.screen
            .suspense(&format!("  {answered} of {of} attempts are answered"));
    }
}

/// Why there is no verdict.
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
            fault.effect("none: nobody was asked anything")
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
                return fault.effect("none: nobody was asked anything");
            }
            fault.effect(format_args!(
                "maybe: {progress}; {path} ends at #{events} and is readable"
            ))
        }
    }
}

/// Writes a line of progress for those who read a log.
pub(crate) fn log(line: &str) {
    let _ = stderr().write_all(line.as_bytes());
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
