//! The script of `trial same-pid`.

use super::sequence::{Sequence, after};
use super::{A, Act, B, C, PAUSE, at_once, read, until_recovered, write};
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
    let at_kill = 2 * trial.ttl() / 5;
    let until_kill = Act::Work(chance.between(at_kill - PAUSE.min(at_kill), at_kill));
    let acquire = |key| Act::Acquire { key, wait };
    let mut acts = Sequence::of(3);
    let has_lock = acts.add(A, [at_once(key)]);
    let lease_is_over = acts.add(C, [after(has_lock), Act::Work(trial.ttl() + PAUSE)]);
    acts.add(A, [read(key), at_once(left), until_kill, Act::Restart]);
    let has_read_again = acts.add(A, [acquire(key), read(key)]);
    acts.add(A, [after(lease_is_over), Act::Work(trial.ttl() / 10)]);
    acts.add(A, [write(key), Act::Release { key }]);
    // Nobody gets it if A did not.
    acts.add(B, [after(has_read_again), Act::EndIfFinished(A)]);
    let longer = trial.ttl() + wait;
    acts.add(B, [Act::Acquire { key, wait: longer }, read(key)]);
    acts.add(B, [write(key), Act::Release { key }]);
    acts.add(C, [Act::AfterAll(A), Act::AfterAll(B), acquire(left)]);
    acts.add(C, [read(left), write(left), Act::Release { key: left }]);
    acts.scripts()
}
