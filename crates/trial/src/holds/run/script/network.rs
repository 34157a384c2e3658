//! The scripts in which the lab comes between a process and its store.

use std::time::Duration;

use super::{A, Act, B, MARGIN, RoadEvent, read, until_stuck, write};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST, Trial};
use crate::protocol::Claims;

/// A is cut off between its read and its write. If B gets the lock meanwhile, B is done before A writes, so that A's write is certainly a
/// late one. A is still cut off then: nobody but its own clock can tell it that its lease is over.
pub(super) fn cut(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let (key, wait) = (FIRST, 2 * until_stuck(trial));
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
            Act::Work(beyond),
            until_overtaken(trial, claims),
            // A lock that asks its store before it lets A write gets its answer, if late.
            Act::ReconnectWithin(trial.ttl() / 2),
            write,
            Act::Road(RoadEvent::Reconnect),
            release,
        ],
        vec![
            Act::After(A, 3),
            Act::Acquire { key, wait },
            read,
            write,
            release,
        ],
    ]
}

/// Without a lease or a session that could end, nobody else gets the lock while its holder is away, so the script only waits until B
/// has asked.
fn until_overtaken(trial: &Trial, claims: Claims) -> Act {
    if claims.untimed && !claims.ends_with_holder() {
        Act::After(B, 1)
    } else {
        Act::Meet(B, 5, 2 * trial.ttl())
    }
}
