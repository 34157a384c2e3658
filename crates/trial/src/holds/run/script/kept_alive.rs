//! The scripts of trials that only a lock which renews its leases can pass or fail.

use std::time::Duration;

use super::sequence::{Sequence, after};
use super::{A, Act, B, MARGIN, RoadEvent, at_once, try_once};
use crate::holds::many_leases::{CONTROL, EACH_WAY, ONE_MORE, kept, sample};
use crate::holds::run::chance::Chance;
use crate::holds::run::roads::{StoreError, Which};
use crate::holds::{FIRST_LOCK, Trial};
use crate::protocol::{Action, Claims};
use crate::store::ServerFault;

/// How often B asks for a lock while A holds its locks, a quarter of a TTL apart. That is longer than two leases.
const CONTROLS: usize = 9;

/// A takes very many locks. Then every message between A and its store takes longer, for more than two leases. B shows meanwhile that the store
/// answers, and asks for a sample of A's locks at the end.
pub(super) fn many_leases(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    if !claims.keep_alive {
        return nothing_to_try();
    }
    let mut acts = Sequence::of(2);
    acts.add(A, kept().map(at_once));
    let far_away = Act::Road(RoadEvent::Distance(EACH_WAY));
    let is_far_away = acts.add(A, [far_away, try_once(ONE_MORE)]);
    acts.add(A, [Act::AfterAll(B)]);
    acts.add(B, [after(is_far_away), Act::EndIfFinished(A)]);
    for _ in 0..CONTROLS {
        acts.add(B, asks_after_quarter(CONTROL, trial, chance));
    }
    acts.add(B, sample().flat_map(asks_briefly));
    acts.scripts()
}

/// When A's lease would be over, had A not renewed it, B asks for the lock. Then A's connections die silently, that of the renewals among them,
/// and B shows for more than two leases that the store answers: it asks for A's lock again and again.
pub(super) fn dead_connection(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    if !claims.keep_alive {
        return nothing_to_try();
    }
    let key = FIRST_LOCK;
    let over = Act::Work(trial.ttl() + MARGIN + chance.between(Duration::ZERO, trial.ttl() / 2));
    let mut acts = Sequence::of(2);
    let is_renewed = acts.add(A, [at_once(key), over]);
    acts.add(B, [after(is_renewed), Act::EndIfFinished(A)]);
    let has_asked = acts.add(B, asks_briefly(key));
    let is_dead = acts.add(A, [after(has_asked), Act::Road(RoadEvent::Bury)]);
    acts.add(A, [Act::AfterAll(B), STILL_BELIEVES]);
    acts.add(A, [Act::ReleaseIfHeld { key }]);
    acts.add(B, [after(is_dead), Act::EndIfFinished(A)]);
    for _ in 0..CONTROLS {
        acts.add(B, asks_after_quarter(key, trial, chance));
    }
    acts.scripts()
}

/// How often B asks for the lock when a renewal has failed.
const AFTER_RENEWAL: usize = 9;

/// A reply to A, which holds the lock, is lost, and in a second round the store answers a renewal with an error, if the lab knows its errors.
/// B asks for A's lock again and again, until a lease that was not renewed any more would be over.
pub(super) fn failed_renewal(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    if !claims.keep_alive {
        return nothing_to_try();
    }
    let key = FIRST_LOCK;
    let mut faults = vec![RoadEvent::LoseReply(1)];
    if trial.store.facts().errors == ServerFault::Available {
        // An error that only commands which write meet: others are no renewals.
        faults.push(RoadEvent::Error(StoreError::ReadOnly, Which::Number(1)));
    }
    let mut acts = Sequence::of(2);
    for fault in faults {
        let asks: Vec<Act> = (0..AFTER_RENEWAL)
            .flat_map(|_| asks_after_quarter(key, trial, chance))
            .collect();
        let before = Act::Work(chance.between(Duration::ZERO, trial.ttl() / 16));
        let has_failed = acts.add(A, [at_once(key), before, Act::Road(fault)]);
        acts.add(B, [after(has_failed), Act::EndIfFinished(A)]);
        let has_asked = acts.add(B, asks);
        acts.add(A, [after(has_asked), STILL_BELIEVES]);
        let heal = Act::Road(RoadEvent::Reconnect);
        acts.add(A, [heal, Act::ReleaseIfHeld { key }]);
    }
    acts.scripts()
}

/// Whoever takes a step still believes in its lock.
const STILL_BELIEVES: Act = Act::StepIfHeld {
    key: FIRST_LOCK,
    action: Action::Read,
};

/// Asks for the lock when about a quarter of a TTL has passed.
fn asks_after_quarter(key: &'static str, trial: &Trial, chance: &Chance) -> [Act; 3] {
    let pause = trial.ttl() / 4;
    let pause = pause + chance.between(Duration::ZERO, pause / 10);
    let [asks, releases] = asks_briefly(key);
    [Act::Work(pause), asks, releases]
}

/// Tries once, and releases the lock at once if it is granted.
fn asks_briefly(key: &'static str) -> [Act; 2] {
    [try_once(key), Act::ReleaseIfHeld { key }]
}

/// Returns the scripts for a lock that does not claim to renew its leases: one grant, to see that the program works.
fn nothing_to_try() -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    let once = vec![at_once(key), Act::Release { key }];
    vec![once, Vec::new()]
}
