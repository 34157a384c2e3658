//! The lock promised fences: are they present, and do they increase?
//!
//! This question applies to every scenario. It overrules every verdict of the scenario but BROKEN. Without increasing fences, the
//! resource cannot tell the new holder from the old one.

use super::{Court, did, evidence, op_evidence};
use crate::holds::facts::Hold;
use crate::verdict::{Evidence, Outcome, Verdict, WHY_FENCES};

/// Returns a verdict if the fences break the lock's promise.
pub(super) fn judge(court: &Court<'_>) -> Option<Verdict> {
    if !court.claims.fencing {
        return None;
    }
    let bare = court.facts.holds.iter().find(|hold| hold.fence.is_none());
    if let Some(bare) = bare {
        let because = format!(
            "Fences were promised, and {} was granted {} without one.",
            bare.who, bare.key
        );
        return Some(broken(because, vec![granted(bare)]));
    }
    if let Some((earlier, later)) = court.checks.fence_regression() {
        let because = format!(
            "Fences do not grow: {} was granted {} with fence {}, after {} with fence {}.",
            later.who,
            later.key,
            fence(later),
            earlier.who,
            fence(earlier)
        );
        return Some(broken(because, vec![granted(earlier), granted(later)]));
    }
    if let Some(odd) = court.checks.fence_without_order() {
        let because = format!(
            "Fences were promised, and {} was granted {} with '{}', which is not a number.",
            odd.who,
            odd.key,
            fence(odd)
        );
        return Some(broken(because, vec![granted(odd)]));
    }
    not_as_granted(court).or_else(|| let_in(court))
}

/// Returns the verdict if a process showed the resource a fence other than the one it was granted.
fn not_as_granted(court: &Court<'_>) -> Option<Verdict> {
    let (hold, op) = court.checks.fence_exchanged()?;
    let shown = op.fence.as_deref().unwrap_or("none");
    let because = format!(
        "{} was granted {} with fence {}, and came to the resource with fence {shown}.",
        hold.who,
        hold.key,
        fence(hold)
    );
    let came = op_evidence(op, format!("{}, fence {shown}", did(op)));
    Some(broken(because, vec![granted(hold), came]))
}

/// Returns the verdict if the resource accepted a late step.
fn let_in(court: &Court<'_>) -> Option<Verdict> {
    let op = court.checks.unfenced()?;
    let came = format!("{}, under a fence lower than one seen before", did(op));
    let because = format!("The resource let {} in, under an outdated fence.", op.who);
    Some(broken(because, vec![op_evidence(op, came)]))
}

fn broken(because: String, proof: Vec<Evidence>) -> Verdict {
    Verdict {
        evidence: proof,
        why: Some(WHY_FENCES.into()),
        ..Verdict::bare(Outcome::Broken, because)
    }
}

fn granted(hold: &Hold) -> Evidence {
    let sentence = format!(
        "{} is granted {}, fence {}",
        hold.who,
        hold.key,
        fence(hold)
    );
    evidence(hold.granted, &hold.who, "granted", sentence)
}

fn fence(hold: &Hold) -> &str {
    hold.fence.as_deref().unwrap_or("none")
}

#[cfg(test)]
mod tests {
    use crate::holds::Scenario;
    use crate::holds::by_hand::{HistoryBuilder, KEY, shown};
    use crate::protocol::{Claims, ReleaseResult};
    use crate::verdict::{Finding, Outcome, Verdict};

    fn two_grants(promises_fences: bool, fences: [Option<&str>; 2]) -> Verdict {
        let claims = Claims {
            fencing: promises_fences,
            ..Claims::default()
        };
        let [first, second] = fences;
        HistoryBuilder::of(Scenario::TtlEdge)
            .promising(claims)
            .asks("A", KEY, 0.0, 0)
            .grants("A", KEY, 1, 1.0, 1, first)
            .releases("A", 10.0, 1, ReleaseResult::Released)
            .asks("B", KEY, 20.0, 0)
            .grants("B", KEY, 5, 21.0, 1, second)
            .judged()
    }

    #[test]
    fn fences_that_do_not_grow_break_the_promise() {
        let verdict = two_grants(true, [Some("7"), Some("7")]);
        assert_eq!(verdict.outcome, Outcome::Broken);
        assert_eq!(
            verdict.because,
            "Fences do not grow: B was granted product_A with fence 7, after A with fence 7."
        );
        assert_eq!(
            shown(&verdict),
            [
                "#2 A is granted product_A, fence 7",
                "#6 B is granted product_A, fence 7"
            ]
        );
        let falling = two_grants(true, [Some("7"), Some("6")]);
        assert_eq!(falling.outcome, Outcome::Broken);
    }

    #[test]
    fn a_grant_without_the_promised_fence_breaks_the_promise() {
        for fences in [[None, None], [Some("7"), None]] {
            assert_eq!(two_grants(true, fences).outcome, Outcome::Broken);
        }
    }

    #[test]
    fn a_fence_that_is_no_number_breaks_the_promise() {
        let verdict = two_grants(true, [Some("x1"), Some("x2")]);
        assert_eq!(
            verdict.because,
            "Fences were promised, and A was granted product_A with 'x1', which is not a number."
        );
        assert_eq!(shown(&verdict), ["#2 A is granted product_A, fence x1"]);
        let check = verdict
            .checks
            .iter()
            .find(|check| check.name == "fence_issued");
        assert_eq!(check.unwrap().finding, Finding::Violated);
    }

    fn fenced() -> HistoryBuilder {
        let fencing = true;
        HistoryBuilder::of(Scenario::TtlEdge)
            .promising(Claims {
                fencing,
                ..Claims::default()
            })
            .fenced("A", KEY, 1.0, "1")
            .fenced("B", KEY, 1100.0, "2")
    }

    #[test]
    fn whoever_shows_another_fence_than_it_was_granted_breaks_the_promise() {
        let verdict = fenced().reads_under("B", 1101.0, 1, "3.0").judged();
        assert_eq!(
            verdict.because,
            "B was granted product_A with fence 2, and came to the resource with fence 3.0."
        );
        assert_eq!(verdict.outcome, Outcome::Broken);
        assert_eq!(
            shown(&verdict),
            [
                "#4 B is granted product_A, fence 2",
                "#5 B reads 0, fence 3.0"
            ]
        );
        let same = fenced().reads_under("B", 1101.0, 1, "2.0").judged();
        assert_eq!(
            same.outcome,
            Outcome::Inconclusive,
            "only written differently"
        );
    }

    #[test]
    fn a_resource_that_lets_the_late_one_in_is_found_in_the_log_alone() {
        let verdict = fenced()
            .reads_under("B", 1101.0, 1, "2")
            .reads_under("A", 1102.0, 1, "1")
            .judged();
        assert_eq!(verdict.outcome, Outcome::Broken);
        assert_eq!(
            shown(&verdict),
            ["#6 A reads 0, under a fence lower than one seen before"]
        );
    }

    #[test]
    fn nobody_is_accused_of_a_promise_it_kept_or_did_not_make() {
        for (promises, fences) in [
            (true, [Some("7"), Some("8")]),
            (false, [Some("7"), Some("7")]),
            (false, [None, None]),
        ] {
            let verdict = two_grants(promises, fences);
            assert_eq!(verdict.outcome, Outcome::Inconclusive, "{fences:?}");
        }
    }
}
