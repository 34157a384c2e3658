//! Locks that are taken away at the store: wrong ones that do not tell their loss as they claim, and right ones.

use fencepost_trial::holds::Scenario::TakenAway;
use fencepost_trial::protocol::Claims;

use crate::flaw::Flaw;
use crate::judging::{BROKEN, Due};
use crate::part::{ExternalLock, FENCED, HONEST, Part, flawed, lock};
use crate::servers::Place::{Etcd, Postgres, Redis, Redlock, Zookeeper};
use crate::session::Ordeal::{self, At, Lasting};

/// What a lock claims that renews its lease and tells its loss at the next renewal.
const TELLING: Claims = Claims {
    keep_alive: true,
    tells_loss_ms: Some(500),
    ..Claims::PLAIN
};

/// Long enough for everything to happen within a lease, on a busy machine.
const TTL_MS: u64 = 2_000;

const HONEST_TELLING: ExternalLock = lock(
    "honest-telling",
    Claims {
        tells_loss_ms: Some(TTL_MS),
        ..TELLING
    },
);

/// The wrong ones.
#[rustfmt::skip]
pub(crate) const CASES: &[(ExternalLock, Ordeal, Due)] = &[
    // It claims nothing, so this is a limit of its kind.
    (HONEST, Lasting(TakenAway, TTL_MS), BROKEN),
    (flawed("renews-any-key", Flaw::RenewsAnyKey, TELLING), Lasting(TakenAway, TTL_MS), BROKEN),
    (flawed("tells-late", Flaw::TellsLate, TELLING), Lasting(TakenAway, TTL_MS), BROKEN),
    (flawed("takes-loss-back", Flaw::TakesLossBack, TELLING), Lasting(TakenAway, TTL_MS), BROKEN),
    (flawed("fence-of-counter", Flaw::FenceOfCounter, FENCED), Lasting(TakenAway, TTL_MS), BROKEN),
];

/// The trials that the right ones withstand.
pub(crate) fn right() -> Vec<(Part, Ordeal)> {
    let places = [Redis, Redlock, Postgres, Etcd, Zookeeper];
    let library = places.into_iter().flat_map(|place| {
        ["watchdog", "fenced"].map(|name| (Part::Library(name), At(place, TakenAway)))
    });
    let by_hand = (Part::External(HONEST_TELLING), Lasting(TakenAway, TTL_MS));
    let of_database = (Part::Library("advisory"), At(Postgres, TakenAway));
    library.chain([by_hand, of_database]).collect()
}
