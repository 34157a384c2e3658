//! The results of a run: a table for people, and the same data as JSON for `cargo xtask bench`.
#![allow(dead_code, reason = "each benchmark uses its own part of this")]

use std::fmt;

use serde::Serialize;

use crate::measure::{Samples, Spread};

/// Our name among the contenders.
pub(crate) const OURS: &str = "fencepost";

#[derive(Serialize)]
pub(crate) struct Report {
    #[serde(skip)]
    pub(crate) title: &'static str,
    pub(crate) machine: Machine,
    pub(crate) rows: Vec<Row>,
    pub(crate) skipped: Vec<String>,
}

#[derive(Serialize)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    /// What was measured, with its version.
    pub(crate) versions: Vec<String>,
}

/// One contender in one workload.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) workload: String,
    pub(crate) what: String,
    pub(crate) contender: String,
    /// What a ratio of 1 stands for, and whether more is better.
    pub(crate) against: Against,
    pub(crate) ratio: Option<Ratio>,
    pub(crate) goal: Option<Goal>,
    pub(crate) met: Option<bool>,
    /// The absolute figures behind it, on this machine at this time.
    pub(crate) here: String,
    /// Commands that clients sent, per turn; commands that scripts call in the server do not count.
    pub(crate) commands: Option<f64>,
    /// Processor time of the Redis server for one operation, in microseconds, and the same for the reference.
    pub(crate) server_us: Option<[f64; 2]>,
    /// Spearman's rank correlation between the order of asking and the order of service: 1 is first come, first served.
    pub(crate) order: Option<f64>,
}

#[derive(Serialize, Clone, Copy)]
pub(crate) struct Against {
    pub(crate) one_is: &'static str,
    pub(crate) more_is_better: bool,
}

impl Against {
    /// There is no ratio.
    pub(crate) const NOTHING: Self = Self::time_of("");

    pub(crate) const fn speed_of(one_is: &'static str) -> Self {
        Self {
            one_is,
            more_is_better: true,
        }
    }

    pub(crate) const fn time_of(one_is: &'static str) -> Self {
        Self {
            one_is,
            more_is_better: false,
        }
    }
}

/// A workload in which contenders are compared with a limit, round by round.
#[derive(Clone, Copy)]
pub(crate) struct Contest<'a> {
    pub(crate) workload: &'a str,
    pub(crate) what: &'a str,
    pub(crate) against: Against,
    /// The goal for ours, if there is one.
    pub(crate) goal: Option<Goal>,
    pub(crate) shown: Shown,
}

/// How the absolute figures are displayed.
#[derive(Clone, Copy)]
pub(crate) enum Shown {
    /// As the time per unit with this name.
    Time(&'static str),
    /// As operations per second.
    Rate,
}

impl Contest<'_> {
    /// Returns the rows, ours first, then one for each peer.
    pub(crate) fn rows(&self, peers: &[&str], limit: &Samples, samples: &[Samples]) -> Vec<Row> {
        let peers = peers.iter().zip(&samples[1..]);
        let peers = peers.map(|(peer, own)| self.row(peer, own, limit));
        let ours = self.ours(&samples[0], limit);
        std::iter::once(ours).chain(peers).collect()
    }

    pub(crate) fn ours(&self, own: &Samples, limit: &Samples) -> Row {
        let mut row = self.row(OURS, own, limit);
        row.goal = self.goal;
        let met = |goal: Goal| row.ratio.map(|ratio| goal.is_met(ratio.median));
        row.met = self.goal.and_then(met);
        row
    }

    pub(crate) fn row(&self, contender: &str, own: &Samples, limit: &Samples) -> Row {
        let here = match self.shown {
            Shown::Time(of) => format!("{} / {} {of}", own.time(), limit.time()),
            Shown::Rate => format!("{} / {}", own.rate(), limit.rate()),
        };
        let Spread { median, min, max } = if self.against.more_is_better {
            own.speed_against(limit)
        } else {
            own.time_against(limit)
        };
        let mut row = Row::new(self.workload, self.what, self.against, here);
        row.contender = contender.to_owned();
        row.ratio = Some(Ratio { median, min, max });
        row
    }
}

#[derive(Serialize, Clone, Copy)]
pub(crate) struct Ratio {
    median: f64,
    min: f64,
    max: f64,
}

#[derive(Serialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, "≥ {least}"),
            Self::AtMost(most) => write!(f, "≤ {most}"),
        }
    }
}

impl Row {
    /// Creates a row with a figure of ours without a ratio.
    pub(crate) fn new(
        workload: &str,
        what: impl Into<String>,
        against: Against,
        here: String,
    ) -> Self {
        Self {
            workload: workload.to_owned(),
            what: what.into(),
            contender: OURS.to_owned(),
            against,
            ratio: None,
            goal: None,
            met: None,
            here,
            commands: None,
            server_us: None,
            order: None,
        }
    }
}

impl Report {
    /// Writes the figures to the file that `cargo xtask bench` expects.
    pub(crate) fn write_json(&self) {
        if let Some(path) = std::env::var_os("FENCEPOST_BENCH_JSON") {
            let text = serde_json::to_string_pretty(self).expect("plain data");
            std::fs::write(&path, text).expect("a file that can be written");
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        let mut last = String::new();
        for row in &self.rows {
            let mut heading = format!("{} {}", row.workload, row.what);
            if !row.against.one_is.is_empty() {
                heading += &format!("; 1 is {}", row.against.one_is);
            }
            if heading != last {
                writeln!(f, "{heading}")?;
                last = heading;
            }
            writeln!(f, "  {row}")?;
        }
        for line in &self.skipped {
            writeln!(f, "skipped: {line}")?;
        }
        let Machine { cores, versions } = &self.machine;
        writeln!(f, "{}, {cores} cores", versions.join(", "))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut median, mut ends) = (String::new(), String::new());
        if let Some(ratio) = self.ratio {
            median = short(ratio.median);
            ends = format!("{} … {}", short(ratio.min), short(ratio.max));
        }
        let goal = match (self.goal, self.met) {
            (Some(goal), Some(true)) => format!("{goal} met"),
            (Some(goal), Some(false)) => format!("{goal} MISSED"),
            _ => String::new(),
        };
        let commands = self.commands.map(|count| format!("{count:.2} commands"));
        let server = self
            .server_us
            .map(|[own, limit]| format!("server {own:.1} / {limit:.1} µs"));
        let order = self.order.map(|order| format!("order {order:.2}"));
        let more: Vec<String> = [commands, server, order].into_iter().flatten().collect();
        let Self {
            contender, here, ..
        } = self;
        write!(
            f,
            "{median:>7}  {ends:<16} {goal:<14} {contender:<18} {here}"
        )?;
        more.iter().try_for_each(|text| write!(f, ", {text}"))
    }
}

/// Formats a number with three significant digits.
fn short(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 0.1 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}
