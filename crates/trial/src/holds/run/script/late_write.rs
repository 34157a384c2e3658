//! The script of `trial late-write`.

use std::time::Duration;

use super::sequence::{Sequence, after};
use super::{A, Act, B, MARGIN, at_once, read, until_stuck, write};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, Trial};

/// A sends its write, and hears nothing of it. It waits until its lease is certainly over, if it has one that ends, and then gives up and releases
/// the lock. When B has written, A's write arrives.
pub(super) fn script(trial: &Trial, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    let beyond = trial.ttl() + MARGIN + chance.between(Duration::ZERO, trial.ttl() / 4);
    let (wait, release) = (2 * until_stuck(trial), Act::Release { key });
    let mut acts = Sequence::of(2);
    let is_sent = acts.add(A, [at_once(key), read(key), Act::SendWrite { key }]);
    acts.add(A, [Act::Work(beyond), release]);
    acts.add(B, [after(is_sent), Act::Acquire { key, wait }]);
    acts.add(B, [read(key), write(key)]);
    acts.add(B, [Act::AfterAll(A), Act::Arrive(A), release]);
    acts.scripts()
}
