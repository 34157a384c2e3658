//! Judges `taken-away`: the store lost A's lock while A worked, and B got it. A lock that claims to tell a loss must do so within the time that
//! it claims, and must not take it back. What became of A's write is judged as in `server-clock`.

use super::lost_lock::{self, ServerLoss};
use super::{Court, did, evidence, op_evidence, stalled};
use crate::holds::check::{nanoseconds, with_slack};
use crate::holds::facts::{Hold, Mark, Op};
use crate::holds::{FIRST_LOCK, HOLDER, OTHER};
use crate::text::numbers::{count, ms};
use crate::verdict::{Evidence, Outcome, Verdict};

const WHY_TOLD_LATE: &str = "A learned of the loss, but not within the time that it claims: until then, others had the lock beside it.";
const WHY_TAKEN_BACK: &str =
    "A lost lock stays lost: in between, others may have had it, so the end of a hold is final.";

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let Some(taken) = TakenHold::of(court) else {
        return lost_lock::judge(court);
    };
    let verdict = taken.taken_back().or_else(|| taken.told_late(court));
    verdict.unwrap_or_else(|| lost_lock::judge(court))
}

/// A hold that claims to tell its loss, and that another process got while it lasted.
struct TakenHold<'a> {
    loss: ServerLoss<'a>,
    holder: &'a Hold,
    other: &'a Hold,
    bound_ms: u64,
    /// What the holder asked of the number.
    ops: Vec<&'a Op>,
}

impl<'a> TakenHold<'a> {
    /// Returns `None` if the lock claims nothing, or if nobody is seen to have got it instead of A.
    fn of(court: &'a Court<'_>) -> Option<Self> {
        let bound_ms = court.claims.tells_loss_ms?;
        let loss = ServerLoss::of(court)?;
        let holder = court.facts.first_of_lock(HOLDER, FIRST_LOCK)?;
        let other = court.facts.first_of_lock(OTHER, FIRST_LOCK)?;
        let is_held = holder.granted < loss.at
            && holder.release.is_none_or(|release| release > other.granted);
        // The end of a lease would let B in as well.
        let lasts = court.claims.keep_alive || court.checks.lasts_by_itself();
        let is_taken = other.granted > loss.at && (lasts || court.is_taken_over(holder, other));
        let ops = court.facts.ops.iter();
        let own = |op: &&Op| op.who == holder.who && op.hold == holder.id;
        (is_held && is_taken).then(|| Self {
            loss,
            holder,
            other,
            bound_ms,
            ops: ops.filter(own).collect(),
        })
    }

    /// Returns the verdict on a holder that used the number although it had said that its lock was lost.
    fn taken_back(&self) -> Option<Verdict> {
        let said = self.holder.said_lost;
        let said = said.filter(|said| *said > self.loss.at)?;
        let is_after = |op: &&&Op| op.asked.is_some_and(|asked| asked > said);
        let op = self.ops.iter().find(is_after)?;
        let later = ms(op.mark.at_ns.saturating_sub(said.at_ns));
        Some(Verdict {
            evidence: vec![
                self.loss.evidence(),
                evidence(said, HOLDER, "lost", "A says that its lock is lost"),
                op_evidence(op, format!("{} all the same", did(op))),
            ],
            why: Some(WHY_TAKEN_BACK.into()),
            ..Verdict::bare(
                Outcome::Broken,
                format!(
                    "A said that its lock was lost, and used the number again {later} ms later."
                ),
            )
        })
    }

    /// Returns the verdict on a holder that learned of the loss too late, or not at all.
    fn told_late(&self, court: &Court<'_>) -> Option<Verdict> {
        // Not from the loss: until B had the lock, it may still have been A's.
        let from = self.other.granted;
        let latest_ns = from
            .at_ns
            .saturating_add(with_slack(nanoseconds(self.bound_ms)));
        let (at, shown) = self.untold(latest_ns).or_else(|| self.late(latest_ns))?;
        if court.checks.has_stalled(self.holder.asked, at) {
            return Some(stalled(
                "A was told late that its lock was lost, but the lab itself stalled meanwhile.",
            ));
        }
        let after = ms(at.at_ns.saturating_sub(from.at_ns));
        let is_told = self.holder.learned_at.is_some_and(|learned| learned <= at);
        let how = if is_told {
            format!("A was told only {after} ms later")
        } else {
            format!("A was not told: {after} ms later it used the number")
        };
        let claimed = count(i64::try_from(self.bound_ms).unwrap_or(i64::MAX));
        let granted = format!("B is granted {}, which A had", self.other.key);
        Some(Verdict {
            evidence: vec![
                self.loss.evidence(),
                evidence(from, OTHER, "granted", granted),
                shown,
            ],
            why: Some(if is_told {
                WHY_TOLD_LATE.into()
            } else {
                self.loss.why_untold().into()
            }),
            ..Verdict::bare(
                Outcome::Broken,
                format!(
                    "{}. {how}; it claims to tell a loss within {claimed} ms.",
                    self.loss.headline()
                ),
            )
        })
    }

    /// Returns a use of the number that the lab asked for after this time, and that A did not decline.
    fn untold(&self, latest_ns: u64) -> Option<(Mark, Evidence)> {
        let is_late = |op: &&&Op| op.asked.is_some_and(|asked| asked.at_ns > latest_ns);
        let op = self.ops.iter().find(is_late)?;
        let untold = self
            .holder
            .learned_at
            .is_none_or(|learned| learned > op.mark);
        untold.then(|| (op.mark, op_evidence(op, did(op))))
    }

    /// Returns when A said that its lock was lost, if that was after this time.
    fn late(&self, latest_ns: u64) -> Option<(Mark, Evidence)> {
        // Whoever is asked only then, and declines, may have known for long.
        let said = self.holder.said_lost;
        let said = said.filter(|said| self.holder.learned_at == Some(*said))?;
        let shown = evidence(said, HOLDER, "lost", "A says that its lock is lost");
        (said.at_ns > latest_ns).then_some((said, shown))
    }
}
