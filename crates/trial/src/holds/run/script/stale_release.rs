//! The script of `trial stale-release`.

use std::time::Duration;

use super::sequence::{Sequence, after};
use super::{A, Act, B, C, MARGIN, at_once, read, until_stuck, write};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, Trial};
use crate::protocol::Claims;

/// A is stopped beyond its lease and releases the lock, which B has by then. C tries to get it from B.
pub(super) fn script(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    let wait = 2 * until_stuck(trial);
    let (read, write, release) = (read(key), write(key), Act::Release { key });
    let beyond = trial.ttl() + MARGIN + chance.between(Duration::ZERO, trial.ttl() / 4);
    let stops_between_steps = claims.looks_before_release;
    let stops = if stops_between_steps {
        Act::ReleaseStepwise { key }
    } else {
        Act::Stop
    };
    let mut acts = Sequence::of(3);
    let is_paused = acts.add(A, [at_once(key), read, write, stops]);
    let asks = acts.add(B, [after(is_paused)]);
    let has_read = acts.add(B, [Act::Acquire { key, wait }, read]);
    // Without a lease, nobody else gets the lock while its holder is paused, so the script does not wait for that.
    let until_b = if claims.untimed { asks } else { has_read };
    acts.add(A, [Act::Work(beyond), after(until_b), Act::Continue]);
    if !stops_between_steps {
        acts.add(A, [release]);
    }
    acts.add(C, [Act::AfterAll(A), after(has_read)]);
    acts.add(C, [at_once(key), read, write, release]);
    acts.add(B, [Act::AfterAll(C), write, release]);
    acts.scripts()
}
