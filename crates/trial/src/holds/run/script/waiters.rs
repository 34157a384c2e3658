//! The script of `trial waiters`.

use super::sequence::{Sequence, after};
use super::{A, Act, PAUSE, at_once, read, until_recovered, write};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, Trial};
use crate::protocol::Claims;

/// The processes that wait when the holder is killed, in the order in which they are asked.
const WAITERS: [usize; 4] = [1, 2, 3, 4];
/// The process that is killed while it waits.
const DIES: usize = WAITERS[1];
/// The process that joins at the end.
const JOINS: usize = 5;
/// How many processes are killed: one that waits, the holder, and whoever takes over.
const KILLS: usize = 3;

/// A holds the lock and four wait for it. One of them is killed, then A, and then whoever takes over. At that moment another process joins.
pub(super) fn script(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    let wait = 3 * until_recovered(trial, claims);
    // A waiter has its place in line by then, as far as the lab can tell, and A's lease still runs when it is killed.
    let place = (trial.ttl() / 12).min(PAUSE);
    let turn = || {
        [
            Act::Acquire { key, wait },
            Act::KillIfBelow(KILLS),
            read(key),
            // Long enough for two that got the lock to meet.
            Act::Work(chance.about(place)),
            write(key),
            Act::Release { key },
        ]
    };
    let works = Act::Work(chance.about(place));
    let mut acts = Sequence::of(JOINS + 1);
    // The first one comes after A has the lock and has read, the next one a little later than the one before it.
    let mut in_line = acts.add(A, [at_once(key), read(key)]);
    for waiter in WAITERS {
        let rest = Act::Work(chance.about(place));
        in_line = acts.add(waiter, [after(in_line), rest]);
        acts.add(waiter, turn());
    }
    acts.add(A, [after(in_line), works, Act::KillOther(DIES), Act::Kill]);
    acts.add(JOINS, [Act::AfterKills(KILLS)]);
    acts.add(JOINS, turn());
    acts.scripts()
}
