//! `fencepost run-all`: runs seven scenarios with every strategy that fits and shows the verdicts as a matrix.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use fencepost_rig::Interrupt;
use fencepost_trial::matrix::{Cell, Run, cells};
use fencepost_trial::processes::Stopped;
use fencepost_trial::report::html;
use fencepost_trial::report::json::matrix;
use fencepost_trial::report::terminal::matrix::{Shown, progress, title};
use fencepost_trial::store::{TrialStore, private_names};
use fencepost_trial::text::numbers::plural;

use crate::command_error::CommandError;
use crate::exit;
use crate::results::{OutputFile, open_folder};
use crate::screen::Screen;
use crate::stopped::{UsedFlags, explain};
use crate::store::{PrivateServers, parse_trial_store};
use crate::trial_flags::TrialFlags;
use crate::values::{random_seed, seed};

mod live;
mod one;
mod workers;

use live::Progress;
use one::{Trouble, one};
use workers::{News, WorkList};

/// How many lock trials run in parallel. They sleep most of the time, so they do not disturb each other.
const SIDE_BY_SIDE: usize = 6;
/// How often the live area is redrawn.
const REDRAW: Duration = Duration::from_millis(100);
/// How often a trial is repeated if it was INCONCLUSIVE and the table expects another verdict.
const REPETITIONS: usize = 2;

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
    let site = arguments.trial.open_store(None)?;
    let seed = arguments.seed.unwrap_or_else(random_seed);
    let (as_json, quiet) = (
        arguments.trial.output_flags.json,
        arguments.trial.output_flags.quiet,
    );
    let folder = arguments.output.as_deref();
    let page = folder.map(open_page).transpose()?;
    let mut screen = arguments.trial.screen();
    if !as_json {
        screen.print(&format!("{}\n", title(&site.store, seed)));
    }
    let cells = cells(&site.store, seed);
    let matrix_run = MatrixRun {
        cells: &cells,
        folder,
        logs: !quiet && !as_json && !screen.is_live(),
        interrupt,
    };
    let started = Instant::now();
    let Finished { runs, repeated } = matrix_run.run(&mut screen, started)?;
    let took_ns = nanoseconds(started.elapsed());
    screen.clear_live();
    let page_bytes = page.map(|page| fill(page, &runs, seed)).transpose()?;
    if as_json {
        screen.print_json(&matrix::reports(&runs, &repeated));
    } else {
        let elsewhere = elsewhere(&site.store);
        let shown = Shown {
            cells: &cells,
            runs: &runs,
            took_ns,
            elsewhere: &elsewhere,
            store: &site.store,
            seed,
        };
        let mut text = shown.text(quiet, screen.ink);
        if !repeated.is_empty() {
            let again = format!("{}, which showed nothing at first", repeated.join(", "));
            text.push_str(&screen.ink.sentence("repeated", &again));
        }
        if let (Some(folder), Some(bytes)) = (folder, page_bytes) {
            let files = files_line(folder, &runs, bytes);
            text.push_str(&screen.ink.sentence("files", &files));
        }
        screen.print(&text);
    }
    Ok(screen.end(u8::from(!runs.iter().all(Run::as_expected))))
}

fn open_page(folder: &Path) -> Result<OutputFile, CommandError> {
    open_folder("--output", folder)?;
    OutputFile::open("--output", &folder.join("report.html"))
}

fn fill(page: OutputFile, runs: &[Run], seed: u64) -> Result<usize, CommandError> {
    let text = html::render(&html::page_of_everything(runs, seed));
    page.fill_with(&text)?;
    Ok(text.len())
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

/// After a run on SQLite: how to run the matrix on other stores.
fn elsewhere(store: &TrialStore) -> Vec<(&'static str, String)> {
    if *store != TrialStore::sqlite() {
        return Vec::new();
    }
    let names = private_names().into_iter();
    names
        .filter_map(|name| Some((name, how_to_run_on(&parse_trial_store(name).ok()?)?)))
        .collect()
}

/// The command that runs the matrix on a private server, or what to install first. `None` for a store without a server, and for servers
/// that keep only locks.
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

/// Runs all trials of the matrix.
struct MatrixRun<'a> {
    cells: &'a [Cell],
    folder: Option<&'a Path>,
    /// Whether to print a line for each finished trial.
    logs: bool,
    interrupt: Interrupt,
}

impl MatrixRun<'_> {
    /// Runs the sales one by one, because they use all cores, and then the other trials in parallel. A trial that was INCONCLUSIVE, as
    /// happens on a busy machine, is run again by itself.
    fn run(&self, screen: &mut Screen, started: Instant) -> Result<Finished, CommandError> {
        let of_kind = |sales: bool| {
            let all = 0..self.cells.len();
            all.filter(move |at| matches!(self.cells[*at], Cell::Sale(_)) == sales)
        };
        let sales: Vec<usize> = of_kind(true).collect();
        let mut rest: Vec<usize> = of_kind(false).collect();
        rest.sort_by_key(|at| std::cmp::Reverse(self.cells[*at].likely_ms()));
        let mut collector = Collector {
            matrix_run: self,
            progress: Progress::new(self.cells, SIDE_BY_SIDE, started),
            runs: self.cells.iter().map(|_| None).collect(),
            troubles: Vec::new(),
            repeated: BTreeSet::new(),
        };
        collector.run_cells(&sales, 1, screen);
        collector.run_cells(&rest, SIDE_BY_SIDE, screen);
        for _ in 0..REPETITIONS {
            let showed_nothing = collector.showed_nothing();
            collector.repeated.extend(&showed_nothing);
            collector.run_cells(&showed_nothing, 1, screen);
        }
        collector.finish()
    }
}

/// A matrix with every trial done.
struct Finished {
    /// The result of each cell.
    runs: Vec<Run>,
    /// The trials that were run more than once.
    repeated: Vec<String>,
}

/// Collects what the workers report.
struct Collector<'a> {
    matrix_run: &'a MatrixRun<'a>,
    progress: Progress<'a>,
    runs: Vec<Option<Run>>,
    troubles: Vec<(usize, Trouble)>,
    /// The cells that were run more than once.
    repeated: BTreeSet<usize>,
}

impl Collector<'_> {
    /// Runs these cells, unless an earlier one could not be finished.
    fn run_cells(&mut self, cells: &[usize], workers: usize, screen: &mut Screen) {
        if self.troubles.is_empty() {
            let matrix_run = self.matrix_run;
            let list = WorkList { cells, workers };
            let run = |at: usize| {
                one(
                    &matrix_run.cells[at],
                    matrix_run.folder,
                    matrix_run.interrupt,
                )
            };
            list.run(&run, REDRAW, &mut |news| self.handle_news(news, screen));
        }
    }

    /// Removes and returns the cells that were INCONCLUSIVE although the table expects another verdict.
    fn showed_nothing(&mut self) -> Vec<usize> {
        let mut cells = Vec::new();
        for (at, run) in self.runs.iter_mut().enumerate() {
            let Some(done) = run.take_if(|run| run.showed_nothing()) else {
                continue;
            };
            for line in done.summaries() {
                self.progress.verdict_withdrawn(line.as_expected());
            }
            cells.push(at);
        }
        cells
    }

    fn handle_news(&mut self, news: Option<News<Result<Run, Trouble>>>, screen: &mut Screen) {
        match news {
            None => {}
            Some(News::Begun(at)) => self.progress.begun(at),
            Some(News::Done(at, Ok(run), took)) => {
                for line in run.summaries() {
                    self.progress.verdict(line.as_expected());
                    if self.matrix_run.logs {
                        let (done, total) = (self.progress.done(), self.progress.total());
                        log(&progress(done, total, &line, nanoseconds(took)));
                    }
                }
                self.progress.ended(at);
                self.runs[at] = Some(run);
            }
            Some(News::Done(at, Err(trouble), _)) => {
                self.progress.ended(at);
                self.troubles.push((at, trouble));
            }
        }
        screen.live(&self.progress.text());
    }

    fn finish(self) -> Result<Finished, CommandError> {
        let (done, total) = (self.progress.done(), self.progress.total());
        if let Some(error) = explained(self.troubles, done, total, self.matrix_run) {
            return Err(error);
        }
        let runs: Option<Vec<Run>> = self.runs.into_iter().collect();
        let name = |at: &usize| {
            let cell = &self.matrix_run.cells[*at];
            format!("{} {}", cell.scenario(), cell.strategy().name)
        };
        let repeated = self.repeated.iter().map(name).collect();
        let no_thread =
            || CommandError::new(exit::INTERNAL, "no thread could be started for the trials");
        Ok(Finished {
            runs: runs.ok_or_else(no_thread)?,
            repeated,
        })
    }
}

/// The error for a matrix that was not finished. A failure takes precedence over an interruption.
fn explained(
    troubles: Vec<(usize, Trouble)>,
    done: usize,
    total: usize,
    matrix_run: &MatrixRun<'_>,
) -> Option<CommandError> {
    let mut interrupted = None;
    let mut processes = 0;
    for (at, trouble) in troubles {
        match trouble {
            Trouble::Files(error) => return Some(error),
            Trouble::Run(Stopped::Interrupted {
                signal, stopped, ..
            }) => {
                interrupted = Some(signal);
                processes += stopped;
            }
            Trouble::Run(stopped) => {
                let stem = matrix_run.cells[at].file_stem();
                let history = matrix_run
                    .folder
                    .map(|f| f.join(stem).with_extension("jsonl"));
                let flags = UsedFlags {
                    history: history.as_deref().map(|path| ("--output", path)),
                    has_concurrency: false,
                };
                return Some(explain(&stopped, flags));
            }
        }
    }
    let what = format!("{done} of {total} trials were finished.");
    let error = CommandError::interrupted(exit::interrupted(interrupted?), what).with(
        "stopped",
        format_args!(
            "{}; nothing is left running, no temporary file stays",
            plural(processes, "process", "processes")
        ),
    );
    Some(match matrix_run.folder {
        Some(folder) => error.with(
            "kept",
            format_args!("{}: what was finished", folder.display()),
        ),
        None => error,
    })
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Writes a line of progress to standard error.
fn log(line: &str) {
    let _ = io::stderr().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_trial::history::History;
    use fencepost_trial::sale::Judged;

    /// A run of this cell in which nothing happened.
    fn nothing(cell: &Cell) -> Run {
        let Cell::Sale(sale) = cell else {
            panic!("not a sale: {cell:?}");
        };
        let history = History {
            header: sale.header(),
            events: Vec::new(),
        };
        Run::Sale(Judged::of(sale, history))
    }

    #[test]
    fn a_run_that_showed_nothing_counts_no_longer_and_is_to_be_repeated() {
        let cells = cells(&TrialStore::sqlite(), 1);
        let matrix_run = MatrixRun {
            cells: &cells,
            folder: None,
            logs: false,
            interrupt: Interrupt::never(),
        };
        let mut collector = Collector {
            matrix_run: &matrix_run,
            progress: Progress::new(&cells, 1, Instant::now()),
            runs: cells.iter().map(|_| None).collect(),
            troubles: Vec::new(),
            repeated: BTreeSet::new(),
        };
        assert_eq!(collector.showed_nothing(), Vec::<usize>::new());
        let run = nothing(&cells[1]);
        assert!(run.showed_nothing());
        collector.progress.verdict(run.as_expected());
        collector.runs[1] = Some(run);
        assert_eq!(collector.showed_nothing(), [1]);
        assert!(collector.runs[1].is_none());
        assert_eq!(collector.progress.done(), 0);
    }
}
