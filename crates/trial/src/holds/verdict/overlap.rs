//! Two processes held a lock at once: the words and the evidence for it, and the verdict that needs nothing else.

use super::cause::Cause;
use super::{Court, evidence};
use crate::holds::check::Overlap;
use crate::holds::facts::Hold;
use crate::text::numbers::ms;
use crate::verdict::{Evidence, Outcome, Verdict};

/// Returns the verdict on a lock that let two processes in at once, with the first overlap as the evidence.
pub(super) fn broken(court: &Court<'_>, overlaps: &[Overlap<'_>]) -> Verdict {
    let first = overlaps.first();
    let cause = first.map(|overlap| Cause::of(court, overlap));
    let headline = cause.as_ref().map(Cause::headline);
    let headline = headline.unwrap_or_else(|| "Two holders at once".into());
    let mut verdict = Verdict {
        evidence: overlap_evidence(first)
            .into_iter()
            .chain(court.interleaving())
            .collect(),
        why: cause.and_then(|cause| cause.why()),
        ..Verdict::bare(Outcome::Broken, format!("{headline}.{}", court.losses()))
    };
    verdict.belief.text = first.map(two_holders);
    verdict
}

/// Returns evidence such as "B is granted product_A; A, granted it at 0.9, held on to 3,053.9".
pub(super) fn overlap_evidence(overlap: Option<&Overlap<'_>>) -> Option<Evidence> {
    let Overlap { first, second, .. } = overlap?;
    let sentence = format!(
        "{} is granted {}; {}, granted it at {}, held on to {}",
        second.who,
        second.key,
        first.who,
        ms(first.granted.at_ns),
        ms(first.believed_until_ns)
    );
    Some(evidence(second.granted, &second.who, "granted", sentence))
}

/// Returns words such as "two holders for 0.9 ms: B from 2,011.2 to 2,012.1, A from 8.6 to 3,009.7 ms".
pub(super) fn two_holders(overlap: &Overlap<'_>) -> String {
    let span = |hold: &Hold| {
        let (from, to) = (ms(hold.granted.at_ns), ms(hold.believed_until_ns));
        format!("{} from {from} to {to}", hold.who)
    };
    format!(
        "two holders for {} ms: {}, {} ms",
        ms(overlap.lasted_ns()),
        span(overlap.second),
        span(overlap.first)
    )
}

/// Returns how a sentence about two processes begins: whether they believed in the lock at once, or only used the number.
pub(super) fn two_at_once(overlap: Option<&Overlap<'_>>) -> &'static str {
    match overlap {
        Some(_) => "Two holders at once",
        None => "Two used the number at once",
    }
}
