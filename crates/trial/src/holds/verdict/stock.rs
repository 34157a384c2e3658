//! A purchase found nothing to sell: did it release its lock?

use super::{Court, evidence, inconclusive, stuck_duration};
use crate::holds::facts::Mark;
use crate::protocol::PurchaseOutcome;
use crate::text::numbers::ms;
use crate::verdict::{Outcome, Verdict};

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let mut buys = court.facts.buys.iter();
    let first = buys.next().and_then(|buy| buy.answer);
    if let Some((sold, PurchaseOutcome::Sold)) = first
        && court
            .facts
            .stocked
            .first()
            .is_some_and(|(_, units)| *units == 0)
    {
        return sold_from_nothing(court, sold);
    }
    let Some((failed, PurchaseOutcome::NoStock)) = first else {
        return inconclusive(
            "Nothing broke, and nothing was tested: no purchase failed for want of stock.",
            "failed_purchase",
            "a purchase that finds nothing to sell.",
        );
    };
    if let Some(stuck) = court.findings.stuck() {
        let mut proof = vec![evidence(
            failed,
            "A",
            "no_stock",
            "A gets its turn and finds nothing left",
        )];
        for (who, mark) in &stuck.refused {
            proof.push(evidence(
                *mark,
                who,
                "busy",
                format!("{who} still finds the lock taken"),
            ));
        }
        proof.extend(court.last_inspection());
        return Verdict {
            evidence: proof,
            why: court.why_strategy(),
            next: court
                .next("safe", "gives the lock back")
                .into_iter()
                .collect(),
            ..Verdict::bare(
                Outcome::Stuck,
                format!(
                    "Nobody died, and {} after a purchase without stock nobody can buy any more.",
                    stuck_duration(&stuck)
                ),
            )
        };
    }
    let sold = buys
        .filter_map(|buy| buy.answer)
        .find(|(_, outcome)| *outcome == PurchaseOutcome::Sold);
    let Some((sold, _)) = sold else {
        return court.unanswered();
    };
    let restocked = court.facts.stocked.last().map_or(0, |(mark, _)| mark.at_ns);
    Verdict {
        witness: vec![format!(
            "A met an empty stock under its lock; B bought {} ms after a unit came in",
            ms(sold.at_ns.saturating_sub(restocked))
        )],
        limits: Some("one purchase that failed in good order: says nothing about a kill".into()),
        ..Verdict::bare(
            Outcome::Held,
            "The purchase that found nothing gave its lock back: the next one was served.",
        )
    }
}

/// Units were sold although the stock was empty.
fn sold_from_nothing(court: &Court<'_>, sold: Mark) -> Verdict {
    let emptied = court
        .facts
        .stocked
        .first()
        .map(|(mark, _)| evidence(*mark, "lab", "stock 0", "the lab sets the stock to 0"));
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
