//! The scripts in which servers are out of action for a while, and come back with everything that they had.

use std::time::Duration;

use super::{
    A, Act, B, C, D, MARGIN, ServerEvent, read, try_once, until_recovered, until_stuck, write,
};
use crate::holds::run::chance::Chance;
use crate::holds::run::servers::Stop;
use crate::holds::{FIRST_LOCK, Trial};
use crate::protocol::{Action, Claims};

/// How often the server is stopped for less than a lease. A lease that is lost once may be lost because of the machine.
const BRIEF_STOPS: usize = 2;
/// How long such a stop lasts, as a part of the lease. A lock that renews its lease in time has time left to try again.
const BRIEF: f64 = 0.35;
/// How long A works after such a stop if its lock claims to last: until a lease that was not renewed is certainly over.
const WORKS: f64 = 0.9;

/// The scripts of four processes while they are written.
struct Scripts<'a> {
    trial: &'a Trial,
    claims: Claims,
    chance: &'a Chance,
    acts: [Vec<Act>; 4],
}

/// The server is stopped twice for less than a lease while A holds the lock and B waits for it. Then it is stopped for more than a lease.
pub(super) fn server_stall(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let mut scripts = Scripts::of(trial, claims, chance);
    for _ in 0..BRIEF_STOPS {
        scripts.brief_stop();
    }
    let stop = Act::Servers(ServerEvent::Stop(Stop::BeyondLease));
    scripts.outage(stop, &[]);
    scripts.acts.into()
}

/// How long the lab waits for the answer of whoever asks without a majority, before the majority comes back.
const UNTIL_ANSWERED: Duration = Duration::from_secs(8);

/// Two of three servers are killed while A holds the lock, and started again when its lease is over and whoever asked meanwhile has its answer.
pub(super) fn majority_down(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let mut scripts = Scripts::of(trial, claims, chance);
    let answered = Act::Meet(C, ANSWERED_TO_C, UNTIL_ANSWERED);
    scripts.outage(Act::Servers(ServerEvent::Kill), &[answered]);
    scripts.acts.into()
}

impl<'a> Scripts<'a> {
    fn of(trial: &'a Trial, claims: Claims, chance: &'a Chance) -> Self {
        Self {
            trial,
            claims,
            chance,
            acts: [const { Vec::new() }; 4],
        }
    }

    /// Adds what A and B do while the server is stopped for less than a lease. B asks meanwhile, and waits until A has released the lock.
    fn brief_stop(&mut self) {
        let (key, ttl) = (FIRST_LOCK, self.trial.ttl());
        let lasts = self.claims.keep_alive || self.claims.untimed;
        let (of_a, of_b) = (self.acts[A].len(), self.acts[B].len());
        let stop = Act::Servers(ServerEvent::Stop(Stop::WithinLease));
        let stopped_for = ttl.mul_f64(BRIEF) - self.chance.between(Duration::ZERO, ttl / 20);
        let works_for = if lasts {
            ttl.mul_f64(WORKS)
        } else {
            Duration::ZERO
        };
        self.takes_first(of_b);
        self.acts[A].extend([
            stop,
            Act::Work(stopped_for),
            Act::Servers(ServerEvent::ServeAgain),
            Act::Work(works_for),
            if_held(key, Action::Write),
            Act::ReleaseIfHeld { key },
        ]);
        self.is_refused(of_a);
        let wait = until_stuck(self.trial);
        self.acts[B].extend([
            Act::After(A, of_a + STOPPED),
            Act::TryAnyway { key, wait },
            if_held(key, Action::Read),
            if_held(key, Action::Write),
            Act::ReleaseIfHeld { key },
        ]);
    }

    /// Adds what everybody does while servers are out of action for more than a lease, from `begin` on; `before_end` comes before they are
    /// back. B asks while A's lease runs, and C when it is over. D asks when the servers are back.
    ///
    /// A writes afterwards only if its lock claims to prevent that: by renewing its lease, by fences, or by having no lease.
    fn outage(&mut self, begin: Act, before_end: &[Act]) {
        let (key, ttl) = (FIRST_LOCK, self.trial.ttl());
        let claims = self.claims;
        let (of_a, of_b) = (self.acts[A].len(), self.acts[B].len());
        let beyond = ttl + ttl / 8 + self.chance.between(Duration::ZERO, ttl / 4);
        let is_covered = claims.keep_alive || claims.fencing || claims.untimed;
        let late_write = if is_covered {
            if_held(key, Action::Write)
        } else {
            Act::Work(Duration::ZERO)
        };
        self.takes_first(of_b);
        self.acts[A].extend([begin, Act::Work(beyond)]);
        self.acts[A].extend(before_end);
        self.acts[A].push(Act::Servers(ServerEvent::ServeAgain));
        let is_back = self.acts[A].len();
        self.acts[A].extend([
            Act::Meet(C, OF_C, 2 * ttl),
            late_write,
            Act::ReleaseIfHeld { key },
        ]);
        self.is_refused(of_a);
        self.acts[B].extend([
            Act::After(A, of_a + STOPPED),
            try_once(key),
            if_held(key, Action::Read),
            if_held(key, Action::Write),
            Act::ReleaseIfHeld { key },
        ]);
        self.acts[C].extend([
            Act::After(A, of_a + STOPPED),
            Act::Work(ttl + MARGIN),
            Act::TryAnyway { key, wait: ttl / 4 },
            if_held(key, Action::Read),
            // Whoever got the lock without a majority holds on until D may get it from the majority.
            Act::Meet(D, ANSWERED_TO_D, ttl * 3 / 4),
            if_held(key, Action::Write),
            Act::ReleaseIfHeld { key },
        ]);
        self.acts[D].extend([
            Act::After(A, is_back),
            Act::Acquire {
                key,
                wait: until_recovered(self.trial, claims) + 2 * ttl,
            },
            read(key),
            write(key),
            Act::Release { key },
        ]);
    }

    /// A takes the lock when B is done with what came before, and B tries in vain.
    fn takes_first(&mut self, of_b: usize) {
        let key = FIRST_LOCK;
        let wait = until_stuck(self.trial);
        self.acts[A].extend([
            Act::After(B, of_b),
            Act::TryAnyway { key, wait },
            if_held(key, Action::Read),
            Act::After(B, of_b + TRIED),
        ]);
    }

    fn is_refused(&mut self, of_a: usize) {
        let key = FIRST_LOCK;
        self.acts[B].extend([
            Act::After(A, of_a + 3),
            try_once(key),
            Act::ReleaseIfHeld { key },
        ]);
    }
}

/// In each part: how many acts of B's are done when it has tried before the outage.
const TRIED: usize = 3;
/// In each part: how many acts of A's are done when the servers are out of action.
const STOPPED: usize = 5;
/// How many acts C has.
const OF_C: usize = 7;
/// How many acts of C's are done when it has an answer.
const ANSWERED_TO_C: usize = 3;
/// The same for D.
const ANSWERED_TO_D: usize = 2;

fn if_held(key: &'static str, action: Action) -> Act {
    Act::StepIfHeld { key, action }
}
