//! The scripts of `crash`: the holder is killed, or works beyond its lease (`--ttl-edge`).

use std::time::Duration;

use super::sequence::{Sequence, after};
use super::{
    A, Act, B, at_once, before_kill, beyond_renewals, read, until_recovered, until_stuck, write,
};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, Trial};
use crate::protocol::Claims;

/// A is killed while it holds the lock, well within its lease or, if it renews that, after several renewals. B is refused, and waits until it
/// gets the lock.
pub(super) fn script(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let work = until_kill(trial, claims, chance);
    let key = FIRST_LOCK;
    let wait = until_recovered(trial, claims);
    vec![
        vec![
            Act::AcquireStepwise { key },
            read(key),
            Act::Work(work),
            Act::Kill,
        ],
        vec![
            Act::AfterAll(A),
            Act::Try { key },
            Act::Acquire { key, wait },
        ],
    ]
}

/// Returns the scripts for a lock of a session. Such a lock is free as soon as its holder is gone, so it cannot be seen to exclude B after
/// the kill. The script shows that before.
pub(super) fn of_session(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let work = until_kill(trial, claims, chance);
    let key = FIRST_LOCK;
    let wait = until_recovered(trial, claims);
    let mut acts = Sequence::of(2);
    let has_read = acts.add(A, [Act::AcquireStepwise { key }, read(key)]);
    let is_refused = acts.add(B, [after(has_read), Act::Try { key }]);
    acts.add(A, [after(is_refused), Act::Work(work), Act::Kill]);
    acts.add(B, [Act::AfterAll(A), Act::Acquire { key, wait }]);
    acts.scripts()
}

/// Returns how long the holder works before it is killed.
fn until_kill(trial: &Trial, claims: Claims, chance: &Chance) -> Duration {
    if claims.keep_alive {
        beyond_renewals(trial, chance)
    } else {
        before_kill(trial, chance)
    }
}

/// A works beyond its lease, and writes. B waits for the lock meanwhile, reads and writes.
pub(super) fn ttl_edge(trial: &Trial, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    // Well within the lease, so that B has to wait.
    let until_asked = chance.between(Duration::ZERO, trial.ttl() / 10);
    let work = Duration::from_millis(trial.work_ms);
    let wait = work + until_stuck(trial);
    let (read, write, release) = (read(key), write(key), Act::Release { key });
    let mut acts = Sequence::of(2);
    let has_read = acts.add(A, [at_once(key), read]);
    acts.add(A, [Act::Work(work), write, release]);
    acts.add(B, [after(has_read), Act::Work(until_asked)]);
    acts.add(B, [Act::Acquire { key, wait }, read, write, release]);
    acts.scripts()
}
