//! A purchase found nothing to sell: did it release its lock?

use super::{Court, evidence};
use crate::holds::facts::{Buy, Mark};
use crate::protocol::PurchaseOutcome;
use crate::text::numbers::{decimal, ms};
use crate::verdict::{Lack, Outcome, Verdict};

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let mut buys = court.facts.buys.iter();
    let first = buys.next().and_then(|buy| buy.answer);
    if let Some((sold, PurchaseOutcome::Sold)) = first
        && court
            .facts
            .stock_set
            .first()
            .is_some_and(|set| set.units == 0)
    {
        return sold_from_nothing(court, sold);
    }
    let Some((failed, PurchaseOutcome::NoStock)) = first else {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: no purchase failed for want of stock.",
            Lack::FailedPurchase,
            "a purchase that finds nothing to sell.",
        );
    };
    let later: Vec<&Buy> = buys.collect();
    let sold = later
        .iter()
        .find_map(|buy| answered(buy, PurchaseOutcome::Sold));
    let Some(sold) = sold else {
        return court.unanswered();
    };
    if let Some(kept) = kept_until_ttl(court, failed, &later) {
        return kept;
    }
    let restocked = court.facts.stock_set.last();
    let restocked_ns = restocked.map_or(0, |set| set.mark.at_ns);
    Verdict {
        witness: vec![format!(
            "A met an empty stock under its lock; B bought {} ms after a unit came in",
            ms(sold.at_ns.saturating_sub(restocked_ns))
        )],
        limits: Some("one purchase that failed in good order: says nothing about a kill".into()),
        ..Verdict::bare(
            Outcome::Held,
            "The purchase that found nothing released its lock: the next one was served.",
        )
    }
}

fn answered(buy: &Buy, outcome: PurchaseOutcome) -> Option<Mark> {
    buy.answer
        .filter(|(_, said)| *said == outcome)
        .map(|(mark, _)| mark)
}

/// Returns a verdict if the next buyer found the lock taken although nobody bought any more, and got it only when the lease of
/// the purchase that had found nothing was over.
///
/// The lab's clock alone convicts nobody, because the lab may have stalled. What the buyer says about its own wait counts
/// against its lock.
fn kept_until_ttl(court: &Court<'_>, failed: Mark, later: &[&Buy]) -> Option<Verdict> {
    let first = court.facts.buys.first()?;
    let busy = later
        .iter()
        .find(|buy| answered(buy, PurchaseOutcome::Busy).is_some())?;
    let bought = later
        .iter()
        .find(|buy| answered(buy, PurchaseOutcome::Sold).is_some())?;
    let (refused, sold) = (busy.answer?.0, bought.answer?.0);
    let took_ns = sold.at_ns.saturating_sub(refused.at_ns);
    if busy.asked < failed || took_ns < court.ttl_ns() / 2 {
        return None;
    }
    let half_ttl_ms = court.ttl_ns() as f64 / 2e6;
    let is_over = sold.at_ns >= first.asked.at_ns.saturating_add(court.ttl_ns());
    let is_certain = !court.checks.has_stalled(failed, sold);
    if !is_over || bought.waited_ms < half_ttl_ms || !is_certain {
        return Some(Verdict::inconclusive(
            format!(
                "{} was refused after A had found nothing, and bought {} ms later: A's lock may have been in its way.",
                busy.who,
                ms(took_ns)
            ),
            Lack::Calm,
            "a machine that is less busy, and a lock that says how long it waited (waited_ms).",
        ));
    }
    let who = &bought.who;
    Some(Verdict {
        evidence: vec![
            evidence(
                failed,
                "A",
                "no_stock",
                "A gets its turn and finds nothing left",
            ),
            evidence(
                refused,
                &busy.who,
                "busy",
                format!("{} finds the lock taken", busy.who),
            ),
            evidence(
                sold,
                who,
                "sold",
                format!(
                    "{who} buys, having waited {} ms for the lock",
                    decimal(bought.waited_ms)
                ),
            ),
        ],
        why: Some(format!(
            "A answered and did not release its lock: {who} got it {} ms after A had asked for it, when the lease of {} ms \
             was over.",
            ms(sold.at_ns.saturating_sub(first.asked.at_ns)),
            ms(court.ttl_ns())
        )),
        next: court
            .next("safe", "releases the lock")
            .into_iter()
            .collect(),
        ..Verdict::bare(
            Outcome::Broken,
            "The purchase that found nothing kept its lock: only its TTL freed it.",
        )
    })
}

/// Units were sold although the stock was empty.
fn sold_from_nothing(court: &Court<'_>, sold: Mark) -> Verdict {
    let emptied = court
        .facts
        .stock_set
        .first()
        .map(|set| evidence(set.mark, "lab", "stock 0", "the lab sets the stock to 0"));
    let order = evidence(
        sold,
        "A",
        "sold",
        "A buys a unit: there was nothing to sell",
    );
    Verdict {
        evidence: emptied.into_iter().chain([order]).collect(),
        why: court.why_strategy(),
        ..Verdict::bare(Outcome::Broken, "1 order for a stock of 0.")
    }
}
