//! The script of `trial reentry`.

use super::sequence::{Milestone, Sequence, after};
use super::{A, Act, B, C, PAUSE, at_once, read, try_once, until_stuck, write};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, Trial};
use crate::protocol::Claims;

/// A takes the lock, and asks for it again while B waits. A lock that is re-entrant is released twice, and C tries to get it in between. When B has
/// the lock, A releases it once more than it has taken it, and C tries again.
///
/// A lock that is not re-entrant tells its grants apart. So A takes it once more when B is done, is asked to release the old hold again, and C tries
/// for the last time.
pub(super) fn script(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let (key, wait) = (FIRST_LOCK, 2 * until_stuck(trial));
    // B has its place in line by then, as far as the lab can tell.
    let place = Act::Work(chance.about(PAUSE));
    let (release, again) = (Act::Release { key }, Act::ReleaseAgain { key });
    let mut acts = Sequence::of(3);
    let has_asked_again = acts.add(A, [at_once(key), read(key), try_once(key)]);
    let asks = acts.add(B, [after(has_asked_again)]);
    let has_read = acts.add(B, [Act::Acquire { key, wait }, read(key)]);
    acts.add(A, [after(asks), place]);
    if claims.reentrant {
        acts.add(A, [release]);
        probe(&mut acts);
        acts.add(A, [write(key), release, after(has_read), again]);
    } else {
        acts.add(A, [write(key), release, after(has_read), again]);
        probe(&mut acts);
        acts.add(A, [again]);
    }
    let has_probed = probe(&mut acts);
    let is_done = acts.add(B, [after(has_probed), write(key), release]);
    if !claims.reentrant {
        let anew = [after(is_done), Act::Acquire { key, wait }, read(key), again];
        acts.add(A, anew);
        probe(&mut acts);
        acts.add(A, [write(key), release]);
    }
    acts.scripts()
}

/// Adds that C tries to get the lock, and that A waits for that. Returns when C has tried.
fn probe(acts: &mut Sequence) -> Milestone {
    let key = FIRST_LOCK;
    let before = acts.milestone_of(A);
    let has_tried = acts.add(
        C,
        [after(before), try_once(key), Act::ReleaseIfHeld { key }],
    );
    acts.add(A, [after(has_tried)]);
    has_tried
}
