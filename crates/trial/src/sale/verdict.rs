//! The verdict on a sale, derived from its history alone.

use super::check::Findings;
use super::contention::Contention;
use super::facts::{Attempt, Facts};
use super::fences::FenceFault;
use crate::history::Header;
use crate::processes::UNNOTICED_STALL;
use crate::protocol::{Promise, PurchaseOutcome};
use crate::strategy;
use crate::text::numbers::{count, ms, plural};
use crate::verdict::{Axis, Damage, Finding, Lack, Missing, Outcome, Verdict, WHY_FENCES};

mod explanation;
mod proof;

use proof::proof;

fn seen(header: &Header, facts: &Facts) -> Contention {
    facts.contention(header.delay_us.saturating_mul(1_000))
}

/// Judges a sale.
pub fn judge(header: &Header, facts: &Facts) -> Verdict {
    let checks = facts
        .checks()
        .with_fences(facts, strategy::claims_of(header));
    let broken = [checks.no_oversell, checks.no_lost_update].contains(&Finding::Violated);
    let mut verdict = if let Some(for_ms) = facts.slept_ms {
        Verdict::suspended(for_ms)
    } else if let Some(doubt) = lease_in_doubt(header, facts).filter(|_| broken) {
        Verdict {
            evidence: proof(facts),
            missing: Some(missing(
                Lack::Calm,
                "a lab that is not stopped, on a machine that is less busy.",
            )),
            ..Verdict::bare(
                Outcome::Inconclusive,
                format!("{} {doubt}", accusation(facts)),
            )
        }
    } else if broken {
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
    explanation::add(&mut verdict, header, facts);
    verdict
}

/// Returns a sentence if a lease may have ended because the machine stalled: then two buyers at once accuse nobody.
///
/// A sale gives each holder work for at most half its lease, so stalls of half a lease may take the rest.
fn lease_in_doubt(header: &Header, facts: &Facts) -> Option<String> {
    let claims = strategy::claims_of(header);
    let has_lease = header.promise == Promise::Exclusion && !claims.untimed && !claims.fencing;
    let ttl_ns = header.ttl_ms.saturating_mul(1_000_000);
    let lease = count(i64::try_from(header.ttl_ms).unwrap_or(i64::MAX));
    let (spare_ns, stalled_ns) = ((ttl_ns / 2).max(1), facts.stalled_within_ns(ttl_ns));
    if !has_lease {
        None
    } else if stalled_ns >= spare_ns {
        Some(format!(
            "But the lab itself stalled for {} ms, and a lease of {lease} ms may have ended meanwhile.",
            ms(stalled_ns)
        ))
    } else if u128::from(spare_ns) < UNNOTICED_STALL.as_nanos() {
        Some(format!(
            "But a lease of {lease} ms may have ended while the machine stalled for less than the lab notices."
        ))
    } else {
        None
    }
}

fn missing(what: Lack, advice: &'static str) -> Missing {
    Missing { what, advice }
}

fn damage(checks: Findings) -> Vec<Damage> {
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

/// The reason why nothing can be concluded, and what would be needed.
type Gap = (String, Missing);

/// Returns the reason why nothing can be concluded, if there is one.
fn gap(header: &Header, facts: &Facts, checks: Findings) -> Option<Gap> {
    unfinished(facts)
        .or_else(|| lost_answers(facts, checks))
        .or_else(|| nothing_sold(facts))
        .or_else(|| match header.promise {
            Promise::Nothing => Some(lucky(header)),
            // Its word about contention is no witness.
            Promise::Exclusion if strategy::is_of_external(header) => unwitnessed(header, facts),
            Promise::Exclusion | Promise::Exactness => uncontended(header, facts),
        })
}

fn unfinished(facts: &Facts) -> Option<Gap> {
    if let Some(waited) = &facts.given_up {
        let verdict = Verdict::not_begun(waited);
        return Some((verdict.because, verdict.missing?));
    }
    facts.final_reading.is_none().then(|| {
        let advice = "the lab's reading of the stock after the last answer.";
        (
            "The run has no end: the final stock was not read.".into(),
            missing(Lack::FinalStock, advice),
        )
    })
}

fn lost_answers(facts: &Facts, checks: Findings) -> Option<Gap> {
    (checks.no_oversell == Finding::Undecided).then(|| {
        let lost = facts.count(PurchaseOutcome::Unknown);
        let because = format!(
            "{} lost: {} for a stock of {}.",
            plural(lost, "answer was", "answers were"),
            orders(facts),
            count(facts.initial)
        );
        let advice = "the answers that were lost: each may have been an order.";
        (because, missing(Lack::Answers, advice))
    })
}

fn nothing_sold(facts: &Facts) -> Option<Gap> {
    (facts.sold().least == 0).then(|| {
        let advice = "an order. Something to sell (--stock), or patience (--wait).";
        (
            "Nothing was sold, so nothing could be sold twice.".into(),
            missing(Lack::Order, advice),
        )
    })
}

/// Returns the reason if the control did not fail, which shows nothing.
fn lucky(header: &Header) -> Gap {
    let because = format!(
        "Nothing broke, and nothing was shown: {} keeps nobody out, this was luck.",
        header.strategy
    );
    let advice = "a race that goes wrong. More processes (--concurrency) or longer work (--delay).";
    (because, missing(Lack::Race, advice))
}

/// Returns the reason if the lab itself saw no contention. The word of an external lock is not enough.
fn unwitnessed(header: &Header, facts: &Facts) -> Option<Gap> {
    (!seen(header, facts).is_seen()).then(|| {
        let met = match facts.contended() {
            0 => "no attempt found the lock taken",
            _ => "only the lock itself says that it was taken",
        };
        let advice = "contention that the lab sees itself: more processes (--concurrency) or longer work (--delay).";
        (untested(met), missing(Lack::Contention, advice))
    })
}

fn uncontended(header: &Header, facts: &Facts) -> Option<Gap> {
    (facts.contended() == 0).then(|| {
        let met = match header.promise {
            Promise::Exactness => "no buyer met another at work",
            _ => "no attempt found the lock taken",
        };
        let advice =
            "a witness of contention. More processes (--concurrency) or longer work (--delay).";
        (untested(met), missing(Lack::Contention, advice))
    })
}

fn untested(why: &str) -> String {
    format!("Nothing broke, and nothing was tested: {why}.")
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
    if strategy::is_of_external(header) {
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
