//! The script of `trial short-stock`, in which a purchase finds nothing left.

use std::time::Duration;

use super::{A, Act, PAUSE, until_stuck};
use crate::holds::Trial;
use crate::holds::run::chance::Chance;

/// A gets the lock, and finds nothing to buy. Then a unit arrives, and B tries to buy it.
pub(super) fn script(trial: &Trial, chance: &Chance) -> Vec<Vec<Act>> {
    let (at_once, wait) = (Duration::ZERO, until_stuck(trial));
    vec![
        vec![Act::Buy { wait: at_once }],
        vec![
            Act::AfterAll(A),
            Act::Restock(1),
            Act::Work(chance.between(Duration::ZERO, PAUSE.min(trial.ttl() / 10))),
            Act::Buy { wait: at_once },
            Act::Buy { wait },
        ],
    ]
}
