//! Reads the thresholds and measurements of a k6 run from the summary that load-tests/summary.js writes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::terminal;

/// A threshold of a script.
#[derive(Debug, PartialEq)]
pub(super) struct Limit {
    metric: String,
    /// The condition as the script states it: `p(95)<500`.
    text: String,
    measured: Option<f64>,
    pub(super) is_held: bool,
    /// The figures of a threshold that always holds, which exists because k6 reports the figures of a tag only if there is a threshold.
    /// `None` for a real limit.
    figures: Option<[f64; 3]>,
}

/// A condition that always holds.
const NO_LIMIT: &str = "max>=0";
/// The figures that are reported for such a threshold.
pub(super) const FIGURES: [&str; 3] = ["med", "p(95)", "max"];

/// Reads the thresholds of a run, by metric.
///
/// # Errors
/// Returns an error if the summary is missing or invalid.
pub(super) fn read(summary: &Path) -> Result<Vec<Limit>> {
    let text = fs::read_to_string(summary).context("k6 wrote no summary")?;
    let summary: Value = serde_json::from_str(&text)?;
    limits(&summary).context("the summary has no metrics")
}

fn limits(summary: &Value) -> Option<Vec<Limit>> {
    let mut all = Vec::new();
    for (metric, measurement) in summary["metrics"].as_object()? {
        for (text, threshold) in measurement["thresholds"].as_object().into_iter().flatten() {
            all.push(Limit {
                metric: metric.clone(),
                text: text.clone(),
                measured: measurement["values"][watched(text)].as_f64(),
                is_held: threshold["ok"].as_bool().unwrap_or(false),
                figures: (text == NO_LIMIT).then(|| {
                    FIGURES.map(|part| measurement["values"][part].as_f64().unwrap_or(f64::NAN))
                }),
            });
        }
    }
    all.sort_by(|a, b| (&a.metric, &a.text).cmp(&(&b.metric, &b.text)));
    Some(all)
}

/// Returns what a limit watches: `p(95)` of `p(95)<500`.
fn watched(limit: &str) -> &str {
    let end = limit.find(['<', '>', '=', '!']).unwrap_or(limit.len());
    limit[..end].trim()
}

impl Limit {
    /// Returns a row with the figures; `None` for a real limit.
    pub(super) fn figures(&self, script: &str) -> Option<Vec<String>> {
        let figures = self.figures?.map(number);
        let names = [script.to_owned(), self.metric.clone()];
        Some(names.into_iter().chain(figures).collect())
    }

    pub(super) fn is_limit(&self) -> bool {
        self.figures.is_none()
    }

    pub(super) fn row(&self, script: &str) -> Vec<String> {
        let measured = self.measured.map_or_else(|| "?".to_owned(), number);
        let verdict = if self.is_held {
            terminal::green("held")
        } else {
            terminal::red("BROKEN")
        };
        vec![
            script.to_owned(),
            self.metric.clone(),
            self.text.clone(),
            measured,
            verdict,
        ]
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
        let limits = limits(&summary).unwrap();
        let rows: Vec<_> = limits
            .iter()
            .filter(|limit| limit.is_limit())
            .map(|limit| limit.row("s").join(" "))
            .collect();
        assert_eq!(
            rows,
            [
                "s http_req_duration p(95)<500 12.346 held",
                "s http_req_duration p(99)<600 700 BROKEN",
                "s purchases_created count==1 1 held",
            ]
        );
        let figures: Vec<_> = limits
            .iter()
            .filter_map(|limit| limit.figures("s"))
            .collect();
        assert_eq!(
            figures,
            [["s", "retries{schedule:fixed}", "1", "2.500", "3"]]
        );
    }

    #[test]
    fn a_missing_summary_meets_no_limit() {
        assert_eq!(limits(&serde_json::json!({})), None);
        assert!(read(Path::new("no such file")).is_err());
    }
}
