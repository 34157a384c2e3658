//! The JSON report of a comparison: one run per way of waiting, each starting with the fields of the original format.

use serde_json::{Map, Value, json};

use super::{VerdictEntry, ms, sale};
use crate::protocol::{PurchaseOutcome, Retry};
use crate::retry::{Judged, Round};

/// Returns the comparison as one JSON document.
pub fn report(judged: &Judged) -> Value {
    let header = &judged.header;
    let comparison = &judged.comparison;
    let expected = judged.expected();
    json!({
        "scenario": header.scenario,
        "strategy": header.strategy,
        "runs": judged.rounds.iter().map(|round| run(judged, round)).collect::<Vec<_>>(),
        "timestamp": header.recorded,
        "schema": "fencepost/retry/2",
        "version": header.version,
        "store": header.store,
        "seed": header.seed,
        "options": {
            "concurrency": comparison.concurrency,
            "stock": comparison.stock,
            "max_retries": comparison.max_retries,
            "ttl_ms": comparison.ttl_ms,
            "budget_ms": comparison.budget_ms,
            "delay_us": comparison.delay_us,
        },
        "found": judged.verdict.found,
        "verdict": VerdictEntry::of(&judged.verdict, expected, judged.reproduce()),
    })
}

/// Returns one document per way of waiting, each with its own verdict.
pub fn reports(judged: &Judged) -> Vec<Value> {
    let expected = judged.expected();
    let document = |round: &Round| {
        let mut document = run(judged, round);
        let again = judged.reproduce();
        document["schema"] = "fencepost/retry/2".into();
        document["store"] = judged.header.store.as_str().into();
        document["seed"] = judged.header.seed.into();
        document["verdict"] = json!(VerdictEntry::of(&round.verdict, expected, again));
        document
    };
    judged.rounds.iter().map(document).collect()
}

fn run(judged: &Judged, round: &Round) -> Value {
    let Round { facts, figures, .. } = round;
    let unknown = facts.count(PurchaseOutcome::Unknown);
    json!({
        "scenario": judged.header.scenario,
        "strategy": judged.header.strategy,
        "initial_stock": facts.initial,
        "final_stock": facts.final_reading.map_or(-1, |reading| reading.units),
        "total_attempts": facts.attempts.len(),
        "successes": figures.successes,
        "failures": facts.attempts.len() - figures.successes - unknown,
        "oversold": round.verdict.violates("no_oversell"),
        "entries": facts.attempts.iter().map(entry).collect::<Vec<_>>(),
        "timestamp": judged.header.recorded,
        "schedule": schedule(round.retry),
        "duration_ms": ms(figures.duration_ns),
        "average_retries": rounded(figures.average_retries),
        "fairness_sigma_ms": rounded(figures.sigma_ns / 1e6),
        "lock_ops": figures.lock_ops,
        "idle": rounded(figures.idle),
        "gave_up": figures.gave_up,
        "unknown": unknown,
        "contention_rate": facts.contention_rate(),
        "undersold_units": facts.unsold(),
        "lost_updates": facts.lost_updates(),
        "outcome": round.verdict.outcome,
    })
}

/// Returns the way of waiting, without the settings that all ways share.
fn schedule(retry: Retry) -> Value {
    let mut schedule = Map::new();
    schedule.insert("name".into(), retry.pauses.name().into());
    if let Ok(Value::Object(pauses)) = serde_json::to_value(retry.pauses) {
        schedule.extend(pauses);
    }
    Value::Object(schedule)
}

/// Returns an attempt as in a sale, plus its cost.
fn entry(attempt: &crate::sale::facts::Attempt) -> Value {
    let mut entry = sale::entry(attempt);
    let effort = attempt.purchase().and_then(|purchase| purchase.effort);
    if let (Value::Object(fields), Some(effort)) = (&mut entry, effort) {
        fields.insert("retries".into(), effort.retries.into());
        fields.insert("lock_ops".into(), effort.lock_ops.into());
    }
    entry
}

fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}
