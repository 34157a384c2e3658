//! Locks on etcd whose leader dies again and again: wrong ones with the trial that must convict each, and right ones.

use fencepost_trial::holds::Scenario::LeaderDeaths;

use crate::flaw::Flaw;
use crate::judging::{BROKEN, Due, STUCK};
use crate::on_servers::{KEY, KEY_OF_SESSION};
use crate::part::{ExternalLock, KEPT_ALIVE, Part, flawed, lock};
use crate::servers::Place::Etcd;
use crate::session::Ordeal::{self, LastingAt};

/// A lease outlasts three elections.
const TRIAL: Ordeal = LastingAt(Etcd, LeaderDeaths, 8_000);

/// The wrong ones.
#[rustfmt::skip]
pub(crate) const CASES: &[(ExternalLock, Ordeal, Due)] = &[
    (flawed("no-condition", Flaw::NoCondition, KEY.claims), TRIAL, BROKEN),
    (flawed("no-lease", Flaw::NoLease, KEY.claims), TRIAL, STUCK),
    (lock("only-claims-renewal-on-etcd", KEPT_ALIVE), TRIAL, BROKEN),
];

/// The trial that the right ones withstand.
pub(crate) fn right() -> Vec<(Part, Ordeal)> {
    let by_hand = [KEY, KEY_OF_SESSION].map(Part::External);
    let library = ["safe", "watchdog", "fenced"].map(Part::Library);
    let all = by_hand.into_iter().chain(library);
    all.map(|part| (part, TRIAL)).collect()
}
