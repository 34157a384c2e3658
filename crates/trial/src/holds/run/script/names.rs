//! The script of `trial names`.

use std::time::Duration;

use super::sequence::Sequence;
use super::{A, Act, B, MARGIN, try_once};
use crate::holds::Trial;
use crate::holds::names::{PAIRS, Pair, TOGETHER};
use crate::holds::run::chance::Chance;
use crate::protocol::{Action, Claims};

/// How often one process holds several names at once. A single case may be caused by the machine.
const ROUNDS: usize = 2;

/// For each pair of similar names, one is taken while the other is held: by the other process, then by the same one. Then A holds several names at
/// once.
pub(super) fn script(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    // A name that is refused because of another stays refused for as long as that one is held, which is well within its lease.
    let wait = trial.ttl() / 3;
    let mut play = Play {
        acts: Sequence::of(trial.processes()),
        wait,
    };
    for pair @ [one, other] in PAIRS {
        let turned = [other, one];
        play.apart(pair);
        play.apart(turned);
        play.together(pair);
        play.together(turned);
    }
    for _ in 0..ROUNDS {
        // Only a lock that claims to last is held beyond its TTL.
        let lasts = claims.keep_alive || claims.untimed;
        let beyond = trial.ttl() + MARGIN + chance.between(Duration::ZERO, trial.ttl() / 3);
        let brief = chance.between(Duration::ZERO, trial.ttl() / 50);
        play.several(if lasts { beyond } else { brief });
    }
    play.acts.scripts()
}

struct Play {
    acts: Sequence,
    wait: Duration,
}

impl Play {
    fn take(&mut self, process: usize, key: &'static str) {
        let wait = self.wait;
        self.acts.then(process, Act::TryAnyway { key, wait });
    }

    fn release(&mut self, process: usize, key: &'static str) {
        self.acts.then(process, Act::ReleaseIfHeld { key });
    }

    /// Tries once, and releases the lock at once if it is granted.
    fn probe(&mut self, process: usize, key: &'static str) {
        self.acts.then(process, try_once(key));
        self.release(process, key);
    }

    /// Adds a round in which A has one name, B the other. A's release must not free B's.
    fn apart(&mut self, [one, other]: Pair) {
        self.take(A, one);
        self.take(B, other);
        self.probe(A, other);
        self.release(A, one);
        self.probe(A, other);
        self.release(B, other);
        // Nobody has anything: this shows that a name can be taken soon after its release.
        self.take(B, other);
        self.release(B, other);
    }

    /// Adds a round in which A has both names. Its release of one must not free the other.
    fn together(&mut self, [one, other]: Pair) {
        self.take(A, one);
        self.take(A, other);
        self.probe(B, other);
        self.release(A, one);
        self.probe(B, other);
        self.release(A, other);
    }

    /// Adds a round in which A has three names for this long, releases the second, and has the others for as long again.
    fn several(&mut self, time: Duration) {
        let [first, second, third] = TOGETHER;
        for key in TOGETHER {
            self.take(A, key);
        }
        self.release(A, second);
        self.probe_each(&[first, third, second]);
        self.take(A, second);
        self.acts.then(A, Act::Work(time));
        self.probe_each(&TOGETHER);
        self.read_each(&TOGETHER);
        self.release(A, second);
        self.acts.then(A, Act::Work(time));
        self.probe_each(&[first, third]);
        self.read_each(&[first, third]);
        self.release(A, first);
        self.release(A, third);
    }

    /// Adds that B tries to get what A has.
    fn probe_each(&mut self, keys: &[&'static str]) {
        for key in keys.iter().copied() {
            self.probe(B, key);
        }
    }

    /// Adds that A takes a step under each. Whoever does that still believes in its lock.
    fn read_each(&mut self, keys: &[&'static str]) {
        let action = Action::Read;
        for key in keys.iter().copied() {
            self.acts.then(A, Act::StepIfHeld { key, action });
        }
    }
}
