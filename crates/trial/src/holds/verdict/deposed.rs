//! Judges `deposed`: a copy of A's server took over, and the old primary lived on, with A connected to it. Does A learn in time that its lock is
//! not confirmed any more?

use super::{Court, stalled, taken_away};
use crate::holds::facts::{Hold, Mark, Op};
use crate::holds::{FIRST_LOCK, HOLDER, OTHER};
use crate::text::numbers::ms;
use crate::verdict::{Lack, Outcome, Verdict};

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let Some(failover) = Failover::of(court) else {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: no server was seen to take over from a primary that lived on.",
            Lack::Failover,
            "a server that is seen to take over, and an old primary that is seen to live on.",
        );
    };
    let Some(holder) = court.facts.first_of_lock(HOLDER, FIRST_LOCK) else {
        return court.unanswered();
    };
    if holder.granted > failover.at {
        return court.unanswered();
    }
    let verdict = failover
        .kept_out(court, holder)
        .or_else(|| failover.wrote_in_a_stall(court, holder))
        .unwrap_or_else(|| taken_away::judge(court));
    match verdict.outcome {
        Outcome::Held if !failover.lasted_until(holder) => Verdict::inconclusive(
            "Nothing broke, and nothing was tested: the old primary was not seen to be there until the end.",
            Lack::Failover,
            "an old primary that lives on until A was asked to write.",
        ),
        _ => verdict,
    }
}

/// A server took over from a primary that lived on.
struct Failover<'a> {
    at: Mark,
    new: &'a str,
    /// When the old primary was last seen to be there.
    lived_until: Mark,
}

impl<'a> Failover<'a> {
    fn of(court: &'a Court<'_>) -> Option<Self> {
        let (at, new) = court.facts.deposed()?;
        let lived_until = court.facts.last_sign_of_life()?;
        Some(Self {
            at,
            new,
            lived_until,
        })
    }

    /// Returns whether the old primary was still there when the holder decided what to do. A connection that ends tells a holder more.
    fn lasted_until(&self, holder: &Hold) -> bool {
        let learned = holder.decided().or(holder.learned_at);
        learned.is_none_or(|learned| learned < self.lived_until)
    }

    /// Returns the verdict on a lock that was still A's at the new primary: B was refused there, or got it only when A's lease was over.
    fn kept_out(&self, court: &Court<'_>, holder: &Hold) -> Option<Verdict> {
        match court.facts.first_of_lock(OTHER, FIRST_LOCK) {
            None => self.refused(court, holder),
            Some(other) => self.let_in_later(court, holder, other),
        }
    }

    fn refused(&self, court: &Court<'_>, holder: &Hold) -> Option<Verdict> {
        let waits = court.facts.waits.iter();
        let others = waits.filter(|wait| wait.who == OTHER && wait.key == holder.key);
        let asked_there = others.filter(|wait| wait.asked > self.at);
        let refused = asked_there.filter_map(|wait| wait.refused()).max()?;
        let from_ns = self.at.at_ns;
        let is_held = court.checks.certainly_held(holder, from_ns, refused.at_ns);
        // A client that lost its connection and never made a new one is refused, too.
        let mut holds = court.facts.holds.iter();
        let is_there =
            holds.any(|hold| hold.who == OTHER && hold.key != holder.key && hold.granted > self.at);
        (is_held && is_there).then(|| {
            let after = ms(refused.at_ns.saturating_sub(from_ns));
            self.survived(
                format!("B was still refused {after} ms after that"),
                "The lock survived: B was refused at the new primary while A held it.",
                "nobody could work while A held a lock whose release no longer counts",
            )
        })
    }

    /// A lock whose lease nobody renews is free when that is over, wherever it is kept.
    fn let_in_later(&self, court: &Court<'_>, holder: &Hold, other: &Hold) -> Option<Verdict> {
        let lease_ns = holder.asked.at_ns.saturating_add(court.ttl_ns());
        let claims = court.claims;
        let ends = !claims.keep_alive && !claims.fencing && !court.checks.lasts_by_itself();
        let waited = other.asked > self.at && other.asked.at_ns < lease_ns;
        let is_kept = ends && waited && other.granted.at_ns >= lease_ns && !court.is_damaged();
        is_kept.then(|| {
            let after = ms(other.granted.at_ns - lease_ns);
            self.survived(
                format!("B asked there, and came in {after} ms after the end of A's lease"),
                "The lock survived: B got it only when A's lease was over.",
                "A was not asked to write after that: work beyond the lease is another trial",
            )
        })
    }

    fn survived(&self, witness: String, because: &str, limits: &str) -> Verdict {
        Verdict {
            witness: vec![format!(
                "the {} took over while the old primary lived on, and A held the lock; {witness}",
                self.new
            )],
            limits: Some(limits.into()),
            ..Verdict::bare(Outcome::Held, because)
        }
    }

    /// Returns an inconclusive verdict: A wrote late, but the lab stalled since the failover, and so may have whatever tells A.
    fn wrote_in_a_stall(&self, court: &Court<'_>, holder: &Hold) -> Option<Verdict> {
        let own = |op: &&Op| op.who == holder.who && op.hold == holder.id;
        let last = court.facts.ops.iter().rev().find(own)?;
        let is_late = !last.refused && last.mark > self.at;
        (is_late && !court.claims.fencing && court.checks.has_stalled(self.at, last.mark))
            .then(|| stalled("A wrote after the failover, but the lab itself stalled meanwhile."))
    }
}
