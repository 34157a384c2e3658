//! The script in which a process is paused at every step: at each reply of its store in turn.

use std::time::Duration;

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
pub(super) fn pause_at_step(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    let step = |action| Act::StepIfHeld { key, action };
    let release = Act::ReleaseIfHeld { key };
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
    let (mut first, mut second, mut third) = (Vec::new(), Vec::new(), Vec::new());
    for number in 1..=STEPS_MAX {
        let (of_a, of_b, of_c) = (first.len(), second.len(), third.len());
        first.extend([
            // Another lock, so that its connections are open.
            try_once(SECOND_LOCK),
            Act::ReleaseIfHeld { key: SECOND_LOCK },
            Act::Road(RoadEvent::HoldReply(number)),
            try_once(key),
            step(Action::Read),
            Act::Work(trial.ttl().mul_f64(WORKS)),
            step(Action::Write),
            release,
            Act::Road(RoadEvent::Reconnect),
            Act::After(B, of_b + 13),
            Act::EndIfFinished(B),
        ]);
        second.extend([
            Act::AfterPause(A, of_a + 9),
            Act::EndUnlessPaused(A),
            Act::Work(trial.ttl() + MARGIN + chance.between(Duration::ZERO, trial.ttl() / 10)),
            try_beside_a,
            step(Action::Read),
            Act::Deliver(A),
            Act::AfterNextAnswer(A),
            Act::After(C, of_c + 4),
            step(Action::Write),
            release,
            Act::After(A, of_a + 9),
            until_free,
            release,
        ]);
        third.extend([
            Act::After(B, of_b + 7),
            Act::EndIfFinished(B),
            try_once(key),
            release,
        ]);
    }
    vec![first, second, third]
}
