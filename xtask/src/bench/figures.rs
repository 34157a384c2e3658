//! Reads the figures that the benchmarks write (`benches/measure/report.rs`), and formats the table for docs/performance.md.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

#[derive(Deserialize, Serialize)]
pub(super) struct Figures {
    pub(super) machine: Machine,
    pub(super) rows: Vec<Row>,
    pub(super) skipped: Vec<String>,
}

#[derive(Deserialize, Serialize)]
pub(super) struct Machine {
    pub(super) cores: usize,
    pub(super) versions: Vec<String>,
}

/// One contender in one workload.
#[derive(Deserialize, Serialize)]
pub(super) struct Row {
    pub(super) workload: String,
    pub(super) what: String,
    pub(super) contender: String,
    pub(super) against: Against,
    pub(super) ratio: Option<Ratio>,
    pub(super) goal: Option<Goal>,
    pub(super) met: Option<bool>,
    pub(super) here: String,
    pub(super) commands: Option<f64>,
    pub(super) server_us: Option<[f64; 2]>,
    pub(super) order: Option<f64>,
}

#[derive(Deserialize, Serialize)]
pub(super) struct Against {
    pub(super) one_is: String,
    pub(super) more_is_better: bool,
}

#[derive(Deserialize, Serialize)]
pub(super) struct Ratio {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

#[derive(Deserialize, Serialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(super) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    pub(super) fn value(self) -> f64 {
        match self {
            Self::AtLeast(value) | Self::AtMost(value) => value,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(value) => write!(f, "≥ {value}"),
            Self::AtMost(value) => write!(f, "≤ {value}"),
        }
    }
}

impl Figures {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).context("the benchmark wrote no figures")?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    }

    /// Appends the figures of another run.
    pub(super) fn add(&mut self, other: Self) {
        for version in other.machine.versions {
            if !self.machine.versions.contains(&version) {
                self.machine.versions.push(version);
            }
        }
        self.rows.extend(other.rows);
        self.skipped.extend(other.skipped);
    }

    /// Returns the Markdown table, ready to be pasted into the documentation.
    pub(super) fn markdown(&self) -> String {
        let mut text = String::from(
            "| | contender | ratio | least … most | goal | on this machine: contender / baseline |\n|---|---|---|---|---|---|\n",
        );
        let mut last = String::new();
        for row in &self.rows {
            let heading = row.heading();
            let shown = if heading == last { "" } else { &heading };
            text += &format!("| {shown} {}\n", row.cells());
            last = heading;
        }
        let Machine { cores, versions } = &self.machine;
        text += &format!("\n{}; {cores} cores.\n", versions.join(", "));
        for line in &self.skipped {
            text += &format!("Skipped: {line}.\n");
        }
        text
    }

    /// Returns how many goals there were, and which were missed.
    pub(super) fn summary(&self) -> String {
        let with_goal: Vec<_> = self.rows.iter().filter(|row| row.met.is_some()).collect();
        let missed = with_goal.iter().filter(|row| row.met == Some(false));
        let missed: Vec<String> = missed
            .map(|row| format!("{} ({})", row.workload, row.contender))
            .collect();
        if with_goal.is_empty() {
            return "goals:   none".to_owned();
        }
        let met = with_goal.len() - missed.len();
        let mut text = format!("goals:   {met} of {} met", with_goal.len());
        if !missed.is_empty() {
            text += &format!("; missed: {}", missed.join(", "));
        }
        text
    }
}

impl Row {
    fn heading(&self) -> String {
        let Self { workload, what, .. } = self;
        match self.against.one_is.as_str() {
            "" => format!("**{workload}** {what}"),
            one_is => format!("**{workload}** {what}; 1 is {one_is}"),
        }
    }

    fn cells(&self) -> String {
        let (mut ratio, mut ends) = ("–".to_owned(), "–".to_owned());
        if let Some(Ratio { median, min, max }) = &self.ratio {
            ratio = short(*median);
            ends = format!("{} … {}", short(*min), short(*max));
        }
        let goal = match (self.goal, self.met) {
            (Some(goal), Some(true)) => format!("{goal}, met"),
            (Some(goal), Some(false)) => format!("{goal}, **missed**"),
            _ => String::new(),
        };
        let commands = self.commands.map(|count| format!(", {count:.2} commands"));
        let server = self
            .server_us
            .map(|[own, limit]| format!(", server {own:.1} / {limit:.1} µs"));
        let order = self.order.map(|order| format!(", order {order:.2}"));
        format!(
            "| {} | {ratio} | {ends} | {goal} | {}{}{}{} |",
            self.contender,
            self.here,
            commands.unwrap_or_default(),
            server.unwrap_or_default(),
            order.unwrap_or_default(),
        )
    }
}

/// Formats a number with three significant digits at most.
pub(super) fn short(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 0.1 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

#[cfg(test)]
pub(super) const SAMPLE: &str = r#"{
  "machine": { "cores": 2, "versions": ["redis-server 7.0.15", "rslock 0.10.0"] },
  "rows": [
    { "workload": "W1", "what": "a <pair>", "contender": "fencepost",
      "against": { "one_is": "the wire", "more_is_better": true },
      "ratio": { "median": 0.5, "min": 0.4, "max": 0.75 }, "goal": { "at_least": 0.85 }, "met": false,
      "here": "80 µs / 40 µs per pair", "commands": null, "server_us": [5.0, 4.0], "order": null },
    { "workload": "W1", "what": "a <pair>", "contender": "rslock",
      "against": { "one_is": "the wire", "more_is_better": true },
      "ratio": { "median": 0.25, "min": 0.2, "max": 0.3 }, "goal": null, "met": null,
      "here": "160 µs / 40 µs per pair", "commands": null, "order": null },
    { "workload": "W4", "what": "a line", "contender": "fencepost",
      "against": { "one_is": "a mutex", "more_is_better": false },
      "ratio": { "median": 1.0, "min": 0.9, "max": 1.1 }, "goal": { "at_most": 1.05 }, "met": true,
      "here": "2 ms / 2 ms per hold", "commands": 2.0, "order": 1.0 },
    { "workload": "W5", "what": "a crash", "contender": "fencepost",
      "against": { "one_is": "", "more_is_better": false },
      "ratio": null, "goal": null, "met": null, "here": "2 ms", "commands": null, "order": null }
  ],
  "skipped": ["redis-py: not installed"]
}"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_several_runs_become_one_table() {
        let mut both: Figures = serde_json::from_str(SAMPLE).unwrap();
        let mut other: Figures = serde_json::from_str(SAMPLE).unwrap();
        other.machine.versions.push("etcd 3.4".to_owned());
        both.add(other);
        assert_eq!(both.rows.len(), 8);
        let versions = ["redis-server 7.0.15", "rslock 0.10.0", "etcd 3.4"];
        assert_eq!(both.machine.versions, versions);
        let written = serde_json::to_string(&both).unwrap();
        let read: Figures = serde_json::from_str(&written).unwrap();
        assert_eq!(read.markdown(), both.markdown());
    }

    #[test]
    fn the_table_names_each_workload_once_and_says_what_was_missed() {
        let figures: Figures = serde_json::from_str(SAMPLE).unwrap();
        let text = figures.markdown();
        let lines: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| **W1** a <pair>; 1 is the wire | fencepost | 0.50 | 0.40 … 0.75 | ≥ 0.85, **missed** | 80 µs / 40 µs per pair, server 5.0 / 4.0 µs |",
                "|  | rslock | 0.25 | 0.20 … 0.30 |  | 160 µs / 40 µs per pair |",
                "| **W4** a line; 1 is a mutex | fencepost | 1.00 | 0.90 … 1.10 | ≤ 1.05, met | 2 ms / 2 ms per hold, 2.00 commands, order 1.00 |",
                "| **W5** a crash | fencepost | – | – |  | 2 ms |",
                "",
                "redis-server 7.0.15, rslock 0.10.0; 2 cores.",
                "Skipped: redis-py: not installed.",
            ]
        );
        assert_eq!(
            figures.summary(),
            "goals:   1 of 2 met; missed: W1 (fencepost)"
        );
    }
}
