//! The script of `trial lost-release`, and the round that it shares with `store-errors`, in which releases meet errors.

use std::time::Duration;

use super::sequence::{Sequence, after, after_met};
use super::{A, Act, B, C, MARGIN, RoadEvent, at_once, read, try_once, until_stuck, write};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, Trial};
use crate::protocol::Action;

const KEY: &str = FIRST_LOCK;

/// How many replies to a release are lost, one in each round. A round in which none is lost is an ordinary one.
const REPLIES_MAX: u64 = 3;

/// Adds a round in which this happens on A's road when A releases the lock. B asks for the lock at once and, as long as it is refused, again and
/// again for half of a lease. At last it waits.
pub(super) fn round(trial: &Trial, fault: RoadEvent, acts: &mut Sequence) {
    let time = trial.ttl() / 4 + MARGIN;
    let again = |wait| Act::TryUnlessHeld { key: KEY, wait };
    let pause = Act::WorkUnlessHeld { key: KEY, time };
    let heal = Act::Road(RoadEvent::Reconnect);
    acts.add(A, [try_once(KEY), step(Action::Read), step(Action::Write)]);
    let has_released = acts.add(A, [Act::Road(fault), RELEASE, heal]);
    acts.add(B, [after(has_released), try_once(KEY)]);
    acts.add(B, [pause, again(Duration::ZERO), pause]);
    acts.add(B, [again(Duration::ZERO), again(until_stuck(trial))]);
    let is_done = acts.add(B, [RELEASE]);
    acts.add(A, [after(is_done), Act::EndIfFinished(B)]);
}

/// First, replies to A's releases are lost with their connections: the lock must come free, and A's answer must be true. Then a reply is held back
/// until B has the lock, and lost only then: whatever A does about it, B must keep its lock.
pub(super) fn script(trial: &Trial, chance: &Chance) -> Vec<Vec<Act>> {
    let mut acts = Sequence::of(3);
    let faults = (1..=REPLIES_MAX).map(RoadEvent::LoseReply);
    for fault in [RoadEvent::Reconnect].into_iter().chain(faults) {
        round(trial, fault, &mut acts);
    }
    // The first once more: on a busy machine, A may give up before B has the lock.
    for number in (1..=REPLIES_MAX).chain([1]) {
        withheld(trial, number, &mut acts, chance);
    }
    acts.scripts()
}

/// Adds a round in which this reply to A's release is lost when B has the lock and C was refused it. C tries again as soon as A has answered,
/// and once more a little later.
fn withheld(trial: &Trial, number: u64, acts: &mut Sequence, chance: &Chance) {
    let wait = until_stuck(trial);
    let pause = chance.between(trial.ttl() / 20, trial.ttl() / 10);
    let withhold = Act::Road(RoadEvent::WithholdReply(number));
    acts.add(A, [try_once(KEY), step(Action::Read), step(Action::Write)]);
    // Nobody waits for a reply for ever, whatever becomes of B.
    let until = Act::ReconnectWithin(wait + 2 * trial.ttl());
    let is_releasing = acts.add(A, [until, withhold]);
    let has_answered = acts.add(A, [RELEASE]);
    acts.add(B, [after_met(is_releasing, has_answered)]);
    acts.add(
        B,
        [Act::Acquire { key: KEY, wait }, Act::Release { key: KEY }],
    );
    // A fresh lease, which certainly runs until C has tried for the last time.
    let has_lock = acts.add(B, [at_once(KEY), read(KEY)]);
    acts.add(C, [after(has_lock), Act::EndIfFinished(B)]);
    let is_kept_out = acts.add(C, [try_once(KEY), RELEASE]);
    acts.add(B, [after(is_kept_out), Act::LoseWithheld(A)]);
    let may_be_tried = acts.add(B, [after(has_answered)]);
    acts.add(C, [after(may_be_tried), Act::EndIfFinished(B)]);
    acts.add(C, [try_once(KEY), RELEASE, Act::Work(pause)]);
    let has_tried = acts.add(C, [try_once(KEY), RELEASE]);
    let is_done = acts.add(B, [after(has_tried), write(KEY), RELEASE]);
    acts.add(A, [Act::Road(RoadEvent::Reconnect)]);
    acts.add(A, [after(is_done), Act::EndIfFinished(B)]);
}

const RELEASE: Act = Act::ReleaseIfHeld { key: KEY };

const fn step(action: Action) -> Act {
    Act::StepIfHeld { key: KEY, action }
}
