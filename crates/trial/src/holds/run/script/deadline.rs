//! The script of `trial deadline`.

use std::time::Duration;

use super::sequence::{Sequence, after, meet};
use super::{A, Act, B, C, PAUSE, read, until_stuck};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, Trial};
use crate::protocol::Claims;

/// How long B waits before it gives up, unless the lease is very short.
const GIVES_UP_AFTER: Duration = Duration::from_millis(300);

/// B gives up behind A while C waits; once nobody gives up, for comparison; and B gives up again. Then B waits for most of a lease or longer, and C
/// tries to get the lock while B has it.
pub(super) fn script(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let mut scripts = HandOvers {
        acts: Sequence::of(3),
        ttl: trial.ttl(),
        wait: until_stuck(trial) + trial.ttl(),
        chance,
    };
    for gives_up in [true, false, true] {
        scripts.hand_over(gives_up);
    }
    // Only a lock that claims to last is held for longer than a lease.
    let lasts = claims.keep_alive || claims.untimed;
    scripts.long_wait(if lasts {
        trial.ttl() * 6 / 5
    } else {
        trial.ttl() * 7 / 10
    });
    scripts.acts.scripts()
}

struct HandOvers<'a> {
    acts: Sequence,
    ttl: Duration,
    /// How long whoever does not give up waits.
    wait: Duration,
    chance: &'a Chance,
}

impl HandOvers<'_> {
    fn add(&mut self, process: usize, acts: &[Act]) {
        self.acts.add(process, acts.iter().copied());
    }

    /// Waits until another process has done everything that is in its script so far.
    fn after(&self, other: usize) -> Act {
        after(self.acts.milestone_of(other))
    }

    /// Returns how long B waits before it gives up.
    fn gives_up_after(&self) -> Duration {
        GIVES_UP_AFTER.min(self.ttl / 4)
    }

    /// Returns a little while, in which a process takes its place in line.
    fn place(&self) -> Act {
        Act::Work(self.chance.about(PAUSE))
    }

    /// Adds that A has the lock.
    fn begin(&mut self) {
        let [b, c] = [B, C].map(|other| self.after(other));
        let (key, wait) = (FIRST_LOCK, self.wait);
        self.add(A, &[b, c, Act::Acquire { key, wait }, read(key)]);
    }

    /// Adds a round in which A has the lock, B may give up, and C gets the lock when A has released it.
    fn hand_over(&mut self, gives_up: bool) {
        self.begin();
        let key = FIRST_LOCK;
        let mut before_c = self.after(A);
        if gives_up {
            let wait = self.gives_up_after();
            let asked = self.after(A);
            self.add(B, &[asked]);
            before_c = self.after(B);
            self.add(B, &[Act::TryAnyway { key, wait }]);
        }
        let place = self.place();
        self.add(C, &[before_c, place]);
        let is_waiting = self.after(C);
        let wait = self.wait;
        self.add(C, &[Act::Acquire { key, wait }]);
        // Whoever does not give up in time does so when the lock is released, which must be within A's lease.
        let limit = self.ttl * 3 / 5;
        let given_up = if gives_up {
            meet(self.acts.milestone_of(B), limit)
        } else {
            // C waits for as long.
            Act::Work(self.gives_up_after())
        };
        let rest = self.place();
        self.add(A, &[is_waiting, given_up, rest, Act::Release { key }]);
        self.add(B, &[Act::ReleaseIfHeld { key }]);
        self.add(C, &[read(key), Act::Release { key }]);
    }

    /// Adds a round in which B waits for this long behind A, and has the lock for a while after that. C must not get it.
    fn long_wait(&mut self, time: Duration) {
        self.begin();
        let (key, wait) = (FIRST_LOCK, self.wait);
        let first = self.after(A);
        self.add(B, &[first]);
        let is_waiting = self.after(B);
        self.add(B, &[Act::Acquire { key, wait }, read(key)]);
        self.add(A, &[is_waiting, Act::Work(time), Act::Release { key }]);
        let is_granted = self.after(B);
        let wait = self.ttl / 2;
        self.add(C, &[is_granted, Act::TryAnyway { key, wait }]);
        let tried = self.after(C);
        self.add(C, &[Act::ReleaseIfHeld { key }]);
        self.add(B, &[tried, read(key), Act::Release { key }]);
    }
}
