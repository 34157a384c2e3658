//! The script of `trial store-errors`. The store answers with errors: to releases, to requests for the lock, and to renewals.

use std::time::Duration;

use super::sequence::{Sequence, after, meet};
use super::{A, Act, B, MARGIN, RoadEvent, lost_release, try_once, until_stuck};
use crate::holds::run::chance::Chance;
use crate::holds::run::roads::{StoreError, Which};
use crate::holds::{FIRST_LOCK, SECOND_LOCK, Trial};
use crate::protocol::{Action, Claims};

/// The errors that a release meets. A server that is out of memory still deletes.
const OF_RELEASES: [StoreError; 3] = [
    StoreError::Loading,
    StoreError::ReadOnly,
    StoreError::Upstream,
];
/// The errors that a request for the lock meets.
const OF_REQUESTS: [StoreError; 4] = [
    StoreError::Loading,
    StoreError::ReadOnly,
    StoreError::OutOfMemory,
    StoreError::Upstream,
];
/// How many commands of a release meet an error, one in each round. A round in which none does is an ordinary one.
const RELEASE_COMMANDS: u64 = 2;
/// The same for a request.
const REQUEST_COMMANDS: u64 = 4;

const KEY: &str = FIRST_LOCK;

/// The store answers releases, requests and renewals with errors, at most one in each round. Releases come first: nothing that a failed request
/// has left behind keeps anybody out then.
pub(super) fn script(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let mut rounds = Rounds {
        trial,
        acts: Sequence::of(2),
    };
    rounds.release(None);
    for number in 1..=RELEASE_COMMANDS {
        for error in OF_RELEASES {
            rounds.release(Some((error, number)));
        }
    }
    for number in 1..=REQUEST_COMMANDS {
        for error in OF_REQUESTS {
            rounds.request(error, number, chance);
        }
    }
    if claims.keep_alive {
        rounds.renewal(chance);
    }
    rounds.acts.scripts()
}

/// The rounds so far.
struct Rounds<'a> {
    trial: &'a Trial,
    acts: Sequence,
}

impl Rounds<'_> {
    /// A releases the lock, and this command of the release meets this error.
    fn release(&mut self, error: Option<(StoreError, u64)>) {
        let fault = match error {
            Some((error, number)) => RoadEvent::Error(error, Which::Number(number)),
            None => RoadEvent::Reconnect,
        };
        lost_release::round(self.trial, fault, &mut self.acts);
    }

    /// A asks for the free lock, and this command meets this error: B must get the lock afterwards. Then A asks while B holds it.
    fn request(&mut self, error: StoreError, number: u64, chance: &Chance) {
        let wait = until_stuck(self.trial);
        let work = chance.between(Duration::ZERO, self.trial.ttl() / 100);
        let fault = Act::Road(RoadEvent::Error(error, Which::Number(number)));
        let heal = Act::Road(RoadEvent::Reconnect);
        // Another lock, so that the connection is open and only the commands of the request itself are counted.
        let warm = [
            try_once(SECOND_LOCK),
            Act::ReleaseIfHeld { key: SECOND_LOCK },
        ];
        let acts = &mut self.acts;
        acts.add(A, warm);
        acts.add(A, [fault, try_once(KEY), heal, RELEASE]);
        let has_asked = acts.add(A, warm);
        acts.add(B, [after(has_asked), Act::Acquire { key: KEY, wait }]);
        // A fresh lease, which certainly runs while A asks.
        let has_lock = acts.add(B, [RELEASE, try_once(KEY), step(Action::Read)]);
        acts.add(A, [after(has_lock), Act::EndIfFinished(B)]);
        acts.add(A, [fault, try_once(KEY), heal]);
        let has_asked = acts.add(A, [step(Action::Read), step(Action::Write), RELEASE]);
        acts.add(B, [after(has_asked), Act::Work(work)]);
        let is_done = acts.add(B, [step(Action::Write), RELEASE]);
        acts.add(A, [after(is_done), Act::EndIfFinished(B)]);
    }

    /// Every renewal of A's meets an error from here on. B gets the lock when A's lease is over, and is done before A is asked to write.
    fn renewal(&mut self, chance: &Chance) {
        let ttl = self.trial.ttl();
        let wait = 2 * until_stuck(self.trial);
        let beyond = ttl + MARGIN + chance.between(Duration::ZERO, ttl / 4);
        let fault = Act::Road(RoadEvent::Error(StoreError::Loading, Which::All));
        let acts = &mut self.acts;
        let has_read = acts.add(A, [try_once(KEY), step(Action::Read), fault]);
        acts.add(B, [after(has_read), Act::TryAnyway { key: KEY, wait }]);
        let is_done = acts.add(B, [step(Action::Read), step(Action::Write), RELEASE]);
        acts.add(A, [Act::Work(beyond), meet(is_done, 2 * ttl)]);
        let heal = Act::Road(RoadEvent::Reconnect);
        acts.add(A, [step(Action::Write), heal, RELEASE]);
    }
}

const RELEASE: Act = Act::ReleaseIfHeld { key: KEY };

const fn step(action: Action) -> Act {
    Act::StepIfHeld { key: KEY, action }
}
