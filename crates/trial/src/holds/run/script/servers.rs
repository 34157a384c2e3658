//! The scripts in which a server misbehaves and lives on.

use std::time::Duration;

use super::sequence::{Milestone, Sequence, after, meet};
use super::{
    A, Act, B, MARGIN, MEETING, PAUSE, RoadEvent, ServerEvent, at_once, before_kill, read,
    try_once, until_recovered, until_stuck, write,
};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, SECOND_LOCK, Trial};
use crate::protocol::{Action, Claims};

/// B, which was refused before, asks again when the server may have ended A's lease. If B gets the lock, A writes right after it.
///
/// Nobody tells A of the loss, and a lock that renews its lease does not ask so soon. If B is refused, A writes after a while.
pub(super) fn lost_lock(trial: &Trial, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    let (read, write, release) = (read(key), write(key), Act::Release { key });
    let (meeting, wait) = (trial.ttl() / 8, until_stuck(trial));
    let work = Act::Work(chance.about(PAUSE) / 2);
    let mut acts = Sequence::of(2);
    let may_be_lost = misbehaves(&mut acts);
    acts.add(A, [after(may_be_lost)]);
    let b_has_written = acts.add(B, [Act::Acquire { key, wait }, read, work, write]);
    let a_has_written = acts.add(A, [meet(b_has_written, meeting), write]);
    acts.add(A, [release]);
    // Both processes still hold the lock when the second one has written, so that the overlap is visible.
    acts.add(B, [meet(a_has_written, meeting), Act::Work(PAUSE), release]);
    acts.scripts()
}

/// Adds that A takes the lock, B is refused, and the server misbehaves. Returns when it has done so.
fn misbehaves(acts: &mut Sequence) -> Milestone {
    let key = FIRST_LOCK;
    let has_read = acts.add(A, [at_once(key), read(key)]);
    let misbehave = Act::Servers(ServerEvent::Misbehave);
    acts.add(B, [after(has_read), Act::Try { key }, misbehave])
}

/// The lab takes A's lock away, and B, which was refused before, gets it.
///
/// A lock that claims nothing writes right after that. One that claims to tell a loss has as long as it claims, and some slack: only then is A
/// asked to write, and once more when B has released the lock and A may have got it back behind its own back.
pub(super) fn taken_away(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let Some(bound_ms) = claims.tells_loss_ms else {
        return lost_lock(trial, chance);
    };
    let key = FIRST_LOCK;
    let bound = Duration::from_millis(bound_ms).min(LONGEST_BOUND);
    let slack = (bound / 2).max(Duration::from_secs(1));
    let step = Act::StepIfHeld {
        key,
        action: Action::Write,
    };
    let wait = until_stuck(trial);
    let work = Act::Work(chance.about(PAUSE) / 2);
    let mut acts = Sequence::of(2);
    let is_taken_away = misbehaves(&mut acts);
    let has_lock = acts.add(B, [Act::Acquire { key, wait }]);
    acts.add(A, [after(is_taken_away), meet(has_lock, trial.ttl())]);
    let has_written = acts.add(A, [Act::Work(bound + slack + MARGIN), step]);
    acts.add(B, [read(key), work, write(key)]);
    let is_done = acts.add(B, [after(has_written), Act::Release { key }]);
    acts.add(A, [after(is_done), Act::Work(trial.ttl())]);
    acts.add(A, [step, Act::ReleaseIfHeld { key }]);
    acts.scripts()
}

/// A copy of the server takes over while A holds the lock. A stays with the old primary, and B moves on to the new one.
///
/// A lock that claims to last longer than its lease has as long as it claims to tell a loss, otherwise a lease, and some slack: only then is A
/// asked to write. It does not release the lock, because nobody confirms that any more.
pub(super) fn deposed(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    let bound = claims.tells_loss_ms.map(Duration::from_millis);
    let bound = bound.unwrap_or(trial.ttl()).min(LONGEST_BOUND);
    let slack = (bound / 2).max(Duration::from_secs(1));
    let wait = until_stuck(trial) + trial.ttl();
    let lasts = claims.keep_alive || claims.untimed;
    let is_covered = lasts || claims.fencing || claims.tells_loss_ms.is_some();
    let (rests, works) = (chance.about(PAUSE), chance.about(PAUSE) / 2);
    let mut acts = Sequence::of(2);
    let has_read = acts.add(A, [at_once(key), read(key)]);
    let is_refused = acts.add(B, [after(has_read), Act::Try { key }]);
    acts.add(A, [after(is_refused), Act::Road(RoadEvent::StayAtFirst)]);
    let is_deposed = acts.add(A, [Act::Servers(ServerEvent::Misbehave)]);
    acts.add(B, [after(is_deposed), Act::Road(RoadEvent::MoveOn)]);
    acts.add(B, [Act::Work(rests)]);
    // Another lock, so that its connection is open again.
    let other = SECOND_LOCK;
    acts.add(B, [try_once(other), Act::ReleaseIfHeld { key: other }]);
    acts.add(B, [Act::Acquire { key, wait }, read(key)]);
    let has_written = acts.add(B, [Act::Work(works), write(key)]);
    acts.add(A, [meet(has_written, wait + MEETING)]);
    if is_covered {
        let action = Action::Write;
        acts.add(A, [Act::Work(bound + slack + MARGIN)]);
        acts.add(A, [Act::StepIfHeld { key, action }]);
    }
    acts.add(B, [Act::AfterAll(A), Act::ReleaseIfHeld { key }]);
    acts.scripts()
}

/// No loss is waited for longer than this, whatever a lock claims.
const LONGEST_BOUND: Duration = Duration::from_secs(60);

/// The clock of the server jumps back while A holds the lock. Then A dies, and B waits as long as a dead holder may keep it.
pub(super) fn clock_back(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    let work = before_kill(trial, chance);
    let wait = until_recovered(trial, claims);
    let mut acts = Sequence::of(2);
    let has_jumped = misbehaves(&mut acts);
    acts.add(A, [after(has_jumped), Act::Work(work / 4), Act::Kill]);
    // Whatever the answer is, the lab looks at the store.
    acts.add(B, [Act::AfterAll(A), Act::Acquire { key, wait }]);
    acts.scripts()
}
