//! The script of `trial lost-wakeup`.

use std::time::Duration;

use super::{A, Act, B, MARGIN, PAUSE, read, until_stuck, write};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, Trial};
use crate::protocol::Claims;

/// A releases the lock while B is about to wait for it.
pub(super) fn lost_wakeup(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    // A grant that A's lock did not prevent must arrive before A releases it, also on a busy machine. The lease must not end meanwhile.
    let longest = (6 * PAUSE).min(trial.ttl() / 3);
    let pause = chance.between(longest / 2, longest);
    let (key, wait) = (FIRST_LOCK, until_stuck(trial) + pause + MARGIN);
    let (read, write, release) = (read(key), write(key), Act::Release { key });
    let at_once = Act::Acquire {
        key,
        wait: Duration::ZERO,
    };
    let mut first = vec![at_once, read];
    let (last, waiting) = if claims.looks_before_wait {
        (
            // A must not act before B has looked. Otherwise A's write could appear anywhere among B's steps in the picture.
            vec![Act::After(B, 2), write, release],
            vec![
                Act::AcquirePaused { key, wait },
                Act::AfterAll(A),
                Act::Continue,
            ],
        )
    } else {
        (
            vec![write, Act::After(B, 1), Act::Work(pause), release],
            vec![Act::Acquire { key, wait }],
        )
    };
    first.extend(last);
    let mut next = vec![Act::After(A, 2)];
    next.extend(waiting);
    next.extend([read, write, release]);
    vec![first, next]
}
