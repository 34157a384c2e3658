//! The script of `trial client-clock`, in which the time of day of a process is wrong.

use super::sequence::{Sequence, after};
use super::{A, Act, B, MARGIN, at_once, read, try_once, until_stuck, write};
use crate::holds::run::chance::Chance;
use crate::holds::run::clocks::ClockEvent;
use crate::holds::{FIRST_LOCK, Trial};
use crate::protocol::{Action, Claims};

/// In which rounds whose time of day is wrong: that of A, which holds the lock, or that of B, which wants it.
const ROUNDS: [(Option<ClockEvent>, Option<ClockEvent>); 4] = [
    (None, None),
    (Some(ClockEvent::Behind), None),
    (None, Some(ClockEvent::Ahead)),
    (None, Some(ClockEvent::Fast)),
];

/// How often A works beyond its lease. What happens once may be the machine.
const LONG_ROUNDS: usize = 2;

/// In each round, A takes the lock and works well within its lease, and B tries to get it meanwhile. Every clock is right in the first one.
///
/// If the lock claims that it renews its lease, A then works beyond it, twice, with a time of day that has jumped back.
pub(super) fn script(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    let step = |action| Act::StepIfHeld { key, action };
    let release = Act::ReleaseIfHeld { key };
    let right = Act::Clock(ClockEvent::Right);
    let mut acts = Sequence::of(2);
    for (holders, others) in ROUNDS {
        acts.add(A, holders.map(Act::Clock));
        let has_read = acts.add(A, [try_once(key), step(Action::Read)]);
        acts.add(B, [after(has_read)]);
        acts.add(B, others.map(Act::Clock));
        // A clock that runs fast needs some time to be wrong.
        let time = chance.between(trial.ttl() / 40, trial.ttl() / 20);
        acts.add(B, [Act::Work(time), try_once(key)]);
        let has_tried = acts.add(B, [step(Action::Read), step(Action::Write)]);
        acts.add(A, [after(has_tried), step(Action::Write), release]);
        let is_done = acts.add(A, holders.map(|_| right));
        acts.add(B, [after(is_done), release]);
        let is_done = acts.add(B, others.map(|_| right));
        acts.add(A, [after(is_done)]);
    }
    if claims.keep_alive && !claims.untimed {
        for _ in 0..LONG_ROUNDS {
            works_long(trial, &mut acts);
        }
    }
    acts.scripts()
}

/// Adds a round in which A works beyond its lease, which it must renew although its time of day has jumped back. B waits.
fn works_long(trial: &Trial, acts: &mut Sequence) {
    let key = FIRST_LOCK;
    let (read, write, release) = (read(key), write(key), Act::Release { key });
    let long = 2 * trial.ttl() + trial.ttl() / 4;
    let wait = long + until_stuck(trial) + MARGIN;
    let is_behind = acts.add(A, [at_once(key), read, Act::Clock(ClockEvent::Behind)]);
    acts.add(B, [after(is_behind), Act::Acquire { key, wait }]);
    let is_done = acts.add(B, [read, write, release]);
    acts.add(A, [Act::Work(long), write, release]);
    acts.add(A, [Act::Clock(ClockEvent::Right), after(is_done)]);
}
