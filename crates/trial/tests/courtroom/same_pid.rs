//! Locks whose holder dies and comes back with the same process id: wrong ones, and right ones.

use fencepost_trial::holds::Scenario::{Crash, SamePid};
use fencepost_trial::protocol::Claims;

use crate::flaw::Flaw;
use crate::judging::{BROKEN, Due, STUCK};
use crate::part::{
    ExternalLock, FENCED, HONEST, HONEST_FENCED, HONEST_LINE, HONEST_RENEWED, NO_EXPIRY, NONE,
    Part, flawed,
};
use crate::servers::Place::{Etcd, Postgres, Redis, Redlock, Zookeeper};
use crate::session::Ordeal::{self, At, Holds, Lasting};

/// The process must be back within the lease, also on a busy machine.
const TRIAL: Ordeal = Lasting(SamePid, 2_000);

const OWNER_IS_PID: ExternalLock = flawed("owner-is-pid", Flaw::OwnerIsPid, Claims::PLAIN);
const LOOKS_ALIVE: ExternalLock = flawed("looks-alive", Flaw::LooksAlive, OF_PROCESS);
/// What a lock claims that lasts as long as its process.
const OF_PROCESS: Claims = Claims {
    untimed: true,
    recovery_ms: Some(1_000),
    ..Claims::PLAIN
};
const KNOWS_ITS_OWNER: ExternalLock = flawed("knows-its-owner", Flaw::KnowsItsOwner, OF_PROCESS);
const RESUMES: ExternalLock = flawed("resumes-by-pid", Flaw::ResumesByPid, Claims::PLAIN);

/// The wrong ones.
#[rustfmt::skip]
pub(crate) const CASES: &[(ExternalLock, Ordeal, Due)] = &[
    (NONE, TRIAL, BROKEN),
    (NO_EXPIRY, TRIAL, STUCK),
    (OWNER_IS_PID, TRIAL, BROKEN),
    (flawed("fence-stays-with-pid", Flaw::FenceStaysWithPid, FENCED), TRIAL, BROKEN),
    (LOOKS_ALIVE, TRIAL, STUCK),
    // Nobody else has the process id of the dead one there.
    (LOOKS_ALIVE, Holds(Crash), Due::NoAlarm),
];

/// The trials that the right ones withstand.
pub(crate) fn right() -> Vec<(Part, Ordeal)> {
    let external = [
        HONEST,
        HONEST_FENCED,
        HONEST_LINE,
        HONEST_RENEWED,
        KNOWS_ITS_OWNER,
        RESUMES,
    ];
    let external = external.map(|lock| (Part::External(lock), TRIAL));
    let library = ["safe", "watchdog", "fenced"].map(|name| (Part::Library(name), TRIAL));
    let places = [Redis, Redlock, Etcd, Zookeeper, Postgres];
    let on_servers = places.map(|place| (Part::Library("watchdog"), At(place, SamePid)));
    let of_database = (Part::Library("advisory"), At(Postgres, SamePid));
    let all = external.into_iter().chain(library).chain(on_servers);
    all.chain([of_database]).collect()
}
