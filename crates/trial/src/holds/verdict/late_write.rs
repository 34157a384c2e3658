//! Judges `late-write`: A sent its write while it had the lock, and the write arrived when A's hold was over and B had written. Was it refused?

use super::overlap;
use super::overwritten::FENCED_LIMITS;
use super::{Court, did, evidence, op_evidence};
use crate::history::Fault;
use crate::holds::facts::{Mark, Op};
use crate::holds::{HOLDER, OTHER};
use crate::protocol::Action;
use crate::text::numbers::ms;
use crate::verdict::{Lack, Outcome, Verdict};

const WHY: &str = "No lock can call back a write that was sent: when it arrived, only the resource could have refused it, by its fence.";
/// The reason for a lock that claims fences.
const WHY_FENCED: &str =
    "The lock claims fences, and the resource accepted a write after it had seen a later holder.";

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let within = court.checks.overlaps_within_lease();
    if !within.is_empty() {
        return overlap::broken(court, &within);
    }
    let Some(delayed) = Delayed::of(court) else {
        return court.overrun().unwrap_or_else(|| {
            Verdict::inconclusive(
                "Nothing broke, and nothing was tested: no write of A arrived after B had written.",
                Lack::Delay,
                "a holder that writes, and somebody who gets the lock after it and writes, too.",
            )
        });
    };
    match (delayed.write.refused, court.lost()) {
        (true, None) => refused(court, &delayed),
        (false, Some(_)) => broken(court, &delayed),
        _ => court.unanswered(),
    }
}

/// A write of A that arrived after B's.
struct Delayed<'a> {
    sent: Mark,
    between: &'a Op,
    write: &'a Op,
}

impl<'a> Delayed<'a> {
    /// Returns `None` if A's write was not held back, if A still had its lock when it arrived, or if nobody had written before it.
    fn of(court: &'a Court<'_>) -> Option<Self> {
        let sent = court.facts.fault_of(HOLDER, Fault::WriteHeld)?;
        let ops = court.facts.ops.iter();
        let is_write = |op: &&Op, who: &str| op.who == who && op.action == Action::Write;
        let write = ops
            .clone()
            .find(|op| is_write(op, HOLDER) && op.mark > sent)?;
        let between = ops
            .clone()
            .find(|op| is_write(op, OTHER) && op.mark > sent && op.mark < write.mark)?;
        let hold = court.facts.hold_of(write)?;
        let is_over = hold.release.is_some_and(|release| release < write.mark)
            && hold.granted < sent
            && !between.refused;
        is_over.then_some(Self {
            sent,
            between,
            write,
        })
    }

    fn was_on_its_way_ms(&self) -> String {
        ms(self.write.mark.at_ns.saturating_sub(self.sent.at_ns))
    }
}

fn refused(court: &Court<'_>, delayed: &Delayed<'_>) -> Verdict {
    Verdict {
        witness: vec![format!(
            "A's write was on its way for {} ms; A's hold ended, and B got the lock and wrote meanwhile",
            delayed.was_on_its_way_ms()
        )],
        limits: Some(FENCED_LIMITS.into()),
        ..Verdict::bare(
            Outcome::Held,
            format!(
                "No damage: the resource refused A's late write ({}).",
                court.fences(delayed.write)
            ),
        )
    }
}

fn broken(court: &Court<'_>, delayed: &Delayed<'_>) -> Verdict {
    let (sent, between, write) = (delayed.sent, delayed.between, delayed.write);
    let why = if court.claims.fencing {
        WHY_FENCED
    } else {
        WHY
    };
    Verdict {
        evidence: vec![
            evidence(sent, HOLDER, "sent", "A sends its write, under its lock"),
            op_evidence(
                between,
                format!("{}, under the lock that A had", did(between)),
            ),
            op_evidence(write, format!("A's write arrives: {}", did(write))),
        ],
        why: Some(why.into()),
        next: court.suggest([court.next("fenced", "lets the resource refuse A's write")]),
        ..Verdict::bare(
            Outcome::Broken,
            format!(
                "A's write arrived {} ms after it was sent, when A's hold was over, and overwrote B's update. One is lost.",
                delayed.was_on_its_way_ms()
            ),
        )
    }
}
