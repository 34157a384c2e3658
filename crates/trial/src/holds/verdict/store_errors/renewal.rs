//! In `store-errors`: every renewal of A's met an error until its lease was over and B had the lock. Did A still believe in its own?

use crate::history::Fault;
use crate::holds::facts::{Hold, Mark, Op};
use crate::holds::verdict::false_release::met_evidence;
use crate::holds::verdict::{Court, overwritten};
use crate::holds::{FIRST_LOCK, HOLDER, OTHER};
use crate::protocol::Action;
use crate::text::numbers::ms;
use crate::verdict::{Lack, Verdict};

/// A hold of A's whose renewals met errors.
pub(super) struct Renewal<'a> {
    hold: &'a Hold,
    met: Mark,
    fault: Fault,
}

impl<'a> Renewal<'a> {
    /// Returns the last hold of A's, if it claims to be renewed and something met an error before its release was sent.
    pub(super) fn of(court: &'a Court<'_>) -> Option<Self> {
        if !court.claims.keep_alive {
            return None;
        }
        let holds = court.facts.holds.iter();
        let mut own = holds.filter(|hold| hold.who == HOLDER && hold.key == FIRST_LOCK);
        let hold = own.next_back()?;
        let is_during =
            |mark: Mark| mark > hold.granted && hold.release.is_none_or(|release| mark < release);
        let mut faults = court.facts.faults.iter();
        let met = faults.find(|seen| {
            seen.fault.error().is_some() && seen.who == HOLDER && is_during(seen.mark)
        })?;
        Some(Self {
            hold,
            met: met.mark,
            fault: met.fault,
        })
    }

    fn is_own(&self, op: &Op) -> bool {
        op.who == HOLDER && op.hold == self.hold.id
    }

    /// Returns the verdict if A used its lock beside B.
    pub(super) fn broken(&self, court: &Court<'_>) -> Option<Verdict> {
        let mut overlaps = court.guilty_overlaps();
        overlaps.retain(|overlap| std::ptr::eq(overlap.first, self.hold));
        let lost = court.lost().is_some_and(|lost| self.is_own(lost.write));
        let mixed = court.checks.interleaved();
        let is_mixed = mixed.is_some_and(|(between, op)| self.is_own(between) || self.is_own(op));
        if overlaps.is_empty() && !lost && !is_mixed {
            return None;
        }
        let mut verdict = overwritten::broken(court, &overlaps);
        let error = met_evidence(self.met, self.fault, HOLDER);
        verdict.evidence.insert(0, error);
        verdict.why = Some(format!(
            "The store answered every renewal with {}, so nothing kept A's lease of {} ms alive: A must count it from the last renewal that \
             the store has confirmed.",
            self.fault.error().unwrap_or_default(),
            ms(court.ttl_ns())
        ));
        verdict.next = court.suggest([
            court.next("watchdog", "knows by its own clock that its lease is over"),
            court.next("fenced", "lets the resource refuse A"),
        ]);
        Some(verdict)
    }

    /// Returns what shows that A did not believe in its lock any more; otherwise a verdict that says what is missing.
    pub(super) fn witness(&self, court: &Court<'_>) -> Result<String, Box<Verdict>> {
        let others = court.facts.holds.iter();
        let mut others = others.filter(|hold| hold.who == OTHER && hold.key == self.hold.key);
        let Some(next) = others.find(|hold| hold.granted > self.met) else {
            return Err(Box::new(court.unanswered()));
        };
        let after = ms(next.granted.at_ns.saturating_sub(self.met.at_ns));
        let begins = format!(
            "every renewal of A's met an error; B had the lock {after} ms after the first; then"
        );
        let is_late = |op: &&Op| self.is_own(op) && op.action == Action::Write;
        let write = court.facts.ops.iter().find(is_late);
        let knew = [self.hold.decided(), self.hold.silent]
            .into_iter()
            .flatten();
        match write {
            Some(write) if write.refused => Ok(format!("{begins} the resource refused A's write")),
            None if knew.max().is_some_and(|knew| knew > next.granted) => {
                Ok(format!("{begins} A did not write"))
            }
            _ => Err(Box::new(court.not_overtaken())),
        }
    }
}

/// Returns whether two processes met somewhere else than in the round of the renewals, or did damage.
pub(super) fn met_elsewhere(court: &Court<'_>, renewal: Option<&Renewal<'_>>) -> bool {
    let is_other = |first: &Hold| renewal.is_none_or(|renewal| !std::ptr::eq(first, renewal.hold));
    let overlaps = court.checks.overlaps();
    court.is_damaged() || overlaps.iter().any(|overlap| is_other(overlap.first))
}

/// Returns the verdict on a lock that claims to renew its lease, and no renewal of which met an error.
pub(super) fn not_met() -> Verdict {
    Verdict::inconclusive(
        "Nothing broke, and too little was tested: no renewal of A's met an error.",
        Lack::Renewal,
        "a lock that renews its lease through the address it is given, without encryption.",
    )
}
