//! Reads the thresholds and measurements of a k6 run from the summary that load-tests/summary.js writes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::terminal;

/// A threshold of a script.
#[derive(Debug, PartialEq)]
pub(super) struct Threshold {
    metric: String,
    kind: Kind,
}

#[derive(Debug, PartialEq)]
enum Kind {
    /// A condition that the run must meet.
    Limit {
        /// The condition as the script states it: `p(95)<500`.
        text: String,
        measured: Option<f64>,
        is_held: bool,
    },
    /// The figures of a tag. k6 reports them only if the tag has a threshold, so the script gives it one that always holds.
    Figures([f64; 3]),
}

/// The condition that always holds.
const NO_LIMIT: &str = "max>=0";
/// The figures that are reported for a tag.
pub(super) const FIGURES: [&str; 3] = ["med", "p(95)", "max"];

/// Reads the thresholds of a run, by metric.
///
/// # Errors
/// Returns an error if the summary is missing or invalid.
pub(super) fn read(summary: &Path) -> Result<Vec<Threshold>> {
    let text = fs::read_to_string(summary).context("k6 wrote no summary")?;
    let summary: Value = serde_json::from_str(&text)?;
    thresholds(&summary).context("the summary has no metrics")
}

fn thresholds(summary: &Value) -> Option<Vec<Threshold>> {
    let mut all = Vec::new();
    for (metric, measurement) in summary["metrics"].as_object()? {
        for (text, threshold) in measurement["thresholds"].as_object().into_iter().flatten() {
            let measured = |part: &str| measurement["values"][part].as_f64();
            let kind = if text == NO_LIMIT {
                Kind::Figures(FIGURES.map(|part| measured(part).unwrap_or(f64::NAN)))
            } else {
                Kind::Limit {
                    text: text.clone(),
                    measured: measured(watched(text)),
                    is_held: threshold["ok"].as_bool().unwrap_or(false),
                }
            };
            all.push(Threshold {
                metric: metric.clone(),
                kind,
            });
        }
    }
    all.sort_by(|a, b| a.order().cmp(&b.order()));
    Some(all)
}

/// Returns the figure that a condition limits: `p(95)` of `p(95)<500`.
fn watched(condition: &str) -> &str {
    let end = condition.find(['<', '>', '=', '!']);
    condition[..end.unwrap_or(condition.len())].trim()
}

impl Threshold {
    /// Returns whether the run met the threshold.
    pub(super) fn is_held(&self) -> bool {
        match self.kind {
            Kind::Limit { is_held, .. } => is_held,
            Kind::Figures(_) => true,
        }
    }

    /// Returns the row of a limit; `None` for figures.
    pub(super) fn limit(&self, script: &str) -> Option<Vec<String>> {
        let Kind::Limit {
            text,
            measured,
            is_held,
        } = &self.kind
        else {
            return None;
        };
        let measured = measured.map_or_else(|| "?".to_owned(), number);
        let verdict = if *is_held {
            terminal::green("held")
        } else {
            terminal::red("BROKEN")
        };
        Some(vec![
            script.to_owned(),
            self.metric.clone(),
            text.clone(),
            measured,
            verdict,
        ])
    }

    /// Returns the row of figures; `None` for a limit.
    pub(super) fn figures(&self, script: &str) -> Option<Vec<String>> {
        let Kind::Figures(figures) = self.kind else {
            return None;
        };
        let names = [script.to_owned(), self.metric.clone()];
        Some(names.into_iter().chain(figures.map(number)).collect())
    }

    fn order(&self) -> (&str, &str) {
        match &self.kind {
            Kind::Limit { text, .. } => (&self.metric, text),
            Kind::Figures(_) => (&self.metric, NO_LIMIT),
        }
    }
}

/// Formats whole numbers without decimals, and others with three decimal places.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    format!("{value:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_threshold_is_told_with_what_was_measured() {
        let summary = serde_json::json!({"metrics": {
            "http_req_duration": {
                "values": {"p(95)": 12.3456, "p(99)": 700.0},
                "thresholds": {"p(95)<500": {"ok": true}, "p(99)<600": {"ok": false}},
            },
            "iterations": {"values": {"count": 5}},
            "purchases_created": {"values": {"count": 1}, "thresholds": {"count==1": {"ok": true}}},
            "retries{schedule:fixed}": {
                "values": {"med": 1.0, "p(95)": 2.5, "max": 3.0},
                "thresholds": {"max>=0": {"ok": true}},
            },
        }});
        let thresholds = thresholds(&summary).unwrap();
        let limits = thresholds.iter().filter_map(|one| one.limit("s"));
        let rows: Vec<_> = limits.map(|row| row.join(" ")).collect();
        assert_eq!(
            rows,
            [
                "s http_req_duration p(95)<500 12.346 held",
                "s http_req_duration p(99)<600 700 BROKEN",
                "s purchases_created count==1 1 held",
            ]
        );
        let figures = thresholds.iter().filter_map(|one| one.figures("s"));
        assert_eq!(
            figures.collect::<Vec<_>>(),
            [["s", "retries{schedule:fixed}", "1", "2.500", "3"]]
        );
        let held = thresholds.iter().map(Threshold::is_held);
        assert_eq!(held.collect::<Vec<_>>(), [true, false, true, true]);
    }

    #[test]
    fn a_missing_summary_meets_no_limit() {
        assert_eq!(thresholds(&serde_json::json!({})), None);
        assert!(read(Path::new("no such file")).is_err());
    }
}
