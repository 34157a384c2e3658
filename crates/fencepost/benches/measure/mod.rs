//! What the benchmarks share: interleaved rounds, ratios within a round, and a table.
//!
//! A shared machine is fast one second and slow the next. Contenders therefore take short turns (A B C A B C …), each round gives its own
//! ratio, and the median of the ratios is printed. Absolute figures come last, for orientation.
#![allow(dead_code, reason = "each benchmark uses its own part of this")]

use std::fmt;
use std::time::Duration;

/// How much to measure: everything under `cargo bench`, a short run under `cargo test --benches`.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    full: bool,
}

impl Effort {
    /// Cargo passes `--bench` to a benchmark that should measure.
    pub(crate) fn from_arguments() -> Self {
        Self {
            full: std::env::args().any(|argument| argument == "--bench"),
        }
    }

    pub(crate) fn pick(self, full: usize, taste: usize) -> usize {
        if self.full { full } else { taste }
    }
}

/// The time per operation of one contender, round by round.
pub(crate) struct Samples(Vec<f64>);

/// Lets the contenders take turns, once to warm up and then for `count` rounds. Each returns its time per operation.
pub(crate) fn rounds<const N: usize>(
    count: usize,
    contenders: [&mut dyn FnMut() -> Duration; N],
) -> [Samples; N] {
    let boxed = |contender| Box::new(contender) as Contender<'_>;
    let mut contenders: Vec<_> = contenders.into_iter().map(boxed).collect();
    let samples = rounds_of(count, &mut contenders);
    let samples: Result<[Samples; N], _> = samples.try_into();
    samples.unwrap_or_else(|_| unreachable!("one for each contender"))
}

/// A contender that can have its turn repeatedly; returns its time per operation.
pub(crate) type Contender<'a> = Box<dyn FnMut() -> Duration + 'a>;

/// Does the same as [`rounds`] for any number of contenders.
pub(crate) fn rounds_of(count: usize, contenders: &mut [Contender<'_>]) -> Vec<Samples> {
    let mut samples: Vec<_> = contenders.iter().map(|_| Samples(Vec::new())).collect();
    for round in 0..=count {
        for (contender, samples) in contenders.iter_mut().zip(&mut samples) {
            let time = contender();
            if round > 0 {
                samples.push(time);
            }
        }
    }
    samples
}

impl Samples {
    fn push(&mut self, time: Duration) {
        self.0.push(time.as_nanos() as f64);
    }

    /// Returns how fast this one is, with `other` as 1: the ratio of each round.
    pub(crate) fn speed_against(&self, other: &Self) -> Spread {
        Spread::of(other.0.iter().zip(&self.0).map(|(other, own)| other / own))
    }

    /// Returns how long this one takes, with `other` as 1: the ratio of each round.
    pub(crate) fn time_against(&self, other: &Self) -> Spread {
        other.speed_against(self)
    }

    /// Returns the samples for `count` operations.
    pub(crate) fn times(&self, count: usize) -> Self {
        Self(self.0.iter().map(|ns| ns * count as f64).collect())
    }

    /// Returns the median as time per operation.
    pub(crate) fn time(&self) -> String {
        let ns = Spread::of(self.0.iter().copied()).median;
        match ns {
            ns if ns < 10_000.0 => format!("{ns:.0} ns"),
            ns if ns < 1_000_000.0 => format!("{:.1} µs", ns / 1e3),
            ns => format!("{:.1} ms", ns / 1e6),
        }
    }

    /// Returns the median as operations per second.
    pub(crate) fn rate(&self) -> String {
        let rate = 1e9 / Spread::of(self.0.iter().copied()).median;
        match rate {
            rate if rate < 10_000.0 => format!("{rate:.0}/s"),
            rate if rate < 1e6 => format!("{:.0},000/s", rate / 1e3),
            rate => format!("{:.2} million/s", rate / 1e6),
        }
    }
}

/// The median and the extremes of several values.
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        Self {
            median: at(values.len() / 2),
            min: at(0),
            max: at(values.len().saturating_sub(1)),
        }
    }
}

/// The output of a benchmark, with the ratio first.
pub(crate) struct Table {
    title: &'static str,
    rows: Vec<[String; 4]>,
}

impl Table {
    pub(crate) fn new(title: &'static str) -> Self {
        let heading = ["ratio", "min … max", "goal", "what: on this machine, now"];
        Self {
            title,
            rows: vec![heading.map(str::to_owned)],
        }
    }

    /// Adds a ratio, its goal if there is one, its meaning, and the absolute figures behind it.
    pub(crate) fn ratio(&mut self, ratio: Spread, goal: Option<f64>, what: &str, here: String) {
        let goal = match goal {
            Some(goal) if ratio.median >= goal => format!("≥ {goal} met"),
            Some(goal) => format!("≥ {goal} MISSED"),
            None => String::new(),
        };
        let Spread { median, min, max } = ratio;
        let ends = format!("{min:.2} … {max:.2}");
        let what = format!("{what}: {here}");
        self.rows.push([format!("{median:.2}"), ends, goal, what]);
    }

    /// Adds a ratio of two counts, which are the same in every round.
    pub(crate) fn counts(&mut self, ratio: f64, what: &str, here: String) {
        let what = format!("{what}: {here}");
        self.rows
            .push([format!("{ratio:.2}"), String::new(), String::new(), what]);
    }

    /// Adds a figure without a ratio.
    pub(crate) fn figure(&mut self, what: &str, here: String) {
        let what = format!("{what}: {here}");
        self.rows
            .push([String::new(), String::new(), String::new(), what]);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        for [ratio, ends, goal, what] in &self.rows {
            writeln!(f, "  {ratio:>6}  {ends:<14} {goal:<12}  {what}")?;
        }
        Ok(())
    }
}
