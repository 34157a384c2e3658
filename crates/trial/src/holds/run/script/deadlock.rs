//! The scripts of `deadlock`: two processes take two locks in opposite order, or in the same (`--sorted`).

use std::time::Duration;

use super::sequence::{Sequence, after, meet};
use super::{A, Act, B, PAUSE, at_once, read, until_stuck, write};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, SECOND_LOCK, Trial};
use crate::protocol::Claims;

/// A database checks for deadlocks only after a while (Postgres: one second by default).
const UNTIL_DETECTED: Duration = Duration::from_secs(5);

/// A and B take one lock each, and then wait for the lock of the other.
pub(super) fn script(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    // The cycle closes with the second request and ends with the first refusal. The pauses before the requests differ by up to `PAUSE`.
    let mut wait = until_stuck(trial) + PAUSE;
    if claims.belongs_to_session() {
        wait = wait.max(UNTIL_DETECTED);
    }
    let pauses = [A, B].map(|_| {
        [
            Act::Work(chance.about(PAUSE)),
            Act::Work(chance.about(PAUSE)),
        ]
    });
    let keys = [(FIRST_LOCK, SECOND_LOCK), (SECOND_LOCK, FIRST_LOCK)];
    let other = |process| if process == A { B } else { A };
    let mut acts = Sequence::of(2);
    let has_one = [A, B].map(|process| {
        let (key, _) = keys[process];
        acts.add(process, [at_once(key)])
    });
    let has_both = [A, B].map(|process| {
        let (_, key) = keys[process];
        let [pause, _] = pauses[process];
        acts.add(process, [after(has_one[other(process)]), pause]);
        // The number checks the fence of only one of the two locks; it could not compare fences of different locks.
        acts.add(process, [Act::Acquire { key, wait }, read(FIRST_LOCK)])
    });
    for process in [A, B] {
        let (mine, theirs) = keys[process];
        let [_, pause] = pauses[process];
        // The question is whether both get both locks. If so, they meet here.
        let both = meet(has_both[other(process)], trial.ttl() / 2);
        acts.add(process, [pause, both, write(FIRST_LOCK)]);
        acts.add(process, [theirs, mine].map(|key| Act::Release { key }));
    }
    acts.scripts()
}

/// A and B take both locks in the same order.
pub(super) fn sorted(trial: &Trial, chance: &Chance) -> Vec<Vec<Act>> {
    let wait = until_stuck(trial);
    let rest = || {
        [
            Act::Work(chance.about(PAUSE)),
            Act::Acquire {
                key: SECOND_LOCK,
                wait,
            },
            read(FIRST_LOCK),
            Act::Work(chance.about(PAUSE)),
            write(FIRST_LOCK),
            Act::Release { key: SECOND_LOCK },
            Act::Release { key: FIRST_LOCK },
        ]
    };
    let (of_b, of_a) = (rest(), rest());
    let key = FIRST_LOCK;
    let mut acts = Sequence::of(2);
    let has_one = acts.add(A, [at_once(FIRST_LOCK)]);
    acts.add(A, of_a);
    acts.add(B, [after(has_one), Act::Acquire { key, wait }]);
    acts.add(B, of_b);
    acts.scripts()
}
