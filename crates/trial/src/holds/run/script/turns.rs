//! The script of `trial turns`.

use std::time::Duration;

use super::{Act, read, until_stuck, write};
use crate::holds::run::chance::Chance;
use crate::holds::turns::{LIVES, PROCESSES, TURNS};
use crate::holds::{FIRST_LOCK, Trial};

/// How long a process rests between two turns at most. It is short, so that somebody always waits.
const REST: Duration = Duration::from_millis(4);

/// Each process takes its turns, is killed while it holds nothing, and goes on in its next life.
pub(super) fn script(trial: &Trial, chance: &Chance) -> Vec<Vec<Act>> {
    let (key, wait) = (FIRST_LOCK, 2 * until_stuck(trial));
    let turn = || {
        [
            Act::Acquire { key, wait },
            read(key),
            write(key),
            Act::Release { key },
            Act::Work(chance.between(Duration::ZERO, REST)),
        ]
    };
    let process = || {
        let lives = (0..LIVES).map(|_| (0..TURNS).flat_map(|_| turn()).collect::<Vec<Act>>());
        lives.collect::<Vec<_>>().join(&Act::Restart)
    };
    (0..PROCESSES).map(|_| process()).collect()
}
