//! `fencepost run-all`: every scenario with every strategy, one matrix.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use fencepost_rig::Interrupt;
use fencepost_trial::matrix::{Cell, cells};
use fencepost_trial::report::{Judged, json, table};
use fencepost_trial::sale::Stopped;

use crate::arguments::{RunAll, random_seed};
use crate::exit;
use crate::fault::Fault;
use crate::oversell::{explain, hold, log};
use crate::results::{Results, open_folder, open_history, seal};
use crate::screen::Screen;

const BAR_COLUMNS: usize = 40;

/// Runs the command.
pub(crate) fn run(arguments: RunAll, interrupt: Interrupt) -> Result<ExitCode, Fault> {
    let site = arguments.common.store.open()?;
    let seed = arguments.seed.unwrap_or_else(random_seed);
    let (as_json, quiet) = (arguments.common.json, arguments.common.quiet);
    let folder = arguments.output.as_deref();
    folder
        .map(|path| open_folder("--output", path))
        .transpose()?;
    let mut screen = arguments.common.screen();
    if !as_json {
        screen.print(&format!("{}\n", table::matrix_title(&site.place, seed)));
    }
    let cells = cells(&site.place, seed);
    let started = Instant::now();
    let mut runs: Vec<Judged> = Vec::new();
    for cell in &cells {
        show_progress(&mut screen, &runs, cells.len(), started);
        let begun = Instant::now();
        let judged = one(cell, folder, interrupt)
            .map_err(|trouble| trouble.explain(cell, &runs, cells.len(), folder))?;
        if !quiet && !as_json && !screen.is_live() {
            log(&table::progress(
                runs.len() + 1,
                cells.len(),
                &judged,
                nanoseconds(begun),
            ));
        }
        runs.push(judged);
    }
    screen.clear_live();
    if as_json {
        screen.print_json(&json::reports(&runs));
    } else {
        let mut text = table::matrix(&cells, &runs, nanoseconds(started), quiet, screen.ink);
        if !quiet {
            text.push_str(&table::again(seed, screen.ink));
        }
        if let Some(folder) = folder {
            let files = format!("{}: {} × JSON and history", folder.display(), runs.len());
            text.push_str(&screen.ink.labelled("files", &files));
        }
        screen.print(&text);
    }
    Ok(screen.end(u8::from(!runs.iter().all(Judged::as_expected))))
}

/// Why a trial was not finished.
enum Trouble {
    Run(Stopped),
    Files(Fault),
}

impl Trouble {
    fn explain(self, cell: &Cell, done: &[Judged], total: usize, folder: Option<&Path>) -> Fault {
        let stopped = match self {
            Self::Files(fault) => return fault,
            Self::Run(stopped) => stopped,
        };
        let history = folder.map(|folder| folder.join(cell.file_stem()).with_extension("jsonl"));
        let Stopped::Interrupted {
            signal, stopped, ..
        } = stopped
        else {
            return explain(&stopped, history.as_deref());
        };
        let what = format!("{} of {total} trials were finished.", done.len());
        let fault = Fault::interrupted(exit::interrupted(signal), what).with(
            "stopped",
            format_args!("{stopped} processes; nothing is left running, no temporary file stays"),
        );
        match folder {
            Some(folder) => fault.with(
                "kept",
                format_args!("{}: what was finished", folder.display()),
            ),
            None => fault,
        }
    }
}

/// Runs a trial; its files are written before the next one starts.
fn one(cell: &Cell, folder: Option<&Path>, interrupt: Interrupt) -> Result<Judged, Trouble> {
    let Some(folder) = folder else {
        return hold(&cell.sale, None, &mut (), interrupt).map_err(Trouble::Run);
    };
    let path = folder.join(cell.file_stem());
    let report = Results::open("--output", &path.with_extension("json")).map_err(Trouble::Files)?;
    let at = path.with_extension("jsonl");
    let mut history = open_history("--output", &at).map_err(Trouble::Files)?;
    let shared = history.try_clone().map_err(|error| {
        let events = 0;
        Trouble::Run(Stopped::History {
            error,
            progress: "nobody was asked anything yet".into(),
            events,
        })
    })?;
    let judged = hold(&cell.sale, Some(shared), &mut (), interrupt).map_err(Trouble::Run)?;
    seal(
        "--output",
        &at,
        &mut history,
        &judged.verdict,
        judged.events.len(),
    )
    .map_err(Trouble::Files)?;
    report
        .fill(&json::report(&judged))
        .map_err(Trouble::Files)?;
    Ok(judged)
}

fn show_progress(screen: &mut Screen, runs: &[Judged], total: usize, started: Instant) {
    let bar = "━".repeat(runs.len() * BAR_COLUMNS / total);
    let surprises = runs.iter().filter(|run| !run.as_expected()).count();
    let counted = format!("{} of {total}   {surprises} surprises", runs.len());
    screen.live(&format!(
        "  {bar:<BAR_COLUMNS$}   {counted}   {} s",
        started.elapsed().as_secs()
    ));
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
