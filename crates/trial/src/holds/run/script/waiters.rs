//! The script of `trial waiters`.

use std::time::Duration;

use super::{Act, PAUSE, read, until_recovered, write};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, Trial};
use crate::protocol::Claims;

/// The processes that wait when the holder is killed, in the order in which they are asked.
const WAITERS: [usize; 4] = [1, 2, 3, 4];
/// The process that is killed while it waits.
const DIES: usize = WAITERS[1];
/// How many processes are killed: one that waits, the holder, and whoever takes over.
const KILLS: usize = 3;

/// A holds the lock and four wait for it. One of them is killed, then A, and then whoever takes over. At that moment another process joins.
pub(super) fn script(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    let wait = 3 * until_recovered(trial, claims);
    // A waiter has its place in line by then, as far as the lab can tell, and A's lease still runs when it is killed.
    let place = (trial.ttl() / 12).min(PAUSE);
    let last = WAITERS[WAITERS.len() - 1];
    let at_once = Duration::ZERO;
    let holder = vec![
        Act::Acquire { key, wait: at_once },
        read(key),
        Act::After(last, 2),
        Act::Work(chance.about(place)),
        Act::KillOther(DIES),
        Act::Kill,
    ];
    let served = |first: Vec<Act>| {
        let turn = [
            Act::Acquire { key, wait },
            Act::KillIfBelow(KILLS),
            read(key),
            // Long enough for two that got the lock to meet.
            Act::Work(chance.about(place)),
            write(key),
            Act::Release { key },
        ];
        first.into_iter().chain(turn).collect()
    };
    // The next one is asked a little later than the one before it. The first comes after A has the lock and has read.
    let waiter = |number: usize| {
        let rest = Act::Work(chance.about(place));
        served(vec![Act::After(number - 1, 2), rest])
    };
    let mut scripts = vec![holder];
    scripts.extend(WAITERS.map(waiter));
    scripts.push(served(vec![Act::AfterKills(KILLS)]));
    scripts
}
