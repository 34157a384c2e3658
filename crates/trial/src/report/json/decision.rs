//! The JSON object of a verdict, which is the same in every report.

use serde::Serialize;
use serde_json::{Map, Value};

use super::ms;
use crate::verdict::{Belief, Cited, Damage, Evidence, Outcome, Verdict};

/// The verdict object.
#[derive(Debug, Serialize)]
pub(super) struct Decision {
    outcome: Outcome,
    exit_code: u8,
    expected: Option<Outcome>,
    because: String,
    evidence: Vec<Proof>,
    witness: Vec<String>,
    missing: Option<&'static str>,
    belief: Belief,
    damage: String,
    checks: Map<String, Value>,
    reproduce: String,
}

#[derive(Debug, Serialize)]
struct Proof {
    event: u64,
    at_ms: f64,
    who: String,
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<u64>,
}

impl Decision {
    pub(super) fn of(verdict: &Verdict, expected: Option<Outcome>, reproduce: String) -> Self {
        let finding = |checked: &crate::check::Checked| {
            let found = serde_json::to_value(checked.finding).unwrap_or_default();
            (checked.name.to_owned(), found)
        };
        Self {
            outcome: verdict.outcome,
            exit_code: verdict.outcome.exit_code(),
            expected,
            because: verdict.because.replace('−', "-"),
            evidence: verdict.evidence.iter().map(Proof::of).collect(),
            witness: verdict.witness.clone(),
            missing: verdict.missing.as_ref().map(|missing| missing.what),
            belief: verdict.belief.code,
            damage: Damage::names(&verdict.damage.code),
            checks: verdict.checks.iter().map(finding).collect(),
            reproduce,
        }
    }
}

/// Returns the verdict object for a document.
pub(crate) fn verdict(verdict: &Verdict, expected: Option<Outcome>, reproduce: String) -> Value {
    // Every field is a number, a string or a list of these, so the conversion cannot fail.
    serde_json::to_value(Decision::of(verdict, expected, reproduce)).unwrap_or_default()
}

impl Proof {
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
