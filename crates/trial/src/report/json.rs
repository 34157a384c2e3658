//! JSON reports, one module per kind of trial, and the object of a verdict, which is the same in all of them.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::verdict::{Belief, Checked, Cited, Damage, Evidence, Outcome, Verdict};

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

/// The JSON object of a verdict.
#[derive(Debug, Serialize)]
struct VerdictEntry {
    outcome: Outcome,
    exit_code: u8,
    expected: Option<Outcome>,
    because: String,
    evidence: Vec<EvidenceEntry>,
    witness: Vec<String>,
    missing: Option<&'static str>,
    belief: Belief,
    damage: String,
    checks: Map<String, Value>,
    reproduce: String,
}

#[derive(Debug, Serialize)]
struct EvidenceEntry {
    event: u64,
    at_ms: f64,
    who: String,
    what: String,
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
            because: verdict.because.replace('−', "-"),
            evidence: verdict.evidence.iter().map(EvidenceEntry::of).collect(),
            witness: verdict.witness.clone(),
            missing: verdict.missing.as_ref().map(|missing| missing.what),
            belief: verdict.belief.code,
            damage: Damage::names(&verdict.damage.code),
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
            op,
        }
    }
}
