//! Runs many trials, a few at a time, with progress and files: what `run-all` and `gauntlet` share.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use fencepost_rig::Interrupt;
use fencepost_trial::matrix::{Cell, REPETITIONS, Run};
use fencepost_trial::processes::NoVerdict;
use fencepost_trial::report::terminal::matrix::progress;
use fencepost_trial::text::numbers::plural;

use crate::command_error::CommandError;
use crate::contender::Contender;
use crate::exit;
use crate::no_verdict::{UsedFlags, explain};
use crate::screen::Screen;

mod live;
mod one;
mod workers;

use live::Progress;
use one::{TrialFailure, one};
use workers::{News, WorkList};

/// How often the live area is redrawn.
const REDRAW: Duration = Duration::from_millis(100);

/// The trials to run, and how.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a> {
    pub(crate) cells: &'a [Cell],
    /// The name of each cell's files, without the extension.
    pub(crate) stems: &'a [String],
    /// The lock on trial, if it is the same in all cells; otherwise each cell names a strategy of ours.
    pub(crate) contender: Option<&'a Contender>,
    /// Whether a program that does not get ready makes its trial INCONCLUSIVE. Otherwise it ends the batch.
    pub(crate) tolerant: bool,
    pub(crate) folder: Option<&'a Path>,
    /// How many lock trials run in parallel. They sleep most of the time, so they hardly disturb each other.
    pub(crate) side_by_side: usize,
    /// Whether to print a line for each finished trial.
    pub(crate) logs: bool,
    pub(crate) interrupt: Interrupt,
    /// What is run, in a few words.
    pub(crate) what: &'static str,
}

impl Batch<'_> {
    /// Runs the sales one by one, because they use all cores, and then the other trials in parallel. A trial that was INCONCLUSIVE, as
    /// happens on a busy machine, is run again by itself.
    ///
    /// A trial that could not be finished ends the batch. What was finished by then is returned with the reason.
    pub(crate) fn run(&self, screen: &mut Screen, started: Instant) -> Finished {
        let of_kind = |sales: bool| {
            let all = 0..self.cells.len();
            all.filter(move |at| matches!(self.cells[*at], Cell::Sale(_)) == sales)
        };
        let sales: Vec<usize> = of_kind(true).collect();
        let mut rest: Vec<usize> = of_kind(false).collect();
        rest.sort_by_key(|at| std::cmp::Reverse(self.cells[*at].likely_ms()));
        let mut collector = Collector {
            batch: self,
            progress: Progress::new(self.cells, self.side_by_side, started),
            runs: self.cells.iter().map(|_| None).collect(),
            withdrawn: BTreeMap::new(),
            failures: Vec::new(),
            repeated: BTreeSet::new(),
        };
        collector.run_cells(&sales, 1, screen);
        collector.run_cells(&rest, self.side_by_side, screen);
        for _ in 0..REPETITIONS {
            let showed_nothing = collector.showed_nothing();
            collector.repeated.extend(&showed_nothing);
            collector.run_cells(&showed_nothing, 1, screen);
        }
        collector.finish()
    }
}

/// What was finished of a batch.
#[derive(Default)]
pub(crate) struct Finished {
    /// The results, in the order of the cells.
    pub(crate) runs: Vec<Run>,
    /// The trials that were run more than once.
    pub(crate) repeated: Vec<String>,
    /// Why the batch ended before all of its trials were done, if it did.
    pub(crate) ended: Option<CommandError>,
}

impl Finished {
    /// Returns the results of a batch whose results are of use only together.
    ///
    /// # Errors
    /// Returns the reason if the batch ended early.
    pub(crate) fn complete(self) -> Result<(Vec<Run>, Vec<String>), CommandError> {
        match self.ended {
            Some(error) => Err(error),
            None => Ok((self.runs, self.repeated)),
        }
    }
}

/// Collects what the workers report.
struct Collector<'a> {
    batch: &'a Batch<'a>,
    progress: Progress<'a>,
    runs: Vec<Option<Run>>,
    /// The results of cells that are run again. They count if the batch ends before that.
    withdrawn: BTreeMap<usize, Run>,
    failures: Vec<(usize, TrialFailure)>,
    /// The cells that were run more than once.
    repeated: BTreeSet<usize>,
}

impl Collector<'_> {
    /// Runs these cells, unless an earlier one could not be finished.
    fn run_cells(&mut self, cells: &[usize], workers: usize, screen: &mut Screen) {
        if self.failures.is_empty() {
            let batch = self.batch;
            let list = WorkList { cells, workers };
            let run = |at: usize| one(batch, at);
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
                self.progress.verdict_withdrawn(line.is_surprise());
            }
            self.withdrawn.insert(at, done);
            cells.push(at);
        }
        cells
    }

    fn handle_news(&mut self, news: Option<News<Result<Run, TrialFailure>>>, screen: &mut Screen) {
        match news {
            None => {}
            Some(News::Begun(at)) => self.progress.begun(at),
            Some(News::Done(at, Ok(run), took)) => {
                for line in run.summaries() {
                    self.progress.verdict(line.is_surprise());
                    if self.batch.logs {
                        let (done, total) = (self.progress.done(), self.progress.total());
                        log(&progress(done, total, &line, nanoseconds(took)));
                    }
                }
                self.progress.ended(at);
                self.runs[at] = Some(run);
            }
            Some(News::Done(at, Err(failure), _)) => {
                self.progress.ended(at);
                self.failures.push((at, failure));
            }
        }
        screen.live(&self.progress.text());
    }

    fn finish(mut self) -> Finished {
        for (at, run) in std::mem::take(&mut self.withdrawn) {
            if self.runs[at].is_none() {
                for line in run.summaries() {
                    self.progress.verdict(line.is_surprise());
                }
                self.runs[at] = Some(run);
            }
        }
        let (done, total) = (self.progress.done(), self.progress.total());
        let is_complete = self.runs.iter().all(Option::is_some);
        let no_thread = || {
            let what = "no thread could be started for the trials";
            (!is_complete).then(|| CommandError::new(exit::INTERNAL, what))
        };
        let ended = explained(self.failures, done, total, self.batch).or_else(no_thread);
        let name = |at: &usize| {
            let cell = &self.batch.cells[*at];
            format!("{} {}", cell.scenario(), cell.strategy().name)
        };
        Finished {
            runs: self.runs.into_iter().flatten().collect(),
            repeated: self.repeated.iter().map(name).collect(),
            ended,
        }
    }
}

/// Returns the error for a batch that was not finished. A failure takes precedence over an interruption.
fn explained(
    failures: Vec<(usize, TrialFailure)>,
    done: usize,
    total: usize,
    batch: &Batch<'_>,
) -> Option<CommandError> {
    let mut interrupted = None;
    let mut processes = 0;
    for (at, failure) in failures {
        match failure {
            TrialFailure::Files(error) => return Some(error),
            TrialFailure::Run(NoVerdict::Interrupted {
                signal, stopped, ..
            }) => {
                interrupted = Some(signal);
                processes += stopped;
            }
            TrialFailure::Run(no_verdict) => {
                let history = batch
                    .folder
                    .map(|folder| folder.join(format!("{}.jsonl", batch.stems[at])));
                let flags = UsedFlags {
                    history: history.as_deref().map(|path| ("--output", path)),
                    has_concurrency: false,
                };
                return Some(explain(&no_verdict, flags));
            }
        }
    }
    let what = format!("{done} of {total} {} were finished.", batch.what);
    let error = CommandError::interrupted(exit::interrupted(interrupted?), what).with(
        "stopped",
        format_args!(
            "{}; nothing is left running, no temporary file stays",
            plural(processes, "process", "processes")
        ),
    );
    Some(match batch.folder {
        Some(folder) => error.with(
            "kept",
            format_args!("{}: what was finished", folder.display()),
        ),
        None => error,
    })
}

pub(crate) fn nanoseconds(duration: Duration) -> u64 {
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
    use fencepost_trial::matrix::cells;
    use fencepost_trial::sale::Judged;
    use fencepost_trial::store::TrialStore;

    /// Returns a run of this cell in which nothing happened.
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
        let batch = Batch {
            cells: &cells,
            stems: &[],
            contender: None,
            tolerant: false,
            folder: None,
            side_by_side: 1,
            logs: false,
            interrupt: Interrupt::never(),
            what: "trials",
        };
        let mut collector = Collector {
            batch: &batch,
            progress: Progress::new(&cells, 1, Instant::now()),
            runs: cells.iter().map(|_| None).collect(),
            withdrawn: BTreeMap::new(),
            failures: Vec::new(),
            repeated: BTreeSet::new(),
        };
        assert_eq!(collector.showed_nothing(), Vec::<usize>::new());
        let run = nothing(&cells[1]);
        assert!(run.showed_nothing());
        collector.progress.verdict(!run.as_expected());
        collector.runs[1] = Some(run);
        assert_eq!(collector.showed_nothing(), [1]);
        assert!(collector.runs[1].is_none());
        assert_eq!(collector.progress.done(), 0);
        let finished = collector.finish();
        assert_eq!(finished.runs.len(), 1, "nothing has taken its place");
    }
}
