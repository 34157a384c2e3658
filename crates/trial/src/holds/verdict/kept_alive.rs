//! What the trials share that only a lock which claims to renew its leases can pass or fail: what counts as the loss of a lock, and what
//! excuses it.
//!
//! A is the holder. B is the process beside it whose messages nobody disturbs: it shows that the store answers.

use super::{Court, evidence, stalled};
use crate::holds::facts::{Hold, Mark, Wait, WaitEnd};
use crate::holds::{HOLDER, OTHER};
use crate::protocol::ReleaseResult;
use crate::text::numbers::{ms, plural};
use crate::verdict::{Evidence, Lack, Verdict};

/// Returns the verdict on a lock whose claims leave nothing to judge.
pub(super) fn not_claimed() -> Verdict {
    Verdict::inconclusive(
        "Not tried: the lock does not claim to renew its leases.",
        Lack::Claim,
        "a lock that claims keep_alive.",
    )
}

/// A lock that A did not keep, and how that was seen.
pub(super) struct LostHold<'a> {
    pub(super) hold: &'a Hold,
    pub(super) at: Mark,
    seen: HowSeen<'a>,
    /// Whether more than A's own word shows it: another process was granted the lock, or A's release found it lost.
    is_confirmed: bool,
}

/// How the loss of a lock was seen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HowSeen<'a> {
    /// A said so.
    Told,
    /// A's release found it.
    AtRelease,
    /// This process was granted the lock.
    Taken(&'a str),
}

/// Returns the locks that A did not keep, in the order in which that was seen. What happens after A has failed does not count.
pub(super) fn losses<'a>(court: &'a Court<'_>) -> Vec<LostHold<'a>> {
    let own = court.facts.holds.iter().filter(|hold| hold.who == HOLDER);
    let mut losses: Vec<LostHold<'a>> = own.filter_map(|hold| loss(court, hold)).collect();
    losses.sort_by_key(|loss| loss.at);
    losses
}

/// Returns how this lock was first seen to be lost, if it was.
fn loss<'a>(court: &'a Court<'_>, hold: &'a Hold) -> Option<LostHold<'a>> {
    let is_before = |at: Mark, end: Option<Mark>| end.is_none_or(|end| at < end);
    let mut others = court.facts.holds.iter();
    let taker = others.find(|other| {
        let is_other = other.key == hold.key && other.who != hold.who;
        is_other && other.granted > hold.granted && is_before(other.granted, hold.release)
    });
    let found = hold
        .released
        .filter(|(_, outcome)| *outcome == ReleaseResult::AlreadyLost);
    let is_confirmed = found.is_some() || taker.is_some();
    let seen = [
        hold.learned_at.map(|at| (at, HowSeen::Told)),
        found.map(|(at, _)| (at, HowSeen::AtRelease)),
        taker.map(|taker| (taker.granted, HowSeen::Taken(&taker.who))),
    ];
    let (at, seen) = seen.into_iter().flatten().min_by_key(|(at, _)| *at)?;
    let is_certain = is_before(at, hold.silent) && is_before(at, hold.killed);
    is_certain.then_some(LostHold {
        hold,
        at,
        seen,
        is_confirmed,
    })
}

impl LostHold<'_> {
    fn evidence(&self) -> Evidence {
        let key = &self.hold.key;
        match self.seen {
            HowSeen::Taken(who) => {
                let sentence = format!("{who} is granted {key}, which A had not released");
                evidence(self.at, who, "granted", sentence)
            }
            HowSeen::Told => evidence(
                self.at,
                HOLDER,
                "lost",
                format!("A says that {key} is lost"),
            ),
            HowSeen::AtRelease => {
                let sentence = format!("A's release of {key}: no longer the owner");
                evidence(self.at, HOLDER, "already_lost", sentence)
            }
        }
    }
}

/// Returns the evidence of the first loss, and of the first that another process profited from.
pub(super) fn evidence_of(losses: &[LostHold<'_>]) -> Vec<Evidence> {
    let taken = losses
        .iter()
        .find(|loss| matches!(loss.seen, HowSeen::Taken(_)));
    let first = losses.first();
    let second = taken.filter(|taken| first.is_some_and(|first| first.at != taken.at));
    let cited = first.into_iter().chain(second);
    cited.map(LostHold::evidence).collect()
}

/// Returns the verdict on losses of which there is nothing but A's word, where B has asked for the same locks and got none.
pub(super) fn only_told(losses: &[LostHold<'_>]) -> Option<Verdict> {
    (!losses.iter().any(|loss| loss.is_confirmed)).then(|| {
        Verdict::inconclusive(
            "A says that it lost its lock, but B could not get it.",
            Lack::Loss,
            "another process that gets the lock, or a release that finds it lost.",
        )
    })
}

/// Returns the verdict on losses that do not convict: the lease is too short, or something else than the lock may have been slow. The lock
/// has until the end of its lease for what takes a right one up to `bound_ns`, on a busy machine too.
pub(super) fn excuse(court: &Court<'_>, losses: &[LostHold<'_>], bound_ns: u64) -> Option<Verdict> {
    let (first, last) = (losses.first()?, losses.last()?);
    let lost = plural(losses.len(), "lock", "locks");
    if court.ttl_ns() < bound_ns {
        return Some(Verdict::inconclusive(
            format!(
                "A lost {lost}, but a lease of {} ms is too short to accuse anybody.",
                ms(court.ttl_ns())
            ),
            Lack::Calm,
            "a longer --ttl: two seconds or more.",
        ));
    }
    let is_calm = !court.checks.has_stalled_with(first.hold, last.at)
        && control_ns(court) <= court.ttl_ns() / 4;
    (!is_calm).then(|| {
        stalled(format!(
            "A lost {lost}, but the lab itself or its store stalled meanwhile."
        ))
    })
}

/// Returns the longest time that B waited for a grant or a refusal; as long as can be if one of its requests failed, or if it made none.
pub(super) fn control_ns(court: &Court<'_>) -> u64 {
    let beside = court.facts.waits.iter().filter(|wait| wait.who == OTHER);
    let took = |wait: &Wait| match wait.answer {
        Some((_, WaitEnd::Unknown)) => Some(u64::MAX),
        _ => took_ns(wait),
    };
    beside.filter_map(took).max().unwrap_or(u64::MAX)
}

/// Returns how long the answer to a request took.
pub(super) fn took_ns(wait: &Wait) -> Option<u64> {
    let (answered, _) = wait.answer?;
    Some(answered.at_ns.saturating_sub(wait.asked.at_ns))
}
