//! The scripts in which the store fails and comes back: `failover`, `restart-empty` and `restart-behind`.

use std::time::Duration;

use super::sequence::{Sequence, after, meet};
use super::{A, Act, B, MEETING, PAUSE, ServerEvent, at_once, read, until_stuck, write};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, SECOND_LOCK, Trial};
use crate::store::redis::IDLE_CONNECTION;

/// A holds the lock while the store fails and comes back. B, which was refused before, asks again.
pub(super) fn script(trial: &Trial, chance: &Chance) -> Vec<Vec<Act>> {
    around_failure(
        trial,
        chance,
        Sequence::of(2),
        Before::Refused,
        until_stuck(trial),
    )
}

/// The same, but B asks for the first time when the store is back, so it has seen nothing of what the store had granted before.
pub(super) fn unasked(trial: &Trial, chance: &Chance) -> Vec<Vec<Act>> {
    around_failure(
        trial,
        chance,
        Sequence::of(2),
        Before::Silent,
        until_stuck(trial),
    )
}

/// What B has done before the store fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// It has asked, and was refused.
    Refused,
    /// Nothing.
    Silent,
}

/// Returns the scripts of `failover` for a lock that claims to survive it. A shows first that it is granted a lock while the replica listens.
/// Then the same happens as for any other lock, and a lock that keeps its word refuses A while the replica is cut off.
///
/// B waits for longer than A holds the lock, but not for so long that a refusal would count as a lock that nobody can take: a lock that grants
/// nothing without a replica is not to blame.
pub(super) fn survival(trial: &Trial, chance: &Chance) -> Vec<Vec<Act>> {
    let key = SECOND_LOCK;
    let mut acts = Sequence::of(2);
    acts.add(A, [at_once(key), Act::Release { key }]);
    around_failure(trial, chance, acts, Before::Refused, 3 * trial.ttl() / 4)
}

/// Returns the scripts that begin with these acts. B waits for so long when the store is back.
///
/// A works until B has written, and a little longer. That is enough time for a lock that is notified of the loss to report it,
/// but not for one that only renews. If B is refused, A works until B has waited for a while.
fn around_failure(
    trial: &Trial,
    chance: &Chance,
    mut acts: Sequence,
    before: Before,
    wait: Duration,
) -> Vec<Vec<Act>> {
    let (key, hearing) = (FIRST_LOCK, trial.ttl() / 5);
    let (read, write, release) = (read(key), write(key), Act::Release { key });
    let meeting = MEETING.min(trial.ttl() / 4);
    let a_has_read = acts.add(A, [Act::Servers(ServerEvent::CutOff), at_once(key), read]);
    acts.add(B, [after(a_has_read)]);
    if before == Before::Refused {
        acts.add(B, [Act::Try { key }]);
    }
    let is_back = acts.add(
        B,
        [
            Act::Work(2 * IDLE_CONNECTION),
            Act::Servers(ServerEvent::Kill),
            Act::Servers(ServerEvent::ServeAgain),
        ],
    );
    let work = Act::Work(chance.about(PAUSE));
    let b_has_written = acts.add(B, [Act::Acquire { key, wait }, read, work, write]);
    acts.add(A, [after(is_back), meet(b_has_written, meeting)]);
    let a_has_written = acts.add(A, [Act::Work(hearing), write]);
    acts.add(A, [release]);
    // Both processes still hold the lock when the second one has written, so that the overlap is visible.
    acts.add(B, [meet(a_has_written, meeting), Act::Work(PAUSE), release]);
    acts.scripts()
}
