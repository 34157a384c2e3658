//! Fences were promised: are they there, and do they grow?
//!
//! This is asked in every scenario, and outweighs what the scenario asks: without fences that grow, the resource cannot tell the new
//! holder from the old one.

use super::{Court, evidence};
use crate::holds::facts::Hold;
use crate::verdict::{Evidence, Outcome, Verdict};

const WHY: &str =
    "The resource knows the latest holder by the highest fence; these do not say who that is.";

/// The accusation, if there is one.
pub(super) fn judge(court: &Court<'_>) -> Option<Verdict> {
    if !court.claims.fencing {
        return None;
    }
    let bare = court.facts.holds.iter().find(|held| held.fence.is_none());
    if let Some(bare) = bare {
        let because = format!(
            "Fences were promised, and {} was granted {} without one.",
            bare.who, bare.key
        );
        return Some(broken(because, vec![granted(bare)]));
    }
    let (earlier, later) = court.findings.fence_regression()?;
    let because = format!(
        "Fences do not grow: {} was granted {} with fence {}, after {} with fence {}.",
        later.who,
        later.key,
        fence(later),
        earlier.who,
        fence(earlier)
    );
    Some(broken(because, vec![granted(earlier), granted(later)]))
}

fn broken(because: String, proof: Vec<Evidence>) -> Verdict {
    Verdict {
        evidence: proof,
        why: Some(WHY.into()),
        ..Verdict::bare(Outcome::Broken, because)
    }
}

fn granted(held: &Hold) -> Evidence {
    let sentence = format!(
        "{} is granted {}, fence {}",
        held.who,
        held.key,
        fence(held)
    );
    evidence(held.granted, &held.who, "granted", sentence)
}

fn fence(held: &Hold) -> &str {
    held.fence.as_deref().unwrap_or("none")
}

#[cfg(test)]
mod tests {
    use crate::holds::Scenario;
    use crate::protocol::{Claims, ReleaseWord};
    use crate::tale::{KEY, Tale, shown};
    use crate::verdict::{Outcome, Verdict};

    fn two_grants(promises_fences: bool, fences: [Option<&str>; 2]) -> Verdict {
        let claims = Claims {
            fencing: promises_fences,
            ..Claims::default()
        };
        let [first, second] = fences;
        Tale::of(Scenario::TtlEdge)
            .promising(claims)
            .asks("A", KEY, 0.0, 0)
            .grants("A", KEY, 1, 1.0, 1, first)
            .releases("A", 10.0, 1, ReleaseWord::Released)
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
