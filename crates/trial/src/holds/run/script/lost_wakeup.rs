//! The script of `trial lost-wakeup`.

use super::sequence::{Sequence, after};
use super::{A, Act, B, MARGIN, PAUSE, at_once, read, until_stuck, write};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, Trial};
use crate::protocol::Claims;

/// A releases the lock while B is about to wait for it.
pub(super) fn script(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    // A grant that A's lock did not prevent must arrive before A releases it, also on a busy machine. The lease must not end meanwhile.
    let longest = (6 * PAUSE).min(trial.ttl() / 3);
    let pause = chance.between(longest / 2, longest);
    let (key, wait) = (FIRST_LOCK, until_stuck(trial) + pause + MARGIN);
    let (read, write, release) = (read(key), write(key), Act::Release { key });
    let mut acts = Sequence::of(2);
    let has_read = acts.add(A, [at_once(key), read]);
    let asks = acts.add(B, [after(has_read)]);
    if claims.looks_before_wait {
        let has_looked = acts.add(B, [Act::AcquirePaused { key, wait }]);
        // A must not act before B has looked. Otherwise A's write could appear anywhere among B's steps in the picture.
        acts.add(A, [after(has_looked), write, release]);
        acts.add(B, [Act::AfterAll(A), Act::Continue]);
    } else {
        acts.add(A, [write, after(asks), Act::Work(pause), release]);
        acts.add(B, [Act::Acquire { key, wait }]);
    }
    acts.add(B, [read, write, release]);
    acts.scripts()
}
