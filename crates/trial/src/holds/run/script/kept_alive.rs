//! The scripts of trials that only a lock which renews its leases can pass or fail.

use std::time::Duration;

use super::{A, Act, B, RoadEvent, try_once};
use crate::holds::many_leases::{CONTROL, EACH_WAY, ONE_MORE, kept, sample};
use crate::holds::run::chance::Chance;
use crate::holds::run::roads::{StoreError, Which};
use crate::holds::{FIRST_LOCK, Trial};
use crate::protocol::{Action, Claims};
use crate::store::ServerFault;

/// How often B asks for a lock while A holds its locks, a quarter of a TTL apart. That is longer than two leases.
const CONTROLS: usize = 9;

/// A takes very many locks. Then every message between A and its store takes longer, for more than two leases. B shows meanwhile that the store
/// answers, and asks for a sample of A's locks at the end.
pub(super) fn many_leases(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    if !claims.keep_alive {
        return nothing_to_try();
    }
    let take = |key| Act::Acquire {
        key,
        wait: Duration::ZERO,
    };
    let mut first: Vec<Act> = kept().map(take).collect();
    first.extend([Act::Road(RoadEvent::Distance(EACH_WAY)), try_once(ONE_MORE)]);
    let mut second = vec![Act::After(A, first.len()), Act::EndIfFinished(A)];
    first.push(Act::AfterAll(B));
    let pause = trial.ttl() / 4;
    for _ in 0..CONTROLS {
        let at_random = chance.between(Duration::ZERO, pause / 10);
        second.push(Act::Work(pause + at_random));
        second.extend(asks_briefly(CONTROL));
    }
    second.extend(sample().flat_map(asks_briefly));
    vec![first, second]
}

/// A's connections die silently at some moment before half of its lease is over. B shows for more than two leases that the store answers: it asks
/// for A's lock again and again.
pub(super) fn dead_connection(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    if !claims.keep_alive {
        return nothing_to_try();
    }
    let (key, wait, pause) = (FIRST_LOCK, Duration::ZERO, trial.ttl() / 4);
    let first = vec![
        Act::Acquire { key, wait },
        Act::Work(chance.between(Duration::ZERO, 2 * pause)),
        Act::Road(RoadEvent::Bury),
        Act::AfterAll(B),
        // Whoever takes a step still believes in its lock.
        Act::StepIfHeld {
            key,
            action: Action::Read,
        },
        Act::ReleaseIfHeld { key },
    ];
    let mut second = vec![Act::After(A, 3), Act::EndIfFinished(A)];
    for _ in 0..CONTROLS {
        second.push(Act::Work(
            pause + chance.between(Duration::ZERO, pause / 10),
        ));
        second.extend(asks_briefly(key));
    }
    vec![first, second]
}

/// How often B asks for the lock when a renewal has failed.
const AFTER_RENEWAL: usize = 9;

/// The reply to a renewal of A's is lost, and in a second round the store answers one with an error, if the lab knows its errors. B asks for A's
/// lock again and again, until a lease that was not renewed any more would be over.
pub(super) fn failed_renewal(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    if !claims.keep_alive {
        return nothing_to_try();
    }
    let (key, wait, pause) = (FIRST_LOCK, Duration::ZERO, trial.ttl() / 4);
    let mut faults = vec![RoadEvent::LoseReply(1)];
    if trial.store.facts().errors == ServerFault::Available {
        faults.push(RoadEvent::Error(StoreError::Loading, Which::Number(1)));
    }
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for fault in faults {
        let of_a = first.len();
        second.extend([Act::After(A, of_a + 3), Act::EndIfFinished(A)]);
        for _ in 0..AFTER_RENEWAL {
            let pause = pause + chance.between(Duration::ZERO, pause / 10);
            second.push(Act::Work(pause));
            second.extend(asks_briefly(key));
        }
        first.extend([
            Act::Acquire { key, wait },
            Act::Work(chance.between(Duration::ZERO, pause / 4)),
            Act::Road(fault),
            Act::After(B, second.len()),
            // Whoever takes a step still believes in its lock.
            Act::StepIfHeld {
                key,
                action: Action::Read,
            },
            Act::Road(RoadEvent::Reconnect),
            Act::ReleaseIfHeld { key },
        ]);
    }
    vec![first, second]
}

/// Tries once, and releases the lock at once if it is granted.
fn asks_briefly(key: &'static str) -> [Act; 2] {
    [try_once(key), Act::ReleaseIfHeld { key }]
}

/// Returns the scripts for a lock that does not claim to renew its leases: one grant, to see that the program works.
fn nothing_to_try() -> Vec<Vec<Act>> {
    let (key, wait) = (FIRST_LOCK, Duration::ZERO);
    let once = vec![Act::Acquire { key, wait }, Act::Release { key }];
    vec![once, Vec::new()]
}
