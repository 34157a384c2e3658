//! Plain commands in the Redis line model: three of them acquire a lock that nobody else seems to want. They are sent together
//! over one connection, but they are not atomic: others come in between, and a broken connection cuts off the rest.

use crate::invariants::Promise;
use crate::server::Script;
use crate::state::{Answer, Key, Owner};
use crate::variants::Flaw;

/// The command that the server reads next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Step {
    /// `SET NX PX` with a guessed epoch.
    Set,
    /// `ZADD XX INCR` of the fence.
    Count,
    /// `EXISTS` of the line.
    Look,
}

/// The progress of the plain commands, and what its client will conclude from the answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Attempt {
    pub(crate) step: Step,
    /// The epoch it expects: one more than the last that was seen on this connection.
    pub(crate) guess: u8,
    pub(crate) is_set: bool,
    pub(crate) is_counted_right: bool,
    /// The key was set although somebody was in line (recorded by the observer).
    pub(crate) is_past_the_line: bool,
    /// The key was set, and the server forgot it (recorded by the observer).
    pub(crate) is_forgotten: bool,
}

impl Attempt {
    pub(crate) fn new(guess: u8) -> Self {
        Self {
            step: Step::Set,
            guess,
            is_set: false,
            is_counted_right: false,
            is_past_the_line: false,
            is_forgotten: false,
        }
    }
}

impl Script<'_> {
    /// Executes the next of the three commands. Their answers are read together, after the last.
    pub(crate) fn run_next(&mut self, attempt: &mut Attempt) -> Option<Answer> {
        match attempt.step {
            Step::Set => {
                self.set_with_a_guess(attempt);
                attempt.step = Step::Count;
                None
            }
            Step::Count => {
                let is_counted = self.count_existing();
                attempt.is_counted_right = is_counted && self.state.server.fence == attempt.guess;
                attempt.step = Step::Look;
                None
            }
            Step::Look => Some(self.look(attempt)),
        }
    }

    fn set_with_a_guess(&mut self, attempt: &mut Attempt) {
        attempt.is_set = self.state.server.key.is_none();
        if attempt.is_set {
            attempt.is_past_the_line = self.somebody_stands_before(u8::MAX);
            self.state.server.key = Some(Key {
                owner: Owner::Ours(self.token),
                remaining: self.setup.times.ttl,
                has_waiter_lease: false,
                fence: attempt.guess,
                is_marked: false,
                is_guessed: true,
            });
        }
    }

    /// What the client concludes from the three answers is determined by the last of them.
    fn look(&mut self, attempt: &Attempt) -> Answer {
        let is_right = attempt.is_counted_right || self.setup.has(Flaw::GuessNotCompared);
        let is_alone = self.state.server.line.is_empty() || self.setup.has(Flaw::LineNotLookedAt);
        if !(attempt.is_set && is_right && is_alone) {
            return Answer::Declined {
                lift: !attempt.is_counted_right,
            };
        }
        if attempt.is_past_the_line && self.somebody_stands_before(u8::MAX) {
            self.state.convict(Promise::FirstComeFirstServed);
        }
        if self.state.server.is_owned_by(self.token) {
            self.note_issued(attempt.guess);
        }
        Answer::Granted {
            fence: attempt.guess,
            lease: self.setup.times.ttl,
        }
    }
}
