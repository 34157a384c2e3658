//! Short remarks on a sale, for the table of `--all`.

use super::facts::{Attempt, Facts};
use crate::protocol::{Purchase, PurchaseOutcome};
use crate::strategy::Remark;
use crate::text::numbers::{count, in_words, word};
use crate::verdict::Outcome;

/// Returns the remark on a sale with these figures and this outcome. May be empty.
pub fn remark(remark: Remark, facts: &Facts, outcome: Outcome) -> String {
    let is_broken = outcome == Outcome::Broken;
    match remark {
        Remark::Always(text) => text.into(),
        Remark::Broken(text) if is_broken => text.into(),
        Remark::FlawShowsIn(scenario) => not_met(outcome, scenario),
        Remark::KeyLeftBehind(scenario) => match shut_out(facts) {
            0 => not_met(outcome, scenario),
            buyers => format!("a key left behind: {buyers} shut out"),
        },
        Remark::SameUnit if is_broken => same_unit(facts),
        Remark::Conflicts => match facts.contended() {
            0 => "no version conflicts".into(),
            met => format!("{} met version conflicts, retried", count(met as i64)),
        },
        Remark::Refusals => match facts.count(PurchaseOutcome::NoStock) {
            0 => "the store had nobody to refuse".into(),
            refused => format!("the store refused {}", count(refused as i64)),
        },
        Remark::Requests => {
            let requests = in_words(facts.attempts.len() as i64, "request", "requests");
            format!("one consumer, {requests}")
        }
        Remark::Nothing | Remark::Broken(_) | Remark::SameUnit => String::new(),
    }
}

/// Names the scenario that reveals a flaw which a plain sale does not.
fn not_met(outcome: Outcome, scenario: &str) -> String {
    match outcome {
        Outcome::Held => format!("flaw not met: see {scenario}"),
        _ => String::new(),
    }
}

/// Returns the number of buyers that waited in vain in a sale in which one had found nothing to buy.
fn shut_out(facts: &Facts) -> usize {
    if facts.count(PurchaseOutcome::NoStock) == 0 {
        return 0;
    }
    let answers = facts.attempts.iter().filter_map(Attempt::purchase);
    let in_vain =
        |answer: &&Purchase| answer.outcome == PurchaseOutcome::Busy && answer.waited_ms > 0.0;
    answers.filter(in_vain).count()
}

/// Describes how many orders read the same number first.
fn same_unit(facts: &Facts) -> String {
    let read: Vec<i64> = facts
        .orders()
        .filter_map(|order| order.purchase()?.before)
        .collect();
    let times = |units: &i64| read.iter().filter(|other| *other == units).count();
    let same = read.iter().map(times).max().unwrap_or(0);
    if same < 2 {
        return String::new();
    }
    let all = if same == facts.attempts.len() {
        "all "
    } else {
        ""
    };
    format!("{all}{} read the same unit", word(same as i64))
}
