//! The JSON report of a sale: the ten fields of the original format in their order, followed by ours.

use serde::Serialize;
use serde_json::{Value, json};

use super::{VerdictEntry, ms};
use crate::protocol::PurchaseOutcome;
use crate::sale::Judged;
use crate::sale::facts::{Answer, Attempt};

/// Returns the report of a sale as one JSON document.
pub fn report(judged: &Judged) -> Value {
    // Every field is a number, a string or a list of these, so the conversion cannot fail.
    serde_json::to_value(Report::of(judged)).unwrap_or_default()
}

/// Returns several sales as one document, with the names of the strategies whose sale was run more than once.
pub fn reports(runs: &[Judged], repeated: &[&str]) -> Value {
    let as_expected = runs.iter().filter(|run| run.as_expected()).count();
    json!({
        "runs": runs.iter().map(report).collect::<Vec<_>>(),
        "repeated": repeated,
        "as_expected": as_expected,
        "total": runs.len(),
    })
}

/// Returns the JSON object of one attempt.
pub(crate) fn entry(attempt: &Attempt) -> Value {
    serde_json::to_value(Entry::of(attempt)).unwrap_or_default()
}

#[derive(Serialize)]
struct Report<'a> {
    scenario: &'a str,
    strategy: &'a str,
    initial_stock: i64,
    final_stock: i64,
    total_attempts: usize,
    successes: usize,
    failures: usize,
    oversold: bool,
    entries: Vec<Entry<'a>>,
    timestamp: &'a str,
    schema: &'static str,
    version: &'a str,
    store: &'a str,
    seed: u64,
    options: Options,
    total_duration_ms: f64,
    failed_stock: usize,
    failed_lock: usize,
    failed_error: usize,
    unknown: usize,
    expected_stock: i64,
    contention_rate: f64,
    oversold_units: i64,
    undersold_units: i64,
    lost_updates: i64,
    verdict: VerdictEntry,
}

#[derive(Serialize)]
struct Options {
    concurrency: usize,
    delay_us: u64,
    wait_ms: u64,
    ttl_ms: u64,
}

#[derive(Serialize)]
struct Entry<'a> {
    process_id: &'a str,
    lock_acquired: bool,
    stock_before: i64,
    stock_after: i64,
    duration_ms: f64,
    success: bool,
    error: Option<&'a str>,
    outcome: &'static str,
    at_ms: f64,
    waited_ms: f64,
    event: u64,
}

impl<'a> Report<'a> {
    fn of(judged: &'a Judged) -> Self {
        let Judged { header, facts, .. } = judged;
        let successes = facts.orders().count();
        let unknown = facts.count(PurchaseOutcome::Unknown);
        Self {
            scenario: &header.scenario,
            strategy: &header.strategy,
            initial_stock: facts.initial,
            final_stock: facts.final_reading.map_or(-1, |reading| reading.units),
            total_attempts: facts.attempts.len(),
            successes,
            failures: facts.attempts.len() - successes - unknown,
            oversold: judged.verdict.violates("no_oversell"),
            entries: facts.attempts.iter().map(Entry::of).collect(),
            timestamp: &header.recorded,
            schema: "fencepost/oversell/2",
            version: &header.version,
            store: &header.store,
            seed: header.seed,
            options: Options {
                concurrency: header.concurrency,
                delay_us: header.delay_us,
                wait_ms: header.wait_ms,
                ttl_ms: header.ttl_ms,
            },
            total_duration_ms: ms(judged.duration_ns()),
            failed_stock: facts.count(PurchaseOutcome::NoStock),
            failed_lock: facts.count(PurchaseOutcome::Busy),
            failed_error: facts.failed(),
            unknown,
            expected_stock: facts.expected_stock(),
            contention_rate: facts.contention_rate(),
            oversold_units: facts.sold_beyond().least,
            undersold_units: facts.unsold(),
            lost_updates: facts.lost_updates(),
            verdict: VerdictEntry::of(&judged.verdict, judged.expected(), judged.reproduce()),
        }
    }
}

impl<'a> Entry<'a> {
    fn of(attempt: &'a Attempt) -> Self {
        let purchase = attempt.purchase();
        let (outcome, error) = match &attempt.answer {
            Answer::Failed(message) => ("failed", Some(message.as_str())),
            Answer::Unknown(message) => ("unknown", Some(message.as_str())),
            Answer::Said(purchase) => match purchase.outcome {
                PurchaseOutcome::Sold => ("sold", None),
                PurchaseOutcome::NoStock => ("no_stock", Some("Insufficient stock")),
                PurchaseOutcome::Busy => ("busy", Some("Failed to acquire lock")),
                PurchaseOutcome::Unknown => ("unknown", Some("the process cannot tell")),
            },
        };
        Self {
            process_id: &attempt.who,
            lock_acquired: purchase
                .is_some_and(|purchase| purchase.outcome != PurchaseOutcome::Busy),
            stock_before: purchase.and_then(|purchase| purchase.before).unwrap_or(-1),
            stock_after: purchase
                .and_then(|purchase| purchase.after.or(purchase.before))
                .unwrap_or(-1),
            duration_ms: ms(attempt.answered_ns.saturating_sub(attempt.asked_ns)),
            success: attempt.sold(),
            error,
            outcome,
            at_ms: ms(attempt.answered_ns),
            waited_ms: purchase.map_or(0.0, |purchase| (purchase.waited_ms * 1e3).round() / 1e3),
            event: attempt.event,
        }
    }
}
