//! The script in which the leader of the servers dies again and again while locks are held: `leader-deaths`.

use std::time::Duration;

use super::sequence::{Sequence, after};
use super::{
    A, Act, B, C, ServerEvent, at_once, read, try_once, until_recovered, until_stuck, write,
};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, SECOND_LOCK, Trial};
use crate::protocol::{Action, Claims};

/// How often the leader dies.
const DEATHS: usize = 3;

/// A holds a lock, C dies with another one, and then the leader dies several times. B asks for A's lock after each election, and waits for C's
/// lock at the end.
///
/// A lock that claims to last is A's until C's is free: a lease that nobody renewed would be over by then, like C's.
pub(super) fn script(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let (key, other) = (FIRST_LOCK, SECOND_LOCK);
    let (release, wait) = (Act::Release { key }, until_recovered(trial, claims));
    let lasts = claims.keep_alive || claims.untimed;
    let mut acts = Sequence::of(3);
    let has_read = acts.add(A, [at_once(key), read(key)]);
    acts.add(C, [after(has_read), at_once(other), Act::Kill]);
    acts.add(B, [Act::AfterAll(C)]);
    asks(&mut acts);
    for _ in 0..DEATHS {
        let [dies, again] = [ServerEvent::Kill, ServerEvent::ServeAgain].map(Act::Servers);
        let pause = Act::Work(chance.between(Duration::ZERO, trial.ttl() / 40));
        acts.add(B, [dies, again, pause]);
        asks(&mut acts);
    }
    let has_asked = acts.milestone_of(B);
    acts.add(B, [Act::Acquire { key: other, wait }]);
    acts.add(B, [Act::Release { key: other }]);
    let until = if lasts {
        asks(&mut acts);
        acts.milestone_of(B)
    } else {
        has_asked
    };
    acts.add(A, [after(until), write(key), release]);
    let wait = until_stuck(trial);
    acts.add(B, [Act::AfterAll(A), Act::Acquire { key, wait }]);
    acts.add(B, [read(key), write(key), release]);
    acts.scripts()
}

/// B asks for A's lock. If it is granted, which it should not be, B uses it.
fn asks(acts: &mut Sequence) {
    let key = FIRST_LOCK;
    let step = |action| Act::StepIfHeld { key, action };
    let (reads, writes) = (step(Action::Read), step(Action::Write));
    acts.add(
        B,
        [try_once(key), reads, writes, Act::ReleaseIfHeld { key }],
    );
}
