//! Locks on servers that are out of action for a while: wrong ones with the trial that must convict each, and right ones.

use fencepost_trial::holds::Scenario::{MajorityDown, ServerStall};
use fencepost_trial::protocol::Claims;

use crate::flaw::Flaw;
use crate::judging::{BROKEN, Due, STUCK};
use crate::on_servers::REDLOCK;
use crate::part::{ExternalLock, HONEST, KEPT_ALIVE, Part, STOPS_ITSELF, flawed, lock};
use crate::player::Manners;
use crate::servers::Place::{Etcd, Postgres, Redlock};
use crate::session::Ordeal::{self, At, Lasting, LastingAt};

/// The TTL of the trial in which servers are stopped.
const TTL_MS: u64 = 3_000;
/// The trial on Redis.
const STALL: Ordeal = Lasting(ServerStall, TTL_MS);

/// The trial of a majority, on Redlock.
const DOWN: Ordeal = LastingAt(Redlock, MajorityDown, 2_000);

/// Does not wait for its server for long.
const fn brisk(name: &'static str, flaw: Flaw) -> ExternalLock {
    ExternalLock {
        manners: Manners::StopsItself,
        ..flawed(name, flaw, Claims::PLAIN)
    }
}

/// Renews its lease on Redis, and knows by its clock when that has failed.
pub(crate) const RENEWED: ExternalLock = ExternalLock {
    renews: true,
    ..lock("honest-renewed-on-redis", KEPT_ALIVE)
};
pub(crate) const GIVES_UP: ExternalLock = ExternalLock {
    renews: true,
    ..flawed("renewal-gives-up", Flaw::RenewalGivesUp, KEPT_ALIVE)
};
/// Renews its lease, and never looks at the clock.
const NEVER_STOPS: ExternalLock = ExternalLock {
    renews: true,
    manners: Manners::NeverStops,
    ..lock("never-stops", KEPT_ALIVE)
};

/// The wrong ones.
#[rustfmt::skip]
pub(crate) const CASES: &[(ExternalLock, Ordeal, Due)] = &[
    (GIVES_UP, STALL, BROKEN),
    (NEVER_STOPS, STALL, BROKEN),
    (lock("only-claims-renewal", KEPT_ALIVE), STALL, BROKEN),
    (brisk("timeout-is-grant", Flaw::ErrorIsGrant), STALL, BROKEN),
    (brisk("expires-in-second-step", Flaw::ExpiresInSecondStep), STALL, STUCK),
    (flawed("one-is-enough", Flaw::OneIsEnough, Claims::PLAIN), DOWN, BROKEN),
    (flawed("no-answer-is-grant", Flaw::ErrorIsGrant, Claims::PLAIN), DOWN, BROKEN),
];

/// The trials that the right ones withstand.
pub(crate) fn right() -> Vec<(Part, Ordeal)> {
    let by_hand = [HONEST, STOPS_ITSELF, RENEWED].map(|lock| (Part::External(lock), STALL));
    let redlock = [At(Redlock, ServerStall), DOWN].map(|ordeal| (Part::External(REDLOCK), ordeal));
    // The library's own locks.
    let on_redis = ["safe", "watchdog", "fenced"].map(|lock| (Part::Library(lock), STALL));
    let places = [Redlock, Postgres, Etcd];
    let elsewhere = places.map(|place| LastingAt(place, ServerStall, TTL_MS));
    let elsewhere = elsewhere.map(|ordeal| (Part::Library("watchdog"), ordeal));
    let down = [DOWN, At(Etcd, MajorityDown)].map(|ordeal| (Part::Library("watchdog"), ordeal));
    let all = by_hand.into_iter().chain(redlock);
    let all = all.chain(on_redis).chain(elsewhere).chain(down);
    all.collect()
}
