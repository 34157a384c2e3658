//! The script in which the store answers with errors: to releases, to requests for the lock, and to renewals.

use std::time::Duration;

use super::{A, Act, B, MARGIN, RoadEvent, releases, try_once, until_stuck};
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
        scripts: [Vec::new(), Vec::new()],
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
    rounds.scripts.into()
}

/// The rounds so far.
struct Rounds<'a> {
    trial: &'a Trial,
    scripts: [Vec<Act>; 2],
}

impl Rounds<'_> {
    /// Adds the acts of a round. `of_a` and `of_b` are told how many acts A and B have done before it.
    fn add(&mut self, of_a: impl Fn(usize) -> Vec<Act>, of_b: impl Fn(usize) -> Vec<Act>) {
        let [before_a, before_b] = self.scripts.each_ref().map(Vec::len);
        self.scripts[A].extend(of_a(before_b));
        self.scripts[B].extend(of_b(before_a));
    }

    /// A releases the lock, and this command of the release meets this error.
    fn release(&mut self, error: Option<(StoreError, u64)>) {
        let fault = match error {
            Some((error, number)) => RoadEvent::Error(error, Which::Number(number)),
            None => RoadEvent::Reconnect,
        };
        let before = self.scripts.each_ref().map(Vec::len);
        let [first, second] = releases::round(self.trial, fault, before);
        self.scripts[A].extend(first);
        self.scripts[B].extend(second);
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
        self.add(
            |of_b| {
                let mut acts = warm.to_vec();
                acts.extend([fault, try_once(KEY), heal, RELEASE]);
                acts.extend(warm);
                acts.extend([Act::After(B, of_b + 5), Act::EndIfFinished(B)]);
                acts.extend([fault, try_once(KEY), heal]);
                acts.extend([step(Action::Read), step(Action::Write), RELEASE]);
                acts.extend([Act::After(B, of_b + 9), Act::EndIfFinished(B)]);
                acts
            },
            |of_a| {
                vec![
                    Act::After(A, of_a + 8),
                    Act::Acquire { key: KEY, wait },
                    RELEASE,
                    // A fresh lease, which certainly runs while A asks.
                    try_once(KEY),
                    step(Action::Read),
                    Act::After(A, of_a + 16),
                    Act::Work(work),
                    step(Action::Write),
                    RELEASE,
                ]
            },
        );
    }

    /// Every renewal of A's meets an error from here on. B gets the lock when A's lease is over, and is done before A is asked to write.
    fn renewal(&mut self, chance: &Chance) {
        let ttl = self.trial.ttl();
        let wait = 2 * until_stuck(self.trial);
        let beyond = ttl + MARGIN + chance.between(Duration::ZERO, ttl / 4);
        self.add(
            |of_b| {
                vec![
                    try_once(KEY),
                    step(Action::Read),
                    Act::Road(RoadEvent::Error(StoreError::Loading, Which::All)),
                    Act::Work(beyond),
                    Act::Meet(B, of_b + 5, 2 * ttl),
                    step(Action::Write),
                    Act::Road(RoadEvent::Reconnect),
                    RELEASE,
                ]
            },
            |of_a| {
                vec![
                    Act::After(A, of_a + 3),
                    Act::TryAnyway { key: KEY, wait },
                    step(Action::Read),
                    step(Action::Write),
                    RELEASE,
                ]
            },
        );
    }
}

const RELEASE: Act = Act::ReleaseIfHeld { key: KEY };

const fn step(action: Action) -> Act {
    Act::StepIfHeld { key: KEY, action }
}
