//! The script of `trial order`.

use std::time::Duration;

use super::sequence::{Sequence, after};
use super::{A, Act, B, C, D, at_once, read, try_once, until_stuck, write};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, Trial};
use crate::protocol::Claims;

/// How often three processes wait for A. A lock that serves them in any order passes one round in six.
const ROUNDS: usize = 4;
/// How much later than the one before it each process asks. It has its place by then.
const GAP: Duration = Duration::from_millis(400);

/// A holds the lock, and three processes ask for it, one well after the other, each time in another order. Each tries once before it waits, which
/// shows that it is awake and how soon it is answered.
pub(super) fn script(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    if !claims.fair {
        let once = vec![at_once(key), Act::Release { key }];
        return vec![once, Vec::new(), Vec::new(), Vec::new()];
    }
    let wait = until_stuck(trial);
    let mut waiters = [B, C, D];
    let mut acts = Sequence::of(4);
    for round in 0..ROUNDS {
        acts.add(A, [at_once(key), read(key)]);
        let mut in_line = acts.milestone_of(A);
        for waiter in waiters {
            let gap = Act::Work(GAP + chance.between(Duration::ZERO, GAP / 8));
            let has_tried = [
                after(in_line),
                gap,
                try_once(key),
                Act::ReleaseIfHeld { key },
            ];
            in_line = acts.add(waiter, has_tried);
            let turn = [read(key), write(key), Act::Release { key }];
            acts.add(waiter, [Act::Acquire { key, wait }]);
            acts.add(waiter, turn);
        }
        acts.add(A, [after(in_line), Act::Work(GAP), write(key)]);
        acts.add(A, [Act::Release { key }]);
        for waiter in waiters {
            acts.add(A, [after(acts.milestone_of(waiter))]);
        }
        waiters.rotate_left(1 + round % 2);
    }
    acts.scripts()
}
