//! The script of `trial same-pid`.

use std::time::Duration;

use super::{A, Act, B, C, PAUSE, read, until_recovered, write};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, SECOND_LOCK, Trial};
use crate::protocol::Claims;

/// A takes two locks, is killed, and comes back with the same process id while its leases run. It asks for the first lock, as B does after it. Then
/// C asks for the second one, which A left behind.
///
/// A works until its first lease is over, so that B gets the lock beside it if A was let in on that one. C looks at the clock.
pub(super) fn script(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let (key, left) = (FIRST_LOCK, SECOND_LOCK);
    let wait = until_recovered(trial, claims);
    let at_once = Duration::ZERO;
    let at_kill = 2 * trial.ttl() / 5;
    let holder = vec![
        Act::Acquire { key, wait: at_once },
        read(key),
        Act::Acquire {
            key: left,
            wait: at_once,
        },
        Act::Work(chance.between(at_kill - PAUSE.min(at_kill), at_kill)),
        Act::Restart,
        Act::Acquire { key, wait },
        read(key),
        Act::After(C, LEASE_IS_OVER),
        Act::Work(trial.ttl() / 10),
        write(key),
        Act::Release { key },
    ];
    let other = vec![
        Act::After(A, HAS_READ_AGAIN),
        // Nobody gets it if A did not.
        Act::EndIfFinished(A),
        Act::Acquire {
            key,
            wait: trial.ttl() + wait,
        },
        read(key),
        write(key),
        Act::Release { key },
    ];
    let third = vec![
        Act::After(A, 1),
        Act::Work(trial.ttl() + PAUSE),
        Act::AfterAll(A),
        Act::AfterAll(B),
        Act::Acquire { key: left, wait },
        read(left),
        write(left),
        Act::Release { key: left },
    ];
    vec![holder, other, third]
}

/// How many acts C has done when the lease of A's first life is over.
const LEASE_IS_OVER: usize = 2;
/// How many acts A has done when it has the lock in its second life and has read.
const HAS_READ_AGAIN: usize = 7;
