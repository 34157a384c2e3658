//! Judges `write-only-fence`: A was paused beyond its lease, and B had read when A wrote. Then B wrote. It is judged as `pause`; if an update was
//! lost although every write carried a fence, the verdict says how.

use std::cmp::Ordering;

use super::lost_update::LostUpdate;
use super::{Court, did, evidence, op_evidence, pause};
use crate::history::fence::compare;
use crate::holds::facts::Op;
use crate::holds::{HOLDER, OTHER};
use crate::verdict::{Outcome, Verdict};

const WHY: &str = "B's read left no trace at the number: until B wrote, A's older fence was the highest that it had seen. Fences must be checked on reads, too, or a write must compare what was read.";

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let verdict = pause::judge(court);
    match court.lost() {
        Some(lost) if verdict.outcome == Outcome::Broken && is_past_fences(court, &lost) => {
            lost_past_fences(court, &lost, verdict)
        }
        _ => verdict,
    }
}

/// Returns whether B, which had read before, wrote over A's late update, both under fences that grew and that only writes are checked for.
fn is_past_fences(court: &Court<'_>, lost: &LostUpdate<'_>) -> bool {
    let by = |op: &Op, who: &str| op.who == who;
    let fences = lost
        .between
        .fence
        .as_deref()
        .zip(lost.write.fence.as_deref());
    let grow = fences.is_some_and(|(late, next)| compare(late, next) == Some(Ordering::Less));
    court.claims.fences_writes_only && by(lost.between, HOLDER) && by(lost.write, OTHER) && grow
}

fn lost_past_fences(court: &Court<'_>, lost: &LostUpdate<'_>, verdict: Verdict) -> Verdict {
    let shown = |op: &Op| {
        let fence = op.fence.as_deref().unwrap_or("none");
        format!("{}, fence {fence}", did(op))
    };
    let hold = court.facts.hold_of(lost.write);
    let granted = hold.map(|hold| {
        let sentence = format!("B is granted {}, with a higher fence", hold.key);
        evidence(hold.granted, OTHER, "granted", sentence)
    });
    let ops = [lost.read, lost.between, lost.write].map(|op| op_evidence(op, shown(op)));
    Verdict {
        because: "One update is lost, and every write carried a fence that grew: B wrote over A's late update, which came after B had read.".into(),
        evidence: granted.into_iter().chain(ops).collect(),
        why: Some(WHY.into()),
        next: court.suggest([court.next("fenced", "checks the fence on reads, too")]),
        ..verdict
    }
}
