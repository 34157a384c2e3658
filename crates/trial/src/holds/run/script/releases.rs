//! The script in which replies to a release are lost, and the round that it shares with the one in which releases meet errors.

use std::time::Duration;

use super::{A, Act, B, C, MARGIN, RoadEvent, read, try_once, until_stuck, write};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, Trial};
use crate::protocol::Action;

const KEY: &str = FIRST_LOCK;

/// How many replies to a release are lost, one in each round. A round in which none is lost is an ordinary one.
const REPLIES_MAX: u64 = 3;

/// Returns the acts of A and B in a round in which this happens on A's road when A releases the lock, if they have done so many acts before.
/// B asks for the lock at once and, as long as it is refused, again and again for half of a lease. At last it waits.
pub(super) fn round(trial: &Trial, fault: RoadEvent, [of_a, of_b]: [usize; 2]) -> [Vec<Act>; 2] {
    let time = trial.ttl() / 4 + MARGIN;
    let again = |wait| Act::TryUnlessHeld { key: KEY, wait };
    let pause = Act::WorkUnlessHeld { key: KEY, time };
    let first = vec![
        try_once(KEY),
        step(Action::Read),
        step(Action::Write),
        Act::Road(fault),
        RELEASE,
        Act::Road(RoadEvent::Reconnect),
        Act::After(B, of_b + 8),
        Act::EndIfFinished(B),
    ];
    let second = vec![
        Act::After(A, of_a + 6),
        try_once(KEY),
        pause,
        again(Duration::ZERO),
        pause,
        again(Duration::ZERO),
        again(until_stuck(trial)),
        RELEASE,
    ];
    [first, second]
}

/// First, replies to A's releases are lost with their connections: the lock must come free, and A's answer must be true. Then a reply is held back
/// until B has the lock, and lost only then: whatever A does about it, B must keep its lock.
pub(super) fn lost(trial: &Trial, chance: &Chance) -> Vec<Vec<Act>> {
    let mut scripts = [Vec::new(), Vec::new(), Vec::new()];
    let faults = (1..=REPLIES_MAX).map(RoadEvent::LoseReply);
    for fault in [RoadEvent::Reconnect].into_iter().chain(faults) {
        let [first, second] = round(trial, fault, [scripts[A].len(), scripts[B].len()]);
        scripts[A].extend(first);
        scripts[B].extend(second);
    }
    // The first once more: on a busy machine, A may give up before B has the lock.
    for number in (1..=REPLIES_MAX).chain([1]) {
        let before = scripts.each_ref().map(Vec::len);
        let acts = withheld(trial, number, before, chance);
        for (script, acts) in scripts.iter_mut().zip(acts) {
            script.extend(acts);
        }
    }
    scripts.into()
}

/// Returns the acts of a round in which this reply to A's release is lost when B has the lock. C tries as soon as A has answered, and again a
/// little later.
fn withheld(
    trial: &Trial,
    number: u64,
    [of_a, of_b, of_c]: [usize; 3],
    chance: &Chance,
) -> [Vec<Act>; 3] {
    let wait = until_stuck(trial);
    let at_once = Act::Acquire {
        key: KEY,
        wait: Duration::ZERO,
    };
    let pause = chance.between(trial.ttl() / 20, trial.ttl() / 10);
    let first = vec![
        try_once(KEY),
        step(Action::Read),
        step(Action::Write),
        // Nobody waits for a reply for ever, whatever becomes of B.
        Act::ReconnectWithin(wait + 2 * trial.ttl()),
        Act::Road(RoadEvent::WithholdReply(number)),
        RELEASE,
        Act::Road(RoadEvent::Reconnect),
        Act::After(B, of_b + 10),
        Act::EndIfFinished(B),
    ];
    let second = vec![
        Act::AfterMet(A, of_a + 5, of_a + 6),
        Act::Acquire { key: KEY, wait },
        Act::Release { key: KEY },
        // A fresh lease, which certainly runs until C has tried.
        at_once,
        read(KEY),
        Act::LoseWithheld(A),
        Act::After(A, of_a + 6),
        Act::After(C, of_c + 7),
        write(KEY),
        RELEASE,
    ];
    let third = vec![
        Act::After(B, of_b + 7),
        Act::EndIfFinished(B),
        try_once(KEY),
        RELEASE,
        Act::Work(pause),
        try_once(KEY),
        RELEASE,
    ];
    [first, second, third]
}

const RELEASE: Act = Act::ReleaseIfHeld { key: KEY };

const fn step(action: Action) -> Act {
    Act::StepIfHeld { key: KEY, action }
}
