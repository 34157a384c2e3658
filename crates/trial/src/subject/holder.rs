//! The part of a subject that handles requests about holds.

use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;

use super::say;
use crate::protocol::{Action, Claims, Reply, Request};
use crate::strategy::{Failure, Halt, Locking};

/// Stops the subject where the lab wants it to.
pub(super) struct Pause<'a> {
    pub(super) output: &'a mut (dyn Write + Send),
    pub(super) stop: fn(),
}

/// Stops after a certain step of one request.
struct Step<'a, 'b> {
    pause: &'a mut Pause<'b>,
    op: u64,
    after: Option<u32>,
}

impl<'a, 'b> Step<'a, 'b> {
    fn new(pause: &'a mut Pause<'b>, op: u64, after: Option<u32>) -> Self {
        Self { pause, op, after }
    }
}

impl Halt for Step<'_, '_> {
    fn after(&mut self, step: u32, of: u32, what: &str) {
        // After its last step a request is done, so there is nothing to stop.
        if self.after != Some(step) || step >= of {
            return;
        }
        let reached = Reply::Reached {
            op: self.op,
            step,
            of,
            what: what.into(),
        };
        // If the reply cannot be written, the lab is gone, and this process will exit soon as well.
        let _ = say(self.pause.output, &reached);
        (self.pause.stop)();
    }
}

/// Holds locks with a strategy, and knows which holds are lost.
pub(super) struct Holder {
    locking: Box<dyn Locking>,
    fences: HashMap<u64, Option<String>>,
}

impl Holder {
    pub(super) fn new(locking: Box<dyn Locking>) -> Self {
        Self {
            locking,
            fences: HashMap::new(),
        }
    }

    /// Returns the claims of its lock; by default `known`.
    pub(super) fn claims(&self, known: Claims) -> Claims {
        self.locking.claims(known)
    }

    /// Answers a request about holds.
    pub(super) async fn answer(
        &mut self,
        request: Request,
        pause: &mut Pause<'_>,
    ) -> Result<Reply, Failure> {
        match request {
            Request::Acquire {
                op,
                key,
                wait_ms,
                halt_after,
            } => {
                let mut halt = Step::new(pause, op, halt_after);
                let wait = Duration::from_millis(wait_ms);
                let answer = self.acquire(op, &key, wait, &mut halt).await;
                for hold in self.locking.forfeited() {
                    self.fences.remove(&hold);
                    // If the message cannot be written, the lab is gone.
                    let _ = say(halt.pause.output, &Reply::Lost { hold });
                }
                answer
            }
            Request::Step { op, hold, action } => self.step(op, hold, action).await,
            Request::Release {
                op,
                hold,
                halt_after,
            } => {
                let mut halt = Step::new(pause, op, halt_after);
                let outcome = self.locking.release(hold, &mut halt).await?;
                self.fences.remove(&hold);
                Ok(Reply::Released { op, outcome })
            }
            Request::Init { .. } | Request::Purchase { .. } | Request::Shutdown => {
                Err(Failure::definite("not a request about holds"))
            }
        }
    }

    async fn acquire(
        &mut self,
        op: u64,
        key: &str,
        wait: Duration,
        halt: &mut dyn Halt,
    ) -> Result<Reply, Failure> {
        let Some(held) = self.locking.acquire(key, wait, halt).await? else {
            return Ok(Reply::Refused { op });
        };
        self.fences.insert(held.hold, held.fence.clone());
        Ok(Reply::Acquired {
            op,
            hold: held.hold,
            fence: held.fence,
            valid_ms: held.valid_ms,
            contended: held.contended,
        })
    }

    async fn step(&mut self, op: u64, hold: u64, action: Action) -> Result<Reply, Failure> {
        let Some(fence) = self.fences.get(&hold).cloned() else {
            return Err(Failure::definite(format!("there is no hold {hold}")));
        };
        if self.locking.knows_lost(hold) {
            return Ok(Reply::Declined { op });
        }
        if action == Action::Write {
            self.locking.worked(hold).await?;
        }
        Ok(Reply::Stepped { op, fence })
    }
}
