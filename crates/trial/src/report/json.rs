//! JSON reports, one module per kind of trial, and the object of a verdict, which is the same in all of them.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::verdict::{Belief, Checked, Cited, Evidence, Lack, Outcome, Verdict};

pub mod check;
pub mod envelope;
pub mod gauntlet;
pub mod holds;
pub mod matrix;
pub mod retry;
pub mod sale;

/// Converts nanoseconds to milliseconds with three decimals.
fn ms(ns: u64) -> f64 {
    (ns as f64 / 1e3).round() / 1e3
}

/// Writes negative numbers with a hyphen, as programs do.
fn with_hyphens(text: &str) -> String {
    text.replace('−', "-")
}

fn all_with_hyphens(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| with_hyphens(text)).collect()
}

/// The JSON object of a verdict.
#[derive(Debug, Serialize)]
struct VerdictEntry {
    outcome: Outcome,
    exit_code: u8,
    expected: Option<Outcome>,
    because: String,
    evidence: Vec<EvidenceEntry>,
    witness: Vec<String>,
    missing: Option<Lack>,
    measured: Vec<String>,
    why: Option<String>,
    limits: Option<String>,
    notes: Vec<String>,
    belief: Belief,
    damage: Vec<&'static str>,
    checks: Map<String, Value>,
    reproduce: String,
}

#[derive(Debug, Serialize)]
struct EvidenceEntry {
    event: u64,
    at_ms: f64,
    who: String,
    what: String,
    sentence: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<u64>,
}

impl VerdictEntry {
    fn of(verdict: &Verdict, expected: Option<Outcome>, reproduce: String) -> Self {
        let finding = |checked: &Checked| {
            let found = serde_json::to_value(checked.finding).unwrap_or_default();
            (checked.name.to_owned(), found)
        };
        Self {
            outcome: verdict.outcome,
            exit_code: verdict.outcome.exit_code(),
            expected,
            because: with_hyphens(&verdict.because),
            evidence: verdict.evidence.iter().map(EvidenceEntry::of).collect(),
            witness: verdict.witness.clone(),
            missing: verdict.missing.as_ref().map(|missing| missing.what),
            measured: all_with_hyphens(&verdict.measured),
            why: verdict.why.as_deref().map(with_hyphens),
            limits: verdict.limits.as_deref().map(with_hyphens),
            notes: all_with_hyphens(&verdict.notes),
            belief: verdict.belief.code,
            damage: verdict
                .damage
                .code
                .iter()
                .map(|damage| damage.name())
                .collect(),
            checks: verdict.checks.iter().map(finding).collect(),
            reproduce,
        }
    }
}

impl EvidenceEntry {
    fn of(evidence: &Evidence) -> Self {
        let op = match evidence.cited {
            Cited::Event => None,
            Cited::Op(op) | Cited::Ops(op, _) => Some(op),
        };
        Self {
            event: evidence.event,
            at_ms: ms(evidence.at_ns),
            who: evidence.who.clone(),
            what: evidence.what.clone(),
            sentence: with_hyphens(&evidence.sentence),
            op,
        }
    }
}
