//! Locks whose primary is replaced and lives on: wrong ones with the trial that must convict each, and right ones.

use fencepost_trial::holds::Scenario::Deposed;

use crate::judging::{BROKEN, Due};
use crate::on_servers::ADVISORY;
use crate::outage::RENEWED;
use crate::part::{ExternalLock, HONEST, Part, STOPS_ITSELF};
use crate::servers::Place::{Postgres, Redis};
use crate::session::Ordeal::{self, LastingAt};

/// Long enough for everything that must happen within a lease, on a busy machine.
const TTL_MS: u64 = 2_000;
const ON_REDIS: Ordeal = LastingAt(Redis, Deposed, TTL_MS);
const ON_POSTGRES: Ordeal = LastingAt(Postgres, Deposed, TTL_MS);

/// The wrong ones. Nobody tells them that another server has taken over: limits of their kinds.
#[rustfmt::skip]
pub(crate) const CASES: &[(ExternalLock, Ordeal, Due)] = &[
    (RENEWED, ON_REDIS, BROKEN),
    (ADVISORY, ON_POSTGRES, BROKEN),
];

/// The trials that the right ones withstand.
pub(crate) fn right() -> Vec<(Part, Ordeal)> {
    let by_hand = [HONEST, STOPS_ITSELF].map(|lock| (Part::External(lock), ON_REDIS));
    let redis = ["safe", "fenced"].map(|name| (Part::Library(name), ON_REDIS));
    let postgres = ["safe", "watchdog", "fenced", "lease", "unique-index"];
    let postgres = postgres.map(|name| (Part::Library(name), ON_POSTGRES));
    let all = by_hand.into_iter().chain(redis).chain(postgres);
    all.collect()
}
