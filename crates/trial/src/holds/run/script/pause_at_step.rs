//! The script of `trial pause-at-step`. A process is paused at every step: at each reply of its store in turn.

use std::time::Duration;

use super::sequence::{Sequence, after, after_pause};
use super::{A, Act, B, C, MARGIN, RoadEvent, try_once, until_stuck};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, SECOND_LOCK, Trial};
use crate::protocol::{Action, Claims};

/// The number of steps at which a process is paused, one in each round. A lock that takes more is tried with the first of them.
const STEPS_MAX: u64 = 12;

/// How much of the lease A works between its read and its write: long enough for a renewal.
const WORKS: f64 = 0.6;

/// In each round, one reply more passes before one is held back and A is stopped: the first, the second, and so on, until A takes the lock, works
/// and releases it without a further one.
///
/// When A's lease is certainly over, B takes the lock. Then A gets the reply, and goes on with what it was doing. As soon as it has
/// answered, C tries: B has the lock, so C must be refused.
pub(super) fn script(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    let step = |action| Act::StepIfHeld { key, action };
    let release = Act::ReleaseIfHeld { key };
    let release_other = Act::ReleaseIfHeld { key: SECOND_LOCK };
    // What is left over from a round before ends by its lease, if it has one.
    let until_free = Act::TryAnyway {
        key,
        wait: until_stuck(trial),
    };
    let try_beside_a = if claims.untimed || claims.expires_after_work {
        try_once(key)
    } else {
        until_free
    };
    let mut acts = Sequence::of(3);
    for number in 1..=STEPS_MAX {
        let beyond = trial.ttl() + MARGIN + chance.between(Duration::ZERO, trial.ttl() / 10);
        // Another lock, so that its connections are open.
        acts.add(A, [try_once(SECOND_LOCK), release_other]);
        acts.add(A, [Act::Road(RoadEvent::HoldReply(number)), try_once(key)]);
        let works = Act::Work(trial.ttl().mul_f64(WORKS));
        acts.add(A, [step(Action::Read), works, step(Action::Write)]);
        let is_done = acts.add(A, [release, Act::Road(RoadEvent::Reconnect)]);
        acts.add(B, [after_pause(is_done), Act::EndUnlessPaused(A)]);
        acts.add(B, [Act::Work(beyond), try_beside_a, step(Action::Read)]);
        let a_goes_on = acts.add(B, [Act::Deliver(A), Act::AfterNextAnswer(A)]);
        acts.add(C, [after(a_goes_on), Act::EndIfFinished(B)]);
        let has_tried = acts.add(C, [try_once(key), release]);
        acts.add(B, [after(has_tried), step(Action::Write), release]);
        let is_over = acts.add(B, [after(is_done), until_free, release]);
        acts.add(A, [after(is_over), Act::EndIfFinished(B)]);
    }
    acts.scripts()
}
