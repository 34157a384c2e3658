//! The scripts in which servers are out of action for a while, and come back with everything that they had.

use std::time::Duration;

use super::sequence::{Sequence, after, meet};
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
    acts: Sequence,
}

/// The server is stopped twice for less than a lease while A holds the lock and B waits for it. Then it is stopped for more than a lease.
pub(super) fn server_stall(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let mut scripts = Scripts::of(trial, claims, chance);
    for _ in 0..BRIEF_STOPS {
        scripts.brief_stop();
    }
    let stop = Act::Servers(ServerEvent::Stop(Stop::BeyondLease));
    scripts.outage(stop, None);
    scripts.acts.scripts()
}

/// How long the lab waits for the answer of whoever asks without a majority, before the majority comes back.
const UNTIL_ANSWERED: Duration = Duration::from_secs(8);

/// Two of three servers are killed while A holds the lock, and started again when its lease is over and whoever asked meanwhile has its answer.
pub(super) fn majority_down(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let mut scripts = Scripts::of(trial, claims, chance);
    scripts.outage(Act::Servers(ServerEvent::Kill), Some(UNTIL_ANSWERED));
    scripts.acts.scripts()
}

impl<'a> Scripts<'a> {
    fn of(trial: &'a Trial, claims: Claims, chance: &'a Chance) -> Self {
        Self {
            trial,
            claims,
            chance,
            acts: Sequence::of(4),
        }
    }

    /// Adds what A and B do while the server is stopped for less than a lease. B asks meanwhile, and waits until A has released the lock.
    fn brief_stop(&mut self) {
        let (key, ttl) = (FIRST_LOCK, self.trial.ttl());
        let lasts = self.claims.keep_alive || self.claims.untimed;
        let stop = Act::Servers(ServerEvent::Stop(Stop::WithinLease));
        let stopped_for = ttl.mul_f64(BRIEF) - self.chance.between(Duration::ZERO, ttl / 20);
        let works_for = if lasts {
            ttl.mul_f64(WORKS)
        } else {
            Duration::ZERO
        };
        let wait = until_stuck(self.trial);
        let (read, write) = (if_held(key, Action::Read), if_held(key, Action::Write));
        let release = Act::ReleaseIfHeld { key };
        self.takes_first();
        let is_stopped = self.acts.add(A, [stop]);
        let again = Act::Servers(ServerEvent::ServeAgain);
        self.acts.add(A, [Act::Work(stopped_for), again]);
        self.acts.add(A, [Act::Work(works_for), write, release]);
        let ask = Act::TryAnyway { key, wait };
        self.acts
            .add(B, [after(is_stopped), ask, read, write, release]);
    }

    /// Adds what everybody does while servers are out of action for more than a lease, from `begin` on. With `until_answered`,
    /// they come back when C has an answer, or after so long. B asks while A's lease runs, and C when it is over. D asks when the servers are back.
    ///
    /// A writes afterwards only if its lock claims to prevent that: by renewing its lease, by fences, or by having no lease.
    fn outage(&mut self, begin: Act, until_answered: Option<Duration>) {
        let (key, ttl) = (FIRST_LOCK, self.trial.ttl());
        let claims = self.claims;
        let beyond = ttl + ttl / 8 + self.chance.between(Duration::ZERO, ttl / 4);
        let is_covered = claims.keep_alive || claims.fencing || claims.untimed;
        let late_write = if is_covered {
            if_held(key, Action::Write)
        } else {
            Act::Work(Duration::ZERO)
        };
        let (if_read, if_write) = (if_held(key, Action::Read), if_held(key, Action::Write));
        let release = Act::ReleaseIfHeld { key };
        self.takes_first();
        let acts = &mut self.acts;
        let is_out = acts.add(A, [begin]);
        acts.add(
            B,
            [after(is_out), try_once(key), if_read, if_write, release],
        );
        let brief = Act::TryAnyway { key, wait: ttl / 4 };
        let has_answer = acts.add(C, [after(is_out), Act::Work(ttl + MARGIN), brief]);
        acts.add(A, [Act::Work(beyond)]);
        acts.add(A, until_answered.map(|longest| meet(has_answer, longest)));
        let is_back = acts.add(A, [Act::Servers(ServerEvent::ServeAgain)]);
        let wait = until_recovered(self.trial, claims) + 2 * ttl;
        let d_has_answer = acts.add(D, [after(is_back), Act::Acquire { key, wait }]);
        // Whoever got the lock without a majority holds on until D may get it from the majority.
        acts.add(C, [if_read, meet(d_has_answer, ttl * 3 / 4)]);
        let c_is_done = acts.add(C, [if_write, release]);
        acts.add(A, [meet(c_is_done, 2 * ttl), late_write, release]);
        acts.add(D, [read(key), write(key), Act::Release { key }]);
    }

    /// A takes the lock when B is done with what came before, and B tries in vain.
    fn takes_first(&mut self) {
        let key = FIRST_LOCK;
        let wait = until_stuck(self.trial);
        let before = after(self.acts.milestone_of(B));
        let ask = Act::TryAnyway { key, wait };
        let has_read = self.acts.add(A, [before, ask, if_held(key, Action::Read)]);
        self.acts.add(B, [after(has_read), try_once(key)]);
        let has_tried = self.acts.add(B, [Act::ReleaseIfHeld { key }]);
        self.acts.add(A, [after(has_tried)]);
    }
}

fn if_held(key: &'static str, action: Action) -> Act {
    Act::StepIfHeld { key, action }
}
