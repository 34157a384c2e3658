//! The scripts in which the lab comes between a process and its store.

use std::time::Duration;

use fencepost_rig::Direction;

use super::sequence::{Sequence, after, meet};
use super::takeover::{takes_over, until_overtaken};
use super::{
    A, Act, B, MARGIN, RoadEvent, at_once, before_kill, read, try_once, until_recovered,
    until_stuck, write,
};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, SECOND_LOCK, Trial};
use crate::protocol::{Action, Claims};

/// A is cut off between its read and its write. If B gets the lock meanwhile, B is done before A writes, so that A's write is certainly a late one.
/// A is still cut off then: nobody but its own clock can tell it that its lease is over.
pub(super) fn cut(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    let beyond = trial.ttl() + MARGIN + chance.between(Duration::ZERO, trial.ttl() / 4);
    let mut acts = Sequence::of(2);
    let is_cut_off = acts.add(A, [at_once(key), read(key), Act::Road(RoadEvent::CutOff)]);
    let b = takes_over(&mut acts, after(is_cut_off), 2 * until_stuck(trial));
    acts.add(A, [Act::Work(trial.length().unwrap_or(beyond))]);
    acts.add(A, [until_overtaken(trial, claims, b.asks, b.is_done)]);
    // A lock that asks its store before it lets A write gets its answer, if late.
    acts.add(A, [Act::ReconnectWithin(trial.ttl() / 2), write(key)]);
    let heal = Act::Road(RoadEvent::Reconnect);
    acts.add(A, [heal, Act::Release { key }]);
    acts.scripts()
}

/// The same, but in one direction only. If B gets the lock sooner than the lease ends, A is asked to write at once, while it may still believe in
/// its lock: whoever hears nothing may have released it.
pub(super) fn cut_one_way(
    trial: &Trial,
    claims: Claims,
    chance: &Chance,
    closed: Direction,
) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    let beyond = trial.ttl() + MARGIN + chance.between(Duration::ZERO, trial.ttl() / 4);
    let cut = Act::Road(RoadEvent::CutOneWay(closed));
    let mut acts = Sequence::of(2);
    let is_cut_off = acts.add(A, [at_once(key), read(key), cut]);
    let b = takes_over(&mut acts, after(is_cut_off), 2 * until_stuck(trial));
    acts.add(A, [meet(b.is_done, beyond)]);
    acts.add(A, [until_overtaken(trial, claims, b.asks, b.is_done)]);
    acts.add(A, [Act::ReconnectWithin(trial.ttl() / 2), write(key)]);
    let heal = Act::Road(RoadEvent::Reconnect);
    acts.add(A, [heal, Act::Release { key }]);
    acts.scripts()
}

/// A's machine vanishes from the network while A holds the lock, and A dies with it. B is refused, and waits for as long as a dead holder may keep
/// its lock.
pub(super) fn vanish(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    vec![
        vec![
            at_once(key),
            read(key),
            Act::Work(before_kill(trial, chance)),
            Act::Road(RoadEvent::Vanish),
            Act::Kill,
        ],
        vec![
            Act::AfterAll(A),
            Act::Try { key },
            Act::Acquire {
                key,
                wait: until_recovered(trial, claims),
            },
        ],
    ]
}

/// How much of the lease is over when A learns of its grant.
const LEARNED_AFTER: f64 = 0.6;

/// Which part of the lease each reply takes in the rehearsal.
const REHEARSED: u32 = 10;

/// A takes another lock first, so that its connections are open and the lab knows how many replies a grant waits for. Then the replies come so late
/// that more than half of the lease is over when A learns of its grant. A writes when B has taken over.
pub(super) fn slow_replies(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    let fast = Act::Road(RoadEvent::Reconnect);
    let (release, release_other) = (Act::Release { key }, Act::Release { key: SECOND_LOCK });
    let learned = trial.length();
    let learned = learned.unwrap_or_else(|| trial.ttl().mul_f64(LEARNED_AFTER));
    // Well before the end of the lease, so that B gets the lock only when it ends.
    let work = Act::Work(chance.between(Duration::ZERO, trial.ttl() / 10));
    let rehearse = Act::Road(RoadEvent::Rehearse(trial.ttl() / REHEARSED));
    let slow = Act::Road(RoadEvent::Slow(learned));
    let mut acts = Sequence::of(2);
    acts.add(A, [at_once(SECOND_LOCK), release_other]);
    // Once more: the first time, scripts are loaded and connections opened.
    acts.add(A, [rehearse, at_once(SECOND_LOCK), fast, release_other]);
    acts.add(A, [slow, at_once(key), read(key), work]);
    let b = takes_over(&mut acts, Act::AfterAnswer(A), 2 * until_stuck(trial));
    acts.add(A, [until_overtaken(trial, claims, b.asks, b.is_done)]);
    acts.add(A, [write(key), fast, release]);
    acts.scripts()
}

/// The number of replies that are lost, one in each round. A lock that needs more for a grant is tried with the first of them.
const REPLIES_MAX: u64 = 8;

/// In each round, one reply more passes before one is lost: the first, the second, and so on, until a grant needs no further one.
///
/// A's request meets a free lock first. The lock must come free again: B waits for it. Then A's request meets B's hold: whatever A takes
/// the lost reply for, it must not be a grant.
pub(super) fn lost_reply(trial: &Trial, chance: &Chance) -> Vec<Vec<Act>> {
    let (key, wait) = (FIRST_LOCK, until_stuck(trial));
    let step = |action| Act::StepIfHeld { key, action };
    let heal = Act::Road(RoadEvent::Reconnect);
    let (release, release_if_held) = (Act::Release { key }, Act::ReleaseIfHeld { key });
    // Another lock, so that the connection is open again and only the replies to the request itself are counted.
    let warm = try_once(SECOND_LOCK);
    let cool = Act::ReleaseIfHeld { key: SECOND_LOCK };
    let mut acts = Sequence::of(2);
    for number in 1..=REPLIES_MAX {
        let lose = Act::Road(RoadEvent::LoseReply(number));
        let work = Act::Work(chance.between(Duration::ZERO, trial.ttl() / 20));
        acts.add(A, [warm, cool, lose, try_once(key), heal]);
        let has_asked = acts.add(A, [release_if_held, Act::EndUnlessMet]);
        acts.add(B, [after(has_asked), Act::EndIfFinished(A)]);
        acts.add(B, [Act::Acquire { key, wait }, release]);
        // A fresh lease, which certainly runs while A asks.
        let has_lock = acts.add(B, [at_once(key), read(key)]);
        acts.add(A, [warm, cool, after(has_lock), Act::EndIfFinished(B)]);
        acts.add(A, [lose, try_once(key), heal]);
        let has_asked = acts.add(
            A,
            [step(Action::Read), step(Action::Write), release_if_held],
        );
        let is_done = acts.add(B, [after(has_asked), work, write(key), release]);
        acts.add(A, [after(is_done)]);
    }
    acts.scripts()
}
