//! Locks that claim to serve waiters in order: wrong ones with the trial that must convict each, and right ones.

use fencepost_trial::holds::Scenario::Order;
use fencepost_trial::protocol::Claims;

use crate::flaw::Flaw;
use crate::judging::{BROKEN, Due};
use crate::part::{ExternalLock, Part, flawed, lock};
use crate::servers::Place::{Etcd, Postgres, Redis, Zookeeper};
use crate::session::Ordeal::{self, Lasting, LastingAt};

/// What a lock claims that has a line.
const FAIR: Claims = Claims {
    fair: true,
    ..Claims::PLAIN
};

/// Three processes ask within a lease, one well after the other.
const TTL_MS: u64 = 6_000;
const TRIAL: Ordeal = Lasting(Order, TTL_MS);

const HONEST_FAIR: ExternalLock = ExternalLock {
    has_line: true,
    ..lock("honest-fair", FAIR)
};
const REVERSED: ExternalLock = ExternalLock {
    has_line: true,
    ..flawed("line-is-reversed", Flaw::LineIsReversed, FAIR)
};

/// The wrong ones.
#[rustfmt::skip]
pub(crate) const CASES: &[(ExternalLock, Ordeal, Due)] = &[
    (lock("only-claims-order", FAIR), TRIAL, BROKEN),
    (REVERSED, TRIAL, BROKEN),
];

/// The trials that the right ones withstand.
pub(crate) fn right() -> Vec<(Part, Ordeal)> {
    let ours = Part::Library("in-line");
    let places = [Redis, Postgres, Etcd, Zookeeper];
    let servers = places.map(|place| (ours, LastingAt(place, Order, TTL_MS)));
    let files = [Part::External(HONEST_FAIR), ours].map(|part| (part, TRIAL));
    files.into_iter().chain(servers).collect()
}
