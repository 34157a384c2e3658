//! What a run convicts its lock for.

use std::collections::BTreeSet;

use crate::matrix::Run;
use crate::verdict::{Outcome, Verdict};

/// What a lock can be convicted for. Several checks may notice the same thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Charge {
    /// Two holders at once, or an update that one of them lost.
    TwoHolders,
    /// The same, while a lease was certainly running, or a lock that was gone by then.
    WithinLease,
    /// A fence that is missing, does not grow, or is not enforced.
    Fence,
    /// A lock that came free too late.
    Recovery,
    /// A lock that nobody can take.
    Stuck,
    /// Something else.
    Other,
}

/// The checks, and what each convicts a lock for.
const CHECKS: [(&str, Charge); 8] = [
    ("exclusion_at_resource", Charge::TwoHolders),
    ("exclusion_of_belief", Charge::TwoHolders),
    ("no_lost_update", Charge::TwoHolders),
    ("no_oversell", Charge::TwoHolders),
    ("fence_issued", Charge::Fence),
    ("fence_enforced", Charge::Fence),
    ("recovery", Charge::Recovery),
    ("not_stuck", Charge::Stuck),
];

/// Returns what a run convicts its lock for; nothing if it does not convict it.
pub(super) fn charges(run: &Run) -> BTreeSet<Charge> {
    let verdict = run.verdict();
    if !verdict.outcome.is_conviction() {
        return BTreeSet::new();
    }
    let mut charges = of_checks(verdict);
    if let Run::Lock(judged) = run {
        let checks = judged.checks();
        let is_within_lease = !checks.overlaps_within_lease().is_empty()
            || checks.is_damaged_within_lease()
            || checks.lost_within_lease().is_some();
        charges.extend(is_within_lease.then_some(Charge::WithinLease));
    }
    if verdict.outcome == Outcome::Stuck {
        charges.insert(Charge::Stuck);
    }
    if charges.is_empty() {
        charges.insert(Charge::Other);
    }
    charges
}

fn of_checks(verdict: &Verdict) -> BTreeSet<Charge> {
    let violated = CHECKS.iter().filter(|(name, _)| verdict.violates(name));
    violated.map(|(_, charge)| *charge).collect()
}
