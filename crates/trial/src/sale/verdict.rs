//! The verdict on a sale, derived from its history alone.

use super::check::Checks;
use super::contention::Contention;
use super::facts::{Attempt, Facts};
use super::fences::FenceFault;
use crate::check::Finding;
use crate::history::Header;
use crate::protocol::{Promise, PurchaseOutcome};
use crate::strategy;
use crate::text::numbers::{count, plural};
use crate::verdict::{Axis, Damage, Missing, Outcome, Verdict};

mod proof;
mod remarks;

use proof::proof;

const WHY_FENCES: &str =
    "The resource knows the latest holder by the highest fence; these do not say who that is.";

/// Returns whether the lock is a program of the user, whose word about contention is no witness.
fn is_external(header: &Header) -> bool {
    strategy::find(&header.strategy).is_none()
}

fn seen(header: &Header, facts: &Facts) -> Contention {
    facts.contention(header.delay_us.saturating_mul(1_000))
}

/// Judges a sale.
pub fn judge(header: &Header, facts: &Facts) -> Verdict {
    let checks = facts
        .checks()
        .with_fences(facts, strategy::claims_of(header));
    let broken = [checks.no_oversell, checks.no_lost_update].contains(&Finding::Violated);
    let mut verdict = if broken {
        Verdict {
            evidence: proof(facts),
            ..Verdict::bare(Outcome::Broken, accusation(facts))
        }
    } else if let Some(fault) = facts
        .fence_fault()
        .filter(|_| checks.fence == Finding::Violated)
    {
        Verdict {
            evidence: proof::of_fences(fault),
            why: Some(WHY_FENCES.into()),
            ..Verdict::bare(Outcome::Broken, of_fences(fault))
        }
    } else if let Some((because, missing)) = gap(header, facts, checks) {
        Verdict {
            missing: Some(missing),
            ..Verdict::bare(Outcome::Inconclusive, because)
        }
    } else {
        Verdict {
            witness: vec![witness(header, facts)],
            ..Verdict::bare(Outcome::Held, acquittal(header, facts))
        }
    };
    verdict.damage = Axis::bare(damage(checks));
    verdict.checks = checks.list(facts);
    remarks::add(&mut verdict, header, facts);
    verdict
}

fn damage(checks: Checks) -> Vec<Damage> {
    let violated = [
        (checks.no_oversell, Damage::Oversold),
        (checks.no_lost_update, Damage::LostUpdate),
    ];
    violated
        .into_iter()
        .filter(|(finding, _)| *finding == Finding::Violated)
        .map(|(_, damage)| damage)
        .collect()
}

/// Returns the reason why nothing can be concluded, if there is one.
fn gap(header: &Header, facts: &Facts, checks: Checks) -> Option<(String, Missing)> {
    let missing = |what, advice| Missing { what, advice };
    if facts.final_reading.is_none() {
        let because = "The run has no end: the final stock was not read.".into();
        return Some((
            because,
            missing(
                "final_stock",
                "the lab's reading of the stock after the last answer.",
            ),
        ));
    }
    if checks.no_oversell == Finding::Undecided {
        let lost = facts.count(PurchaseOutcome::Unknown);
        let because = format!(
            "{} lost: {} for a stock of {}.",
            plural(lost, "answer was", "answers were"),
            orders(facts),
            count(facts.initial)
        );
        return Some((
            because,
            missing(
                "answers",
                "the answers that were lost: each may have been an order.",
            ),
        ));
    }
    if facts.sold().least == 0 {
        let because = "Nothing was sold, so nothing could be sold twice.".into();
        return Some((
            because,
            missing(
                "order",
                "an order. Something to sell (--stock), or patience (--wait).",
            ),
        ));
    }
    match header.promise {
        Promise::Nothing => {
            let because = format!(
                "Nothing broke, and nothing was shown: {} keeps nobody out, this was luck.",
                header.strategy
            );
            Some((
                because,
                missing(
                    "race",
                    "a race that goes wrong. More processes (--concurrency) or longer work (--delay).",
                ),
            ))
        }
        Promise::Exclusion if is_external(header) => {
            if seen(header, facts).is_seen() {
                return None;
            }
            let met = match facts.contended() {
                0 => "no attempt found the lock taken",
                _ => "only the lock itself says that it was taken",
            };
            Some((
                format!("Nothing broke, and nothing was tested: {met}."),
                missing(
                    "contention",
                    "contention that the lab sees itself: more processes (--concurrency) or longer work (--delay).",
                ),
            ))
        }
        Promise::Exclusion | Promise::Exactness if facts.contended() == 0 => {
            let met = match header.promise {
                Promise::Exactness => "no buyer met another at work",
                _ => "no attempt found the lock taken",
            };
            Some((
                format!("Nothing broke, and nothing was tested: {met}."),
                missing(
                    "contention",
                    "a witness of contention. More processes (--concurrency) or longer work (--delay).",
                ),
            ))
        }
        Promise::Exclusion | Promise::Exactness => None,
    }
}

fn orders(facts: &Facts) -> String {
    let sold = facts.sold();
    format!(
        "{} {}",
        sold,
        if sold.least == 1 && sold.most == 1 {
            "order"
        } else {
            "orders"
        }
    )
}

fn accusation(facts: &Facts) -> String {
    let stock = count(facts.initial);
    let Some(reading) = facts.final_reading else {
        return format!("{} for a stock of {stock}.", orders(facts));
    };
    let (left, by_orders) = (count(reading.units), facts.left_by_orders());
    if facts.checks().no_lost_update == Finding::Violated {
        return format!(
            "{} for a stock of {stock}. The store says {left} are left, the orders say {by_orders}.",
            orders(facts)
        );
    }
    format!("{} for a stock of {stock}, and {left} left.", orders(facts))
}

fn of_fences(fault: FenceFault<'_>) -> String {
    let fence = |attempt: &Attempt| attempt.fence().unwrap_or("none").to_owned();
    match fault {
        FenceFault::NotANumber(odd) => format!(
            "Fences were promised, and {} bought with '{}', which is no number.",
            odd.who,
            fence(odd)
        ),
        FenceFault::Repeated(first, second) => format!(
            "Fences do not grow: {} and {} both bought with fence {}.",
            first.who,
            second.who,
            fence(second)
        ),
        FenceFault::Lower(first, second) => format!(
            "Fences do not grow: {} bought with fence {}, after {} with fence {}.",
            second.who,
            fence(second),
            first.who,
            fence(first)
        ),
    }
}

fn acquittal(header: &Header, facts: &Facts) -> String {
    let left = facts.final_reading.map_or(0, |reading| reading.units);
    let mut text = format!(
        "{} for a stock of {}, and {} left: orders and stock agree.",
        orders(facts),
        count(facts.initial),
        count(left)
    );
    if header.wait_ms > 0 {
        match facts.count(PurchaseOutcome::Busy) {
            0 => text.push_str(" Nobody gave up waiting."),
            busy => text.push_str(&format!(" {} gave up waiting.", count(busy as i64))),
        }
    }
    if facts.failed() > 0 {
        let failed = count(facts.failed() as i64);
        text.push_str(&format!(" {failed} failed with an error."));
    }
    text
}

fn witness(header: &Header, facts: &Facts) -> String {
    let contended = count(facts.contended() as i64);
    let attempts = count(facts.attempts.len() as i64);
    if is_external(header) {
        let seen = seen(header, facts);
        return format!(
            "the lab saw {} of {attempts} refused while another bought, and {} kept waiting: the race did take place",
            count(seen.refused as i64),
            count(seen.waited as i64)
        );
    }
    if header.promise == Promise::Exactness {
        return format!(
            "{contended} of {attempts} met another buyer at work: the race did take place"
        );
    }
    let met = format!("{contended} of {attempts} found the lock taken");
    let mut holders = facts.attempts.iter().filter(|attempt| {
        attempt
            .purchase()
            .is_some_and(|purchase| purchase.outcome != PurchaseOutcome::Busy)
    });
    match (holders.next(), holders.next()) {
        (Some(only), None) => format!("{met} while {} held it: the race did take place", only.who),
        _ => format!("{met}: the race did take place"),
    }
}

#[cfg(test)]
mod tests;
