//! Judges `many-leases`: A held very many locks while every message between it and its store took longer. Did it keep all of them?
//!
//! B shows that the store answers, and asks for a sample of A's locks.

use super::kept_alive::{LostHold, evidence_of, excuse, losses, not_claimed, took_ns};
use super::{Court, evidence};
use crate::history::Fault;
use crate::holds::check::with_slack;
use crate::holds::facts::Mark;
use crate::holds::many_leases::{EACH_WAY, KEPT, ONE_MORE, kept, sample};
use crate::holds::{HOLDER, OTHER};
use crate::text::numbers::{count, ms, plural};
use crate::verdict::{Evidence, Lack, Outcome, Verdict};

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    if !court.claims.keep_alive {
        return not_claimed();
    }
    let Some(far) = Far::of(court) else {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: A did not get all its locks, or not through the lab.",
            Lack::Holds,
            "a lock that can be held under 2,500 names at once, through the address that its program is given.",
        );
    };
    if far.round_trip_ns < round_trip_ns() {
        return Verdict::inconclusive(
            format!(
                "Nothing broke, and nothing was tested: A's next lock took {} ms, less than the lab delays its messages.",
                ms(far.round_trip_ns)
            ),
            Lack::Delay,
            "a lock that asks its store through the address it is given.",
        );
    }
    let (before, losses): (Vec<_>, Vec<_>) = losses(court)
        .into_iter()
        .partition(|loss| loss.at < far.from);
    if !losses.is_empty() {
        return far.broken(court, &losses);
    }
    if !before.is_empty() {
        return lost_before(before.len());
    }
    match far.refused(court) {
        Some(refused) => far.acquit(court, &refused),
        None => court.unanswered(),
    }
}

/// Returns the verdict on a run in which A had lost locks before its store was far away.
fn lost_before(number: usize) -> Verdict {
    Verdict::inconclusive(
        format!(
            "A lost {} before its store was far away, so the network shows nothing.",
            plural(number, "lock", "locks")
        ),
        Lack::Holds,
        "a process that holds 2,500 locks at once for longer than a lease, or a machine that is less busy.",
    )
}

/// How long the lab lets a round trip take at least.
fn round_trip_ns() -> u64 {
    u64::try_from(2 * EACH_WAY.as_nanos()).unwrap_or(u64::MAX)
}

/// The time in which A's store was far away.
struct Far {
    from: Mark,
    /// How long A's next request took.
    round_trip_ns: u64,
}

impl Far {
    /// Returns when it began, if A had all its locks by then.
    fn of(court: &Court<'_>) -> Option<Self> {
        let from = court.facts.fault_of(HOLDER, Fault::Distant)?;
        let has = |key: &str| court.facts.first_of_lock(HOLDER, key).is_some();
        let mut waits = court.facts.waits.iter();
        let next = waits.find(|wait| wait.who == HOLDER && wait.key == ONE_MORE)?;
        let far = Self {
            from,
            round_trip_ns: took_ns(next)?,
        };
        kept().all(has).then_some(far)
    }

    /// Returns the verdict on a run in which A did not keep these locks. The machine may be to blame.
    fn broken(&self, court: &Court<'_>, losses: &[LostHold<'_>]) -> Verdict {
        let excuse = excuse(court, losses, with_slack(round_trip_ns()));
        excuse.unwrap_or_else(|| Verdict {
            evidence: [self.evidence()]
                .into_iter()
                .chain(evidence_of(losses))
                .collect(),
            why: Some(self.why(court)),
            ..Verdict::bare(
                Outcome::Broken,
                format!(
                    "A lost at least {} of {} locks while it ran and its store answered.",
                    count_of(losses.len()),
                    count_of(KEPT)
                ),
            )
        })
    }

    fn evidence(&self) -> Evidence {
        let sentence = format!(
            "every message between A and its store takes {} ms longer",
            EACH_WAY.as_millis()
        );
        evidence(self.from, HOLDER, "distant", sentence)
    }

    fn why(&self, court: &Court<'_>) -> String {
        let room = court.ttl_ns() / round_trip_ns();
        format!(
            "A round trip took {} ms or more, so a lease of {} ms has room for {room} of them, one after the other. A had {} leases \
             to renew, and claims to renew them all.",
            ms(round_trip_ns()),
            ms(court.ttl_ns()),
            count_of(KEPT)
        )
    }

    /// Returns when B was refused each lock of the sample, if it was, and its lease would have been over.
    fn refused(&self, court: &Court<'_>) -> Option<Vec<Mark>> {
        let over_ns = self.from.at_ns.saturating_add(court.ttl_ns());
        let refused = |key: &str| {
            let mut waits = court.facts.waits.iter();
            let asked = waits.find(|wait| wait.who == OTHER && wait.key == key)?;
            asked.refused().filter(|_| asked.asked.at_ns > over_ns)
        };
        sample().map(refused).collect()
    }

    fn acquit(&self, court: &Court<'_>, refused: &[Mark]) -> Verdict {
        let since = |mark: Option<&Mark>| {
            ms(mark.map_or(0, |mark| mark.at_ns.saturating_sub(self.from.at_ns)))
        };
        Verdict {
            witness: vec![
                format!(
                    "A held {} locks, and every message between A and its store took {} ms longer: A's next lock took {} ms",
                    count_of(KEPT),
                    EACH_WAY.as_millis(),
                    ms(self.round_trip_ns)
                ),
                format!(
                    "B was refused {} of them {} ms after that began and later, on leases of {} ms; A said of none that it was lost",
                    refused.len(),
                    since(refused.first()),
                    ms(court.ttl_ns())
                ),
            ],
            limits: Some(format!(
                "{} locks of one process, of which B asked for {}, and a store that answers",
                count_of(KEPT),
                refused.len()
            )),
            ..Verdict::bare(
                Outcome::Held,
                "A kept all its locks, however many, over a slow network.",
            )
        }
    }
}

fn count_of(number: usize) -> String {
    count(i64::try_from(number).unwrap_or(i64::MAX))
}
