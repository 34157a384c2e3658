//! Locks whose holder's machine vanishes from the network: wrong ones with the trial that must convict each, and right ones.

use fencepost_trial::holds::Scenario::Vanish;
use fencepost_trial::protocol::Claims;

use crate::flaw::Flaw;
use crate::judging::{BROKEN, Due, STUCK};
use crate::on_servers::{ADVISORY, KEY, NODE, REDLOCK, SESSION};
use crate::part::{ExternalLock, HONEST, Part, flawed, lock};
use crate::servers::Place::{Etcd, Postgres, Redis, Redlock, Zookeeper};
use crate::session::Ordeal::{self, At, Holds, LastingAt};

/// What a lock of a session claims if its server looks for dead connections every few seconds.
const LOOKED_AFTER: Claims = Claims {
    recovery_ms: Some(4_000),
    ..Claims::OF_SESSION
};

/// A session whose server looks for dead connections.
const KEEPALIVE: ExternalLock = lock("honest-keepalive", LOOKED_AFTER);

/// Long enough for a server to notice by itself before the lock counts as stuck.
const TTL_MS: u64 = 2_000;

/// The wrong ones.
#[rustfmt::skip]
pub(crate) const CASES: &[(ExternalLock, Ordeal, Due)] = &[
    // It is free as soon as its connection ends, which is all that it knows: a limit of its kind.
    (ADVISORY, At(Postgres, Vanish), STUCK),
    (flawed("looks-seldom", Flaw::LooksSeldom, ADVISORY.claims), LastingAt(Postgres, Vanish, TTL_MS), BROKEN),
    (flawed("ttl-in-seconds", Flaw::TtlInSeconds, Claims::PLAIN), At(Redis, Vanish), STUCK),
    (flawed("no-lease", Flaw::NoLease, KEY.claims), At(Etcd, Vanish), STUCK),
    (flawed("lasting-node", Flaw::LastingNode, NODE.claims), At(Zookeeper, Vanish), STUCK),
];

/// The trials that the right ones withstand.
pub(crate) fn right() -> Vec<(Part, Ordeal)> {
    let by_hand = [
        (HONEST, Holds(Vanish)),
        (REDLOCK, At(Redlock, Vanish)),
        (KEEPALIVE, At(Postgres, Vanish)),
        (KEY, At(Etcd, Vanish)),
        (NODE, At(Zookeeper, Vanish)),
        (SESSION, At(Zookeeper, Vanish)),
    ];
    let by_hand = by_hand.map(|(lock, ordeal)| (Part::External(lock), ordeal));
    // The library's own locks.
    let places = [Redis, Redlock, Postgres, Etcd, Zookeeper];
    let library = places.map(|place| (Part::Library("watchdog"), At(place, Vanish)));
    by_hand.into_iter().chain(library).collect()
}
