//! `fencepost run-all`: runs seven scenarios with every strategy that fits and shows the verdicts as a matrix.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use fencepost_rig::Interrupt;
use fencepost_trial::matrix::{Cell, Run, cells};
use fencepost_trial::report::html::Page;
use fencepost_trial::report::json::matrix;
use fencepost_trial::report::terminal::matrix::{MatrixView, title};
use fencepost_trial::store::{TrialStore, private_names};

use crate::batch::{Batch, nanoseconds};
use crate::command_error::CommandError;
use crate::results::{OutputFile, open_folder};
use crate::store::{PrivateServers, parse_trial_store};
use crate::trial_flags::TrialFlags;
use crate::values::{random_seed, seed};

/// How many lock trials run in parallel.
const SIDE_BY_SIDE: usize = 6;

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct RunAll {
    #[arg(long, allow_hyphen_values = true, value_parser = seed)]
    seed: Option<u64>,
    #[arg(long)]
    output: Option<PathBuf>,
    #[command(flatten)]
    trial: TrialFlags,
}

/// Runs `fencepost run-all`.
pub(crate) fn run(arguments: RunAll, interrupt: Interrupt) -> Result<ExitCode, CommandError> {
    let opened = arguments.trial.open_store(None)?;
    let seed = arguments.seed.unwrap_or_else(random_seed);
    let (as_json, quiet) = (
        arguments.trial.output_flags.json,
        arguments.trial.output_flags.quiet,
    );
    let folder = arguments.output.as_deref();
    let page = folder.map(open_page).transpose()?;
    let mut screen = arguments.trial.screen();
    if !as_json {
        screen.print(&format!("{}\n", title(&opened.store, seed)));
    }
    let cells = cells(&opened.store, seed);
    let stems: Vec<String> = cells.iter().map(Cell::file_stem).collect();
    let batch = Batch {
        cells: &cells,
        stems: &stems,
        contender: None,
        tolerant: false,
        folder,
        side_by_side: SIDE_BY_SIDE,
        logs: !quiet && !as_json && !screen.is_live(),
        interrupt,
        what: "trials",
    };
    let started = Instant::now();
    let (runs, repeated) = batch.run(&mut screen, started).complete()?;
    let took_ns = nanoseconds(started.elapsed());
    screen.clear_live();
    let page = page.map(|page| (page, Page::of_matrix(&runs, seed).render()));
    if as_json {
        screen.print_json(&matrix::reports(&runs, &repeated));
    } else {
        let elsewhere = elsewhere(&opened.store);
        let shown = MatrixView {
            cells: &cells,
            runs: &runs,
            took_ns,
            elsewhere: &elsewhere,
            store: &opened.store,
            seed,
        };
        let mut text = shown.text(quiet, screen.ink);
        if !repeated.is_empty() {
            let again = format!("{}, which showed nothing at first", repeated.join(", "));
            text.push_str(&screen.ink.sentence("repeated", &again));
        }
        if let (Some(folder), Some((_, drawn))) = (folder, &page) {
            let files = files_line(folder, &runs, drawn.len());
            text.push_str(&screen.ink.sentence("files", &files));
        }
        screen.print(&text);
    }
    if let Some((page, drawn)) = page {
        page.fill_with(&drawn)?;
    }
    Ok(screen.end(u8::from(!runs.iter().all(Run::as_expected))))
}

fn open_page(folder: &Path) -> Result<OutputFile, CommandError> {
    open_folder("--output", folder)?;
    OutputFile::open("--output", &folder.join("report.html"))
}

fn files_line(folder: &Path, runs: &[Run], page_bytes: usize) -> String {
    let kib = page_bytes.div_ceil(1024);
    let size = match kib {
        ..1024 => format!("{kib} KiB"),
        _ => format!("{:.1} MiB", kib as f64 / 1024.0),
    };
    let folder = folder.display();
    let files = runs.len();
    let verdicts: usize = runs.iter().map(|run| run.summaries().len()).sum();
    let shared = if verdicts == files {
        ""
    } else {
        " (those of retry in one)"
    };
    format!("{folder}: {files} × JSON and history{shared}, report.html ({size})")
}

/// Returns how to run the matrix on other stores, after a run on SQLite.
fn elsewhere(store: &TrialStore) -> Vec<(&'static str, String)> {
    if *store != TrialStore::sqlite() {
        return Vec::new();
    }
    let names = private_names().into_iter();
    names
        .filter_map(|name| Some((name, how_to_run_on(&parse_trial_store(name).ok()?)?)))
        .collect()
}

/// Returns the command that runs the matrix on a private server, or what to install first. `None` for a store without a server, and for
/// servers that keep only locks.
fn how_to_run_on(store: &TrialStore) -> Option<String> {
    let name = store.name();
    let servers = PrivateServers::of(store.kind()).filter(|_| store.keeps_stock())?;
    Some(if (servers.is_installed)() {
        format!("fencepost run-all --store {name}")
    } else {
        let (missing, install) = (servers.missing, servers.install);
        format!("skipped: {missing} ({install}), then run-all --store {name}")
    })
}
