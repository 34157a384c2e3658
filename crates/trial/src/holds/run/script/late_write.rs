//! The script of `trial late-write`.

use std::time::Duration;

use super::{A, Act, MARGIN, read, until_stuck, write};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, Trial};

/// A sends its write, and hears nothing of it. It waits until its lease is certainly over, if it has one that ends, and then gives up and releases
/// the lock. When B has written, A's write arrives.
pub(super) fn script(trial: &Trial, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    let beyond = trial.ttl() + MARGIN + chance.between(Duration::ZERO, trial.ttl() / 4);
    vec![
        vec![
            Act::Acquire {
                key,
                wait: Duration::ZERO,
            },
            read(key),
            Act::SendWrite { key },
            Act::Work(beyond),
            Act::Release { key },
        ],
        vec![
            Act::After(A, 3),
            Act::Acquire {
                key,
                wait: 2 * until_stuck(trial),
            },
            read(key),
            write(key),
            Act::AfterAll(A),
            Act::Arrive(A),
            Act::Release { key },
        ],
    ]
}
