//! The script in which the time of day of a process is wrong.

use std::time::Duration;

use super::{A, Act, B, MARGIN, read, try_once, until_stuck, write};
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
pub(super) fn client_clock(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    let step = |action| Act::StepIfHeld { key, action };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for (holders, others) in ROUNDS {
        first.extend(holders.map(Act::Clock));
        first.extend([try_once(key), step(Action::Read)]);
        second.push(Act::After(A, first.len()));
        second.extend(others.map(Act::Clock));
        // A clock that runs fast needs some time to be wrong.
        second.push(Act::Work(
            chance.between(trial.ttl() / 40, trial.ttl() / 20),
        ));
        second.extend([try_once(key), step(Action::Read), step(Action::Write)]);
        first.extend([
            Act::After(B, second.len()),
            step(Action::Write),
            Act::ReleaseIfHeld { key },
        ]);
        first.extend(holders.map(|_| Act::Clock(ClockEvent::Right)));
        second.extend([Act::After(A, first.len()), Act::ReleaseIfHeld { key }]);
        second.extend(others.map(|_| Act::Clock(ClockEvent::Right)));
        first.push(Act::After(B, second.len()));
    }
    if claims.keep_alive && !claims.untimed {
        for _ in 0..LONG_ROUNDS {
            works_long(trial, &mut first, &mut second);
        }
    }
    vec![first, second]
}

/// Adds a round in which A works beyond its lease, which it must renew although its time of day has jumped back. B waits.
fn works_long(trial: &Trial, first: &mut Vec<Act>, second: &mut Vec<Act>) {
    let key = FIRST_LOCK;
    let (read, write, release) = (read(key), write(key), Act::Release { key });
    let long = 2 * trial.ttl() + trial.ttl() / 4;
    let at_once = Act::Acquire {
        key,
        wait: Duration::ZERO,
    };
    first.extend([at_once, read, Act::Clock(ClockEvent::Behind)]);
    second.extend([
        Act::After(A, first.len()),
        Act::Acquire {
            key,
            wait: long + until_stuck(trial) + MARGIN,
        },
        read,
        write,
        release,
    ]);
    first.extend([
        Act::Work(long),
        write,
        release,
        Act::Clock(ClockEvent::Right),
        Act::After(B, second.len()),
    ]);
}
