//! The live progress of a batch, on two lines.

use std::time::Instant;

use fencepost_trial::matrix::Cell;
use fencepost_trial::text::numbers::decimal;

const BAR_COLUMNS: usize = 40;
/// How many running trials are named.
const NAMED: usize = 3;

/// The finished and the running trials.
pub(super) struct Progress<'a> {
    cells: &'a [Cell],
    workers: usize,
    started: Instant,
    under_way: Vec<(usize, Instant)>,
    left: Vec<usize>,
    done: usize,
    surprises: usize,
}

impl<'a> Progress<'a> {
    pub(super) fn new(cells: &'a [Cell], workers: usize, started: Instant) -> Self {
        Self {
            cells,
            workers,
            started,
            under_way: Vec::new(),
            left: (0..cells.len()).collect(),
            done: 0,
            surprises: 0,
        }
    }

    pub(super) fn begun(&mut self, at: usize) {
        self.under_way.push((at, Instant::now()));
    }

    pub(super) fn ended(&mut self, at: usize) {
        self.under_way.retain(|(other, _)| *other != at);
        self.left.retain(|other| *other != at);
    }

    pub(super) fn verdict(&mut self, is_surprise: bool) {
        self.done += 1;
        self.surprises += usize::from(is_surprise);
    }

    /// Takes a verdict back, because its trial is run again.
    pub(super) fn verdict_withdrawn(&mut self, is_surprise: bool) {
        self.done -= 1;
        self.surprises -= usize::from(is_surprise);
    }

    /// Returns how many verdicts there are so far.
    pub(super) fn done(&self) -> usize {
        self.done
    }

    /// Returns how many verdicts there will be.
    pub(super) fn total(&self) -> usize {
        self.cells.iter().map(Cell::verdicts).sum()
    }

    pub(super) fn text(&self) -> String {
        let (done, total) = (self.done, self.total());
        let bar = "━".repeat(done * BAR_COLUMNS / total.max(1));
        let counted = format!("{done} of {total}   {} surprises", self.surprises);
        let seconds = self.started.elapsed().as_secs();
        let left = match self.seconds_left() {
            0 => String::new(),
            left => format!(", about {left} s left"),
        };
        format!(
            "  {bar:<BAR_COLUMNS$}   {counted:<25}   {seconds} s{left}\n  now       {}",
            self.now()
        )
    }

    /// Estimates the remaining time from the usual durations: sales run one by one, the others in parallel, and no run is shorter than its
    /// longest trial.
    fn seconds_left(&self) -> u64 {
        let (mut sales, mut others, mut longest) = (0, 0, 0);
        for &at in &self.left {
            let since = self.under_way.iter().find(|(other, _)| *other == at);
            let spent = since.map_or(0, |(_, since)| since.elapsed().as_millis() as u64);
            let ms = self.cells[at].likely_ms().saturating_sub(spent);
            match self.cells[at] {
                Cell::Sale(_) => sales += ms,
                _ => others += ms,
            }
            longest = longest.max(ms);
        }
        (sales + (others / self.workers as u64).max(longest)).div_ceil(1000)
    }

    /// Returns the running trials, longest first.
    fn now(&self) -> String {
        let named = self.under_way.iter().take(NAMED).map(|(at, since)| {
            let cell = &self.cells[*at];
            let seconds = decimal(since.elapsed().as_secs_f64());
            format!("{} {}, {seconds} s", cell.scenario(), cell.strategy().name)
        });
        let mut names: Vec<String> = named.collect();
        if let more @ 1.. = self.under_way.len().saturating_sub(NAMED) {
            names.push(format!("{more} more"));
        }
        names.join(" · ")
    }
}
