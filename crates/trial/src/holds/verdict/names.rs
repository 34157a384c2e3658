//! Processes held similar names, and several at once: was each a lock of its own?

use super::cause::Cause;
use super::overlap::{overlap_evidence, two_holders};
use super::{Court, evidence};
use crate::holds::check::{Collision, Overlap};
use crate::holds::facts::{Hold, Mark, WaitEnd};
use crate::holds::names::{PAIRS, Pair, TOGETHER, likeness, shown};
use crate::text::numbers::{count, ms, plural};
use crate::verdict::{Evidence, Lack, Outcome, Verdict};

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    if let Some(overlap) = court.checks.overlaps_within_lease().first() {
        return two_at_once(court, overlap);
    }
    if let Some([lost, _]) = court.checks.lost_in_two_rounds() {
        return two_at_once(court, &lost);
    }
    if let Some(both) = court.checks.said_lost_in_two_rounds() {
        return not_kept(court, both);
    }
    if let Some([first, again]) = court.checks.names_taken_for_one() {
        return one_lock(&first, &again);
    }
    if let Some(overrun) = court.overrun() {
        return overrun;
    }
    let pairs = Pairs::of(court);
    if let Some([one, other]) = pairs.not_shown {
        return not_shown(format!(
            "no two processes held {} and {} at once",
            shown(one),
            shown(other)
        ));
    }
    if pairs.shown == 0 {
        return not_shown("no two similar names were ever held at once".into());
    }
    match Several::of(court) {
        Ok(several) => acquit(court, &pairs, &several),
        Err(because) => not_shown(because),
    }
}

fn not_shown(because: String) -> Verdict {
    Verdict::inconclusive(
        format!("Nothing broke, and nothing was shown: {because}."),
        Lack::Holds,
        "names that are granted and kept, within their leases; a machine that is less busy.",
    )
}

/// Returns the verdict on a run in which two processes had one name, after the release of another name or without one.
fn two_at_once(court: &Court<'_>, overlap: &Overlap<'_>) -> Verdict {
    let cause = Cause::of(court, overlap);
    let Overlap { first, second, .. } = overlap;
    // Beyond a lease, the lock may have ended by itself.
    let is_within = overlap.is_within_lease();
    let freed = court.checks.freed_by_another(overlap);
    let mut verdict = match freed.filter(|_| is_within) {
        Some(other) => freed_by(overlap, other),
        None => Verdict {
            evidence: overlap_evidence(Some(overlap)).into_iter().collect(),
            why: cause.why(),
            ..Verdict::bare(Outcome::Broken, format!("{}.", cause.headline()))
        },
    };
    if !court.checks.overlaps_within_lease().contains(overlap) {
        verdict.because = format!(
            "{} had {} names, and one of them was not kept: {} was granted {}.",
            first.who,
            in_hand(court, first, second.granted),
            second.who,
            shown(&first.key)
        );
        verdict.why = cause.why();
    }
    verdict.belief.text = Some(two_holders(overlap));
    verdict
}

/// Returns the verdict on a lock that claims to renew its leases, and whose holder said twice that one of its names was lost.
fn not_kept(court: &Court<'_>, [first, again]: [(&Hold, Mark); 2]) -> Verdict {
    let (hold, learned) = first;
    let (who, name) = (&hold.who, shown(&hold.key));
    let proof = [first, again].into_iter().flat_map(|(hold, learned)| {
        let lost = format!("{} says that {} is lost", hold.who, shown(&hold.key));
        [
            granted(hold.granted, &hold.who, &hold.key),
            evidence(learned, &hold.who, "lost", lost),
        ]
    });
    Verdict {
        evidence: proof.collect(),
        why: Some(format!(
            "{who} said so {} ms after its grant, on a lease of {} ms, and again later. Nothing had failed: the lease was not kept \
             alive, as the lock claims.",
            ms(learned.at_ns.saturating_sub(hold.granted.at_ns)),
            ms(court.ttl_ns())
        )),
        ..Verdict::bare(
            Outcome::Broken,
            format!(
                "{who} had {} names, and one of them was not kept: {who} says that {name} is lost.",
                in_hand(court, hold, learned)
            ),
        )
    }
}

/// Returns how many names this process had at that moment.
fn in_hand(court: &Court<'_>, hold: &Hold, at: Mark) -> usize {
    let own = court.facts.holds.iter().filter(|own| own.who == hold.who);
    let is_held = |own: &&Hold| {
        own.granted < at && at.at_ns < own.release.map_or(u64::MAX, |mark| mark.at_ns)
    };
    own.filter(is_held).count()
}

fn freed_by(overlap: &Overlap<'_>, other: &Hold) -> Verdict {
    let Overlap { first, second, .. } = overlap;
    let [freed, released] = [&first.key, &other.key].map(|key| shown(key));
    let answered = other.released.map(|(mark, _)| mark);
    let proof = [
        granted(first.granted, &first.who, &first.key),
        evidence(
            answered.unwrap_or(other.granted),
            &other.who,
            "released",
            format!("{} releases {released}", other.who),
        ),
        granted(second.granted, &second.who, &second.key),
    ];
    Verdict {
        evidence: proof.into(),
        why: Some(format!(
            "{freed} was refused before the release of {released}, and granted after it, and {} had not released it.",
            first.who
        )),
        ..Verdict::bare(
            Outcome::Broken,
            format!(
                "{}'s release of {released} freed {freed}, which {} had: two holders at once.",
                other.who, first.who
            ),
        )
    }
}

fn granted(mark: Mark, who: &str, key: &str) -> Evidence {
    let sentence = format!("{who} is granted {}", shown(key));
    evidence(mark, who, "granted", sentence)
}

/// Returns the verdict on a run in which a free name was refused, twice, because another was taken.
fn one_lock(first: &Collision<'_>, again: &Collision<'_>) -> Verdict {
    let Collision { hold, wait, .. } = first;
    let [taken, free] = [&hold.key, &wait.key].map(|key| shown(key));
    let (holder, waiter) = (&hold.who, &wait.who);
    let refused = |collision: &Collision<'_>| {
        let (who, key) = (&collision.wait.who, shown(&collision.wait.key));
        let sentence = format!("{who} is refused {key}, which nobody has");
        evidence(collision.refused, who, "refused", sentence)
    };
    let released = format!("{holder}'s release of {taken} is done");
    Verdict {
        evidence: vec![
            granted(hold.granted, holder, &hold.key),
            refused(first),
            evidence(first.freed, holder, "released", released),
            granted(first.granted, &first.next.who, &first.next.key),
            refused(again),
        ],
        why: Some(format!(
            "{waiter} waited {} ms for {free}, which nobody held, and did not get it. It was granted at the next request, when {holder} had \
             released {taken}. That happened twice: the lock does not tell these names apart, {}.",
            count(i64::try_from(wait.wait_ms).unwrap_or(i64::MAX)),
            likeness(&hold.key, &wait.key)
        )),
        ..Verdict::bare(
            Outcome::Broken,
            format!(
                "{taken} and {free} are one lock: while {holder} had one, nobody could have the other."
            ),
        )
    }
}

/// What was shown about similar names.
struct Pairs {
    shown: usize,
    /// The pairs of which a request failed: the lock does not take such a name.
    failed: Vec<Pair>,
    /// A pair of which nothing was shown, and why is unknown.
    not_shown: Option<Pair>,
}

impl Pairs {
    fn of(court: &Court<'_>) -> Self {
        let (shown, rest): (Vec<Pair>, Vec<Pair>) =
            PAIRS.into_iter().partition(|pair| were_apart(court, *pair));
        let has_failed = |[one, other]: &Pair| {
            let mut waits = court.facts.waits.iter();
            waits.any(|wait| {
                let failed = matches!(wait.answer, Some((_, WaitEnd::Unknown)));
                failed && (wait.key == *one || wait.key == *other)
            })
        };
        let (failed, silent): (Vec<Pair>, Vec<Pair>) = rest.into_iter().partition(has_failed);
        Self {
            shown: shown.len(),
            failed,
            not_shown: silent.first().copied(),
        }
    }
}

/// Returns whether two processes had the two names at once, and each name was still refused after a release of the other.
fn were_apart(court: &Court<'_>, [one, other]: Pair) -> bool {
    let kept = |key: &str, another: &str| {
        let holds = court.facts.holds.iter().filter(|hold| hold.key == key);
        holds.clone().any(|hold| {
            let others = court.facts.holds.iter();
            let others = others.filter(|with| with.key == another && with.who != hold.who);
            others.clone().any(|with| {
                let released = with.released.map(|(mark, _)| mark);
                with.granted.at_ns < hold.unquestioned_until_ns()
                    && hold.granted.at_ns < with.unquestioned_until_ns()
                    && released.is_some_and(|released| is_refused_after(court, hold, released))
            })
        })
    };
    kept(one, other) && kept(other, one)
}

/// Returns whether another process was refused this name after this event, while it was held.
fn is_refused_after(court: &Court<'_>, hold: &Hold, after: Mark) -> bool {
    refused_at(court, hold, after).is_some()
}

/// Returns when another process was last refused this name after this event, while it was held.
fn refused_at(court: &Court<'_>, hold: &Hold, after: Mark) -> Option<Mark> {
    let waits = court.facts.waits.iter();
    let others = waits.filter(|wait| wait.key == hold.key && wait.who != hold.who);
    let during = others.filter(|wait| wait.asked > after);
    let refused = during.filter_map(|wait| wait.refused());
    refused
        .filter(|mark| mark.at_ns < hold.unquestioned_until_ns())
        .max()
}

/// What was shown about several names that one process had at once.
struct Several {
    /// How long the names that were not released were certainly held.
    lasted_ns: u64,
}

impl Several {
    /// Returns what was shown, or why nothing was.
    fn of(court: &Court<'_>) -> Result<Self, String> {
        let [first, second, third] = TOGETHER;
        let lasts = court.claims.keep_alive || court.claims.untimed;
        let least_ns = if lasts { court.ttl_ns() } else { 0 };
        let released = court.facts.holds.iter().filter(|hold| hold.key == second);
        let mut released = released.filter_map(|hold| Some((hold, hold.released?.0)));
        let kept = |hold: &Hold, freed: Mark, key: &str| {
            let own = court.facts.holds.iter();
            let mut own = own.filter(|own| own.key == key && own.who == hold.who);
            own.find_map(|own| {
                let refused = refused_at(court, own, freed)?;
                let lasted_ns = refused.at_ns.saturating_sub(own.granted.at_ns);
                (own.granted < freed && lasted_ns >= least_ns).then_some(lasted_ns)
            })
        };
        let lasted_ns = released.find_map(|(hold, freed)| {
            let [one, other] = [first, third].map(|key| kept(hold, freed, key));
            Some(one?.min(other?))
        });
        let Some(lasted_ns) = lasted_ns else {
            return Err(format!(
                "A was not seen to keep {first} and {third} after its release of {second}"
            ));
        };
        let mut holds = court.facts.holds.iter();
        if !holds.any(|hold| hold.key == second && hold.who != "A") {
            return Err(format!(
                "nobody else got {second}, which A had released before its other names"
            ));
        }
        Ok(Self { lasted_ns })
    }
}

fn acquit(court: &Court<'_>, pairs: &Pairs, several: &Several) -> Verdict {
    let lease = match (court.claims.untimed, court.claims.keep_alive) {
        (true, _) => ", and no lease ended them".to_owned(),
        (false, true) => format!(" on leases of {} ms", ms(court.ttl_ns())),
        (false, false) => ", within their leases".to_owned(),
    };
    let not_taken: Vec<String> = pairs
        .failed
        .iter()
        .map(|[one, other]| format!("{} and {}", shown(one), shown(other)))
        .collect();
    let not_tried = match not_taken.as_slice() {
        [] => String::new(),
        names => format!(
            ". Not tried, because a request failed: {}",
            names.join(", ")
        ),
    };
    Verdict {
        witness: vec![
            format!(
                "{} of similar names: two processes had both at once, and each was refused to the other after a release",
                plural(pairs.shown, "pair", "pairs")
            ),
            format!(
                "A had three names and released one; the others were refused to B {} ms after their grants{lease}",
                ms(several.lasted_ns)
            ),
        ],
        limits: Some(format!("these names; others may collide{not_tried}")),
        ..Verdict::bare(
            Outcome::Held,
            "Every name was a lock of its own, and each release freed one name only.",
        )
    }
}
