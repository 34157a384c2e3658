//! Adds the explanation, limits, notes and suggested commands to a verdict on a sale.

use crate::history::Header;
use crate::holds::{Scenario, Trial};
use crate::protocol::{Promise, PurchaseOutcome};
use crate::sale::Sale;
use crate::sale::facts::{Answer, Facts};
use crate::strategy;
use crate::text::numbers::plural;
use crate::verdict::{Next, Outcome, Verdict};

/// Adds the explanation, limits, notes and suggested commands.
pub(super) fn add(verdict: &mut Verdict, header: &Header, facts: &Facts) {
    let strategy = strategy::of_run(header);
    if verdict.outcome == Outcome::Broken && verdict.why.is_none() {
        verdict.why = strategy.and_then(|strategy| strategy.flaw).map(Into::into);
    }
    if verdict.outcome == Outcome::Held {
        let lease = match header.promise {
            Promise::Exactness => "a kill or a pause",
            Promise::Nothing | Promise::Exclusion => "a kill, a pause or work beyond the lease",
        };
        verdict.limits = Some(format!("one run, no fault: says nothing about {lease}"));
    }
    verdict.notes = notes(header, facts);
    if let Some(sale) = Sale::of(header) {
        verdict.next = next(&sale, verdict.outcome, facts.unsold() > 0);
    }
}

fn notes(header: &Header, facts: &Facts) -> Vec<String> {
    let mut notes = Vec::new();
    if facts.unsold() > 0 {
        let unsold = plural(facts.unsold() as usize, "unit", "units");
        let refused = plural(facts.refused(), "buyer", "buyers");
        let nobody_waited = header.wait_ms == 0 && facts.count(PurchaseOutcome::Busy) > 0;
        let hint = if nobody_waited {
            ": nobody waited for the lock. Try --wait 20000"
        } else {
            ""
        };
        notes.push(format!("{unsold} unsold, {refused} refused{hint}"));
    }
    let first_error = facts
        .attempts
        .iter()
        .find_map(|attempt| match &attempt.answer {
            Answer::Failed(message) => Some(message),
            Answer::Said(_) | Answer::Unknown(_) => None,
        });
    if let Some(message) = first_error {
        let failed = plural(facts.failed(), "attempt", "attempts");
        notes.push(format!(
            "{failed} failed with an error and bought nothing: {message}"
        ));
    }
    notes
}

/// Returns up to three commands to paste.
fn next(sale: &Sale, outcome: Outcome, unsold: bool) -> Vec<Next> {
    let all = format!("fencepost oversell --all{}", sale.settings());
    let next = |command, remark| Next { command, remark };
    match (sale.strategy.promise, outcome) {
        (_, Outcome::Inconclusive) => Vec::new(),
        (Promise::Nothing, _) => vec![
            next(sale.command("safe"), "the same race with a lock"),
            next(all, "every strategy, one table"),
            next(
                format!("{} --report race.html", sale.brief_command()),
                "on a time axis",
            ),
        ],
        (_, Outcome::Broken) => vec![
            next(sale.command("safe"), "the same race with a lock that holds"),
            next(all, "every strategy, one table"),
        ],
        (Promise::Exactness, _) => vec![next(all, "every strategy, one table")],
        // This strategy has no lock that `crash` could use.
        (Promise::Exclusion, _) if sale.strategy.lock.is_none() => {
            vec![next(all, "every strategy, one table")]
        }
        (Promise::Exclusion, _) if unsold && sale.wait_ms == 0 => {
            let patient = Sale {
                wait_ms: 20_000,
                ..sale.clone()
            };
            vec![next(
                patient.command(sale.strategy.argument()),
                "everybody waits",
            )]
        }
        (Promise::Exclusion, _) => {
            let fault = |scenario| {
                let trial = Trial::on(scenario, sale.strategy, sale.store.clone(), sale.seed);
                next(trial.command(sale.strategy.argument()), "")
            };
            vec![fault(Scenario::Crash), fault(Scenario::TtlEdge)]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::one_of_each;

    #[test]
    fn a_lock_trial_is_suggested_only_for_a_lock() {
        let outcomes = [Outcome::Held, Outcome::Broken, Outcome::Stuck];
        for strategy in strategy::ALL {
            let sale = Sale::new(strategy, 7041);
            for (outcome, unsold) in outcomes.iter().flat_map(|all| [(all, true), (all, false)]) {
                for Next { command, .. } in next(&sale, *outcome, unsold) {
                    let is_race = command.starts_with("fencepost oversell ");
                    assert!(is_race || strategy.lock.is_some(), "{command}");
                }
            }
        }
    }

    /// A store may not support leases as short as the general default.
    #[test]
    fn a_lock_trial_is_suggested_with_the_times_of_its_store() {
        for store in one_of_each() {
            for strategy in strategy::at(&store).filter(|strategy| strategy.lock.is_some()) {
                let sale = Sale {
                    store: store.clone(),
                    ..Sale::new(strategy, 7041)
                };
                for Next { command, .. } in next(&sale, Outcome::Held, false) {
                    let words: Vec<&str> = command.split(' ').collect();
                    let odd = ["--work", "--ttl"].iter().any(|odd| words.contains(odd));
                    assert!(!odd, "{command}");
                }
            }
        }
    }
}
