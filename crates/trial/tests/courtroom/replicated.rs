//! Locks on Redis that wait for a replica (`WAIT`) before they count as granted: wrong ones that do it in vain, and a right one.

use fencepost_trial::holds::Scenario::Failover;
use fencepost_trial::protocol::Claims;

use crate::flaw::Flaw;
use crate::judging::{BROKEN, Due};
use crate::part::{ExternalLock, HONEST, Part, flawed, lock};
use crate::session::Ordeal::{self, Lasting};

/// What a lock claims that waits for its replica.
const SURVIVES: Claims = Claims {
    survives: true,
    ..Claims::PLAIN
};

/// Long enough for a failover within a lease, on a busy machine.
const TRIAL: Ordeal = Lasting(Failover, 10_000);

const HONEST_REPLICATED: ExternalLock = lock("honest-replicated", SURVIVES);

/// The wrong ones.
#[rustfmt::skip]
pub(crate) const CASES: &[(ExternalLock, Ordeal, Due)] = &[
    // It claims nothing, so this is a limit of its kind.
    (HONEST, TRIAL, BROKEN),
    (flawed("ignores-replicas", Flaw::IgnoresReplicas, SURVIVES), TRIAL, BROKEN),
    (flawed("waits-elsewhere", Flaw::WaitsElsewhere, SURVIVES), TRIAL, BROKEN),
];

/// The trial that the right one withstands.
pub(crate) fn right() -> Vec<(Part, Ordeal)> {
    vec![(Part::External(HONEST_REPLICATED), TRIAL)]
}
