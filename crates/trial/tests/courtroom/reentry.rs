//! Locks that are asked for twice and released too often: wrong ones, and right ones.

use fencepost_trial::holds::Scenario::Reentry;
use fencepost_trial::protocol::Claims;

use crate::flaw::Flaw;
use crate::judging::{BROKEN, Due};
use crate::part::{
    BLIND_DELETE, CUTS_NAMES, ExternalLock, FENCED, HONEST, HONEST_FENCED, HONEST_LINE, NONE, Part,
    flawed, lock,
};
use crate::servers::Place::{Etcd, Postgres, Redis, Zookeeper};
use crate::session::Ordeal::{self, At, Lasting};

const REENTRANT: Claims = Claims {
    reentrant: true,
    ..Claims::PLAIN
};

/// Everything happens within a lease, also on a busy machine.
const TRIAL: Ordeal = Lasting(Reentry, 2_000);

const HONEST_REENTRANT: ExternalLock = lock("honest-reentrant", REENTRANT);
/// Both of its holds have the same fence.
const HONEST_REENTRANT_FENCED: ExternalLock = lock(
    "honest-reentrant-fenced",
    Claims {
        reentrant: true,
        ..FENCED
    },
);

/// The wrong ones.
#[rustfmt::skip]
pub(crate) const CASES: &[(ExternalLock, Ordeal, Due)] = &[
    (NONE, TRIAL, BROKEN),
    // It gives its holder a second hold, and does not say so.
    (CUTS_NAMES, TRIAL, BROKEN),
    (BLIND_DELETE, TRIAL, BROKEN),
    (flawed("forces-release-again", Flaw::ForcesRelease, Claims::PLAIN), TRIAL, BROKEN),
    // The owner is the process, and an old hold is released like the new one.
    (flawed("releases-own-later", Flaw::ReleasesOwnLater, Claims::PLAIN), TRIAL, BROKEN),
    (flawed("releases-own-later-fenced", Flaw::ReleasesOwnLater, FENCED), TRIAL, BROKEN),
    (flawed("frees-at-first-release", Flaw::FreesAtFirstRelease, REENTRANT), TRIAL, BROKEN),
    (flawed("reentrant-blind-delete", Flaw::BlindDelete, REENTRANT), TRIAL, BROKEN),
    (flawed("refuses-its-holder", Flaw::RefusesItsHolder, REENTRANT), TRIAL, BROKEN),
];

/// The trials that the right ones withstand.
pub(crate) fn right() -> Vec<(Part, Ordeal)> {
    let external = [
        HONEST,
        HONEST_FENCED,
        HONEST_LINE,
        HONEST_REENTRANT,
        HONEST_REENTRANT_FENCED,
    ];
    let external = external.map(|lock| (Part::External(lock), TRIAL));
    let library = ["safe", "watchdog", "fenced"].map(|name| (Part::Library(name), TRIAL));
    let places = [Redis, Etcd, Zookeeper, Postgres];
    let on_servers = places.map(|place| (Part::Library("watchdog"), At(place, Reentry)));
    let of_database =
        ["row", "table", "advisory"].map(|name| (Part::Library(name), At(Postgres, Reentry)));
    external
        .into_iter()
        .chain(library)
        .chain(on_servers)
        .chain(of_database)
        .collect()
}
