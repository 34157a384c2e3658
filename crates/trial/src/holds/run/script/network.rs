//! The scripts in which the lab comes between a process and its store.

use std::time::Duration;

use super::{
    A, Act, B, MARGIN, RoadEvent, before_kill, read, takes_over, try_once, until_recovered,
    until_stuck, write,
};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, SECOND_LOCK, Trial};
use crate::protocol::{Action, Claims};

/// A is cut off between its read and its write. If B gets the lock meanwhile, B is done before A writes, so that A's write is certainly a late one.
/// A is still cut off then: nobody but its own clock can tell it that its lease is over.
pub(super) fn cut(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let (key, wait) = (FIRST_LOCK, 2 * until_stuck(trial));
    let (read, write, release) = (read(key), write(key), Act::Release { key });
    let at_once = Act::Acquire {
        key,
        wait: Duration::ZERO,
    };
    let beyond = trial.ttl() + MARGIN + chance.between(Duration::ZERO, trial.ttl() / 4);
    vec![
        vec![
            at_once,
            read,
            Act::Road(RoadEvent::CutOff),
            Act::Work(trial.length().unwrap_or(beyond)),
            until_overtaken(trial, claims),
            // A lock that asks its store before it lets A write gets its answer, if late.
            Act::ReconnectWithin(trial.ttl() / 2),
            write,
            Act::Road(RoadEvent::Reconnect),
            release,
        ],
        takes_over(key, wait),
    ]
}

/// A's machine vanishes from the network while A holds the lock, and A dies with it. B is refused, and waits for as long as a dead holder may keep
/// its lock.
pub(super) fn vanish(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    let wait = Duration::ZERO;
    vec![
        vec![
            Act::Acquire { key, wait },
            read(key),
            Act::Work(before_kill(trial, chance)),
            Act::Road(RoadEvent::Vanish),
            Act::Kill,
        ],
        vec![
            Act::AfterAll(A),
            Act::Try { key },
            Act::Acquire {
                key,
                wait: until_recovered(trial, claims),
            },
        ],
    ]
}

/// How much of the lease is over when A learns of its grant.
const LEARNED_AFTER: f64 = 0.6;

/// Which part of the lease each reply takes in the rehearsal.
const REHEARSED: u32 = 10;

/// A takes another lock first, so that its connections are open and the lab knows how many replies a grant waits for. Then the replies come so late
/// that more than half of the lease is over when A learns of its grant. A writes when B has taken over.
pub(super) fn slow_replies(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let (key, wait) = (FIRST_LOCK, 2 * until_stuck(trial));
    let (read, write, release) = (read(key), write(key), Act::Release { key });
    let at_once = |key| Act::Acquire {
        key,
        wait: Duration::ZERO,
    };
    let learned = trial.length();
    let learned = learned.unwrap_or_else(|| trial.ttl().mul_f64(LEARNED_AFTER));
    vec![
        vec![
            at_once(SECOND_LOCK),
            Act::Release { key: SECOND_LOCK },
            // Once more: the first time, scripts are loaded and connections opened.
            Act::Road(RoadEvent::Rehearse(trial.ttl() / REHEARSED)),
            at_once(SECOND_LOCK),
            Act::Road(RoadEvent::Reconnect),
            Act::Release { key: SECOND_LOCK },
            Act::Road(RoadEvent::Slow(learned)),
            at_once(key),
            read,
            // Well before the end of the lease, so that B gets the lock only when it ends.
            Act::Work(chance.between(Duration::ZERO, trial.ttl() / 10)),
            until_overtaken(trial, claims),
            write,
            Act::Road(RoadEvent::Reconnect),
            release,
        ],
        vec![
            Act::AfterAnswer(A),
            Act::Acquire { key, wait },
            read,
            write,
            release,
        ],
    ]
}

/// The number of replies that are lost, one in each round. A lock that needs more for a grant is tried with the first of them.
const REPLIES_MAX: u64 = 8;

/// In each round, one reply more passes before one is lost: the first, the second, and so on, until a grant needs no further one.
///
/// A's request meets a free lock first. The lock must come free again: B waits for it. Then A's request meets B's hold: whatever A takes
/// the lost reply for, it must not be a grant.
pub(super) fn lost_reply(trial: &Trial, chance: &Chance) -> Vec<Vec<Act>> {
    let (key, wait) = (FIRST_LOCK, until_stuck(trial));
    let step = |action| Act::StepIfHeld { key, action };
    let at_once = Act::Acquire {
        key,
        wait: Duration::ZERO,
    };
    // Another lock, so that the connection is open again and only the replies to the request itself are counted.
    let warm = try_once(SECOND_LOCK);
    let cool = Act::ReleaseIfHeld { key: SECOND_LOCK };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for number in 1..=REPLIES_MAX {
        let (before, other) = (first.len(), second.len());
        first.extend([
            warm,
            cool,
            Act::Road(RoadEvent::LoseReply(number)),
            try_once(key),
            Act::Road(RoadEvent::Reconnect),
            Act::ReleaseIfHeld { key },
            Act::EndUnlessMet,
            warm,
            cool,
            Act::After(B, other + 6),
            Act::EndIfFinished(B),
            Act::Road(RoadEvent::LoseReply(number)),
            try_once(key),
            Act::Road(RoadEvent::Reconnect),
            step(Action::Read),
            step(Action::Write),
            Act::ReleaseIfHeld { key },
            Act::After(B, other + 10),
        ]);
        second.extend([
            Act::After(A, before + 7),
            Act::EndIfFinished(A),
            Act::Acquire { key, wait },
            Act::Release { key },
            // A fresh lease, which certainly runs while A asks.
            at_once,
            read(key),
            Act::After(A, before + 17),
            Act::Work(chance.between(Duration::ZERO, trial.ttl() / 20)),
            write(key),
            Act::Release { key },
        ]);
    }
    vec![first, second]
}

/// Returns the act with which A waits for B to take over. Without a lease or a session that could end, nobody else gets the lock while its
/// holder is away, so the script only waits until B has asked.
fn until_overtaken(trial: &Trial, claims: Claims) -> Act {
    // In a search, the length of the fault alone decides.
    if trial.length().is_some() {
        return Act::Work(Duration::ZERO);
    }
    if claims.untimed && !claims.ends_with_holder() {
        Act::After(B, 1)
    } else {
        Act::Meet(B, 5, 2 * trial.ttl())
    }
}
