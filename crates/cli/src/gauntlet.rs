//! `fencepost gauntlet`: one lock in every scenario that applies to it and to its store.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use fencepost_rig::Interrupt;
use fencepost_trial::any_scenario::AnyScenario;
use fencepost_trial::gauntlet::{Gauntlet, SCENARIOS, labelled, rows};
use fencepost_trial::matrix::{Cell, default_ttl_ms};
use fencepost_trial::protocol::Resource;
use fencepost_trial::report::html::Page;
use fencepost_trial::report::json::gauntlet::{report, report_of_list};
use fencepost_trial::report::terminal::gauntlet::{GauntletView, list, title};
use fencepost_trial::store::TrialStore;
use fencepost_trial::text::ink::Ink;

use crate::batch::{Batch, Finished, nanoseconds};
use crate::command_error::CommandError;
use crate::contender::{Contender, Lock, LockArgument, fits};
use crate::results::{OutputFile, open_folder};
use crate::screen::{OutputFlags, Screen};
use crate::trial_flags::{TrialFlags, lasts_long_enough};
use crate::values::{BadValue, jobs, nearest, random_seed, runs, seed, ttl};

mod envelope;
mod ladder;
mod predict;
mod reference;

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct RunGauntlet {
    #[arg(long, default_value = "safe", value_parser = LockArgument::parse_holding)]
    lock: LockArgument,
    #[arg(long, value_parser = scenario)]
    scenario: Vec<AnyScenario>,
    #[command(flatten)]
    mode: ModeFlags,
    #[arg(long, allow_hyphen_values = true, default_value_t = 1, value_parser = runs)]
    runs: u64,
    #[arg(long, allow_hyphen_values = true, default_value_t = 2, value_parser = jobs)]
    jobs: usize,
    #[arg(long, allow_hyphen_values = true, value_parser = ttl)]
    ttl: Option<u64>,
    #[arg(long, allow_hyphen_values = true, value_parser = seed)]
    seed: Option<u64>,
    #[arg(long)]
    output: Option<PathBuf>,
    #[arg(long)]
    report: Option<PathBuf>,
    #[command(flatten)]
    trial: TrialFlags,
}

/// What to do with the scenarios; without a flag, try the lock in each.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct ModeFlags {
    #[arg(long, conflicts_with_all = ["runs", "jobs", "ttl", "seed", "output", "report"])]
    list: bool,
    #[arg(long)]
    ladder: bool,
    #[arg(long, conflicts_with_all = ["runs", "jobs", "output", "report"])]
    envelope: bool,
    #[arg(long, conflicts_with_all = ["json", "quiet"])]
    predict: bool,
}

fn scenario(text: &str) -> Result<AnyScenario, BadValue> {
    let named = SCENARIOS.into_iter().find(|one| one.name() == text);
    named.ok_or_else(|| {
        let names = SCENARIOS.map(|one| one.name());
        let all = "fencepost gauntlet --list";
        BadValue {
            what: format!("there is no scenario '{text}'"),
            advice: match nearest(text, &names) {
                Some(name) => format!("--scenario {name}      or {all}"),
                None => all.into(),
            },
        }
    })
}

/// Runs `fencepost gauntlet`.
pub(crate) fn run(arguments: RunGauntlet, interrupt: Interrupt) -> Result<ExitCode, CommandError> {
    let LockArgument::Lock(lock) = &arguments.lock else {
        return arguments.trial.list_locks();
    };
    if arguments.mode.list {
        return show_list(&arguments, lock);
    }
    if arguments.mode.predict {
        predict::can_ask()?;
    }
    let opened = arguments.trial.open_store(Some(lock))?;
    let (contender, gauntlet) = on_trial(&arguments, lock, &opened.store, interrupt)?;
    if arguments.mode.ladder {
        return ladder::run(&arguments, &contender, &gauntlet, interrupt);
    }
    if arguments.mode.envelope {
        return envelope::run(&arguments, &contender, &gauntlet, interrupt);
    }
    let plan = gauntlet.plan();
    let page = open_outputs(&arguments)?;
    let mut screen = arguments.trial.screen();
    let &OutputFlags { json, quiet, .. } = &arguments.trial.output_flags;
    if !json {
        screen.print(&format!("{}\n", title(&gauntlet)));
    }
    let predictions = if arguments.mode.predict {
        predict::ask(&gauntlet, &plan.cells, &mut screen, interrupt)?
    } else {
        Vec::new()
    };
    let stems = stems(&plan.cells, gauntlet.runs);
    let batch = Batch {
        cells: &plan.cells,
        stems: &stems,
        contender: Some(&contender),
        tolerant: true,
        folder: arguments.output.as_deref(),
        side_by_side: arguments.jobs,
        logs: !quiet && !json && !screen.is_live(),
        interrupt,
        what: "trials",
    };
    let started = Instant::now();
    let finished = batch.run(&mut screen, started);
    let rows = rows(&finished.runs);
    let references = if finished.ended.is_none() {
        reference::run(&batch, &gauntlet, &rows, &mut screen, started)
    } else {
        Finished::default()
    };
    let untried = gauntlet.left_undone(&plan, &rows);
    let took_ns = nanoseconds(started.elapsed());
    screen.clear_live();
    let labels = gauntlet.labels(&rows, &references.runs);
    let repeated = [finished.repeated, references.repeated].concat();
    let rows = labelled(&rows, &labels);
    let shown = GauntletView {
        gauntlet: &gauntlet,
        rows: &rows,
        untried: &untried,
        predictions: &predictions,
        took_ns,
    };
    let trials = finished.runs.len() + references.runs.len();
    // What was finished is shown, whatever ended the rest.
    match finished.ended.or(references.ended) {
        Some(error) if finished.runs.is_empty() => Err(error),
        Some(error) => {
            conclude(&arguments, &shown, (trials, &repeated), page, screen)?;
            Err(error)
        }
        None => conclude(&arguments, &shown, (trials, &repeated), page, screen),
    }
}

/// Prints the result, fills the page, and returns the exit code of the verdict. `trials` is their number, and which were run more than
/// once.
fn conclude(
    arguments: &RunGauntlet,
    shown: &GauntletView<'_>,
    trials: (usize, &[String]),
    page: Option<OutputFile>,
    mut screen: Screen,
) -> Result<ExitCode, CommandError> {
    let &OutputFlags { json, quiet, .. } = &arguments.trial.output_flags;
    let (trials, repeated) = trials;
    let verdict = shown.gauntlet.verdict(shown.rows, shown.untried);
    if json {
        let report = report(shown.gauntlet, shown.rows, shown.untried, repeated);
        screen.print_json(&report);
    } else {
        let more = afterwards(arguments, trials, repeated, screen.ink);
        screen.print(&(shown.text(quiet, screen.ink) + &more));
    }
    if let Some(page) = page {
        let drawn = Page::of_gauntlet(shown.gauntlet, shown.rows, &verdict);
        page.fill_with(&drawn.render())?;
    }
    Ok(screen.end(verdict.outcome.exit_code()))
}

/// Creates the folder for the results and opens the page, as far as their flags were given.
fn open_outputs(arguments: &RunGauntlet) -> Result<Option<OutputFile>, CommandError> {
    if let Some(folder) = &arguments.output {
        open_folder("--output", folder)?;
    }
    let page = arguments.report.as_deref();
    page.map(|path| OutputFile::open("--report", path))
        .transpose()
}

/// Returns the lock on trial, and the settings.
fn on_trial(
    arguments: &RunGauntlet,
    lock: &Lock,
    store: &TrialStore,
    interrupt: Interrupt,
) -> Result<(Contender, Gauntlet), CommandError> {
    if let Some(ttl_ms) = arguments.ttl {
        lasts_long_enough(ttl_ms, store)?;
    }
    let ttl_ms = arguments.ttl.unwrap_or_else(|| default_ttl_ms(store));
    let contender = Contender::of(lock, store, ttl_ms, Resource::Register, interrupt)?;
    let cannot_buy = match lock {
        Lock::External(external) => external.cannot_buy(store, ttl_ms, interrupt)?,
        Lock::Strategy(_) | Lock::LibraryOn(..) => None,
    };
    let gauntlet = Gauntlet {
        strategy: contender.strategy,
        kind: lock.kind(contender.strategy.claims),
        limits: lock.limits(),
        store: store.clone(),
        ttl_ms: arguments.ttl,
        seed: arguments.seed.unwrap_or_else(random_seed),
        runs: arguments.runs,
        chosen: chosen(arguments),
        cannot_buy,
    };
    Ok((contender, gauntlet))
}

/// Returns the scenarios that `--scenario` names, or all.
fn chosen(arguments: &RunGauntlet) -> Vec<AnyScenario> {
    if arguments.scenario.is_empty() {
        SCENARIOS.to_vec()
    } else {
        arguments.scenario.clone()
    }
}

/// Prints what would be run. No server and no lock is started for that.
fn show_list(arguments: &RunGauntlet, lock: &Lock) -> Result<ExitCode, CommandError> {
    let store = arguments.trial.store_for(Some(lock))?.unwrap_or_default();
    let gauntlet = Gauntlet {
        strategy: lock.unasked(),
        kind: lock.kind(lock.unasked().claims),
        limits: Vec::new(),
        store,
        ttl_ms: arguments.ttl,
        seed: 0,
        runs: 1,
        chosen: chosen(arguments),
        cannot_buy: None,
    };
    fits(gauntlet.strategy, &gauntlet.store)?;
    let mut screen = arguments.trial.screen();
    let plan = gauntlet.plan();
    if arguments.trial.output_flags.json {
        screen.print_json(&report_of_list(&gauntlet, &plan));
    } else {
        screen.print(&list(&plan, screen.ink));
    }
    Ok(screen.end(0))
}

/// Returns the lines about repeated trials and about files, as far as there are any.
fn afterwards(arguments: &RunGauntlet, trials: usize, repeated: &[String], ink: Ink) -> String {
    let mut text = String::new();
    if !repeated.is_empty() {
        let again = format!("because they showed nothing: {}", repeated.join(", "));
        text.push_str(&ink.sentence("repeated", &again));
    }
    let mut files = Vec::new();
    if let Some(folder) = &arguments.output {
        files.push(format!("{}: {trials} × JSON and history", folder.display()));
    }
    if let Some(page) = &arguments.report {
        files.push(page.display().to_string());
    }
    if !files.is_empty() {
        text.push_str(&ink.sentence("files", &files.join("; ")));
    }
    text
}

/// Returns the names of the files of each cell: the scenario and, if it is run more than once, the number of the run.
fn stems(cells: &[Cell], runs: u64) -> Vec<String> {
    let number = |at: usize| at as u64 % runs + 1;
    let stem = |(at, cell): (usize, &Cell)| match runs {
        1 => cell.scenario().to_owned(),
        _ => format!("{}-{}", cell.scenario(), number(at)),
    };
    cells.iter().enumerate().map(stem).collect()
}
