//! The facts of a lock trial: the holds, waits, faults and operations on the number, derived from its history. Pure functions
//! without a clock or a store.
//!
//! A hold is counted from the arrival of the grant to the sending of the release, so it is never overestimated. Anything
//! uncertain shortens it further.

use crate::history::{Change, Event, Fault, What};
use crate::protocol::Action;

mod cycle;
mod records;

pub use cycle::Cycle;
pub use records::{Buy, Hold, Inspection, Mark, Op, Wait, WaitEnd};

/// The facts of a lock trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Every hold, in the order of the grants.
    pub holds: Vec<Hold>,
    /// Every wait and every single try, in the order of the requests.
    pub waits: Vec<Wait>,
    /// Every operation on the number, in serial order.
    pub ops: Vec<Op>,
    /// Every signal that was seen to take effect.
    pub faults: Vec<(Mark, String, Fault)>,
    /// What happened to the servers.
    pub servers: Vec<(Mark, String, Change)>,
    /// Where processes stopped themselves: the process, the last completed step, and the total number of steps.
    pub reached: Vec<(Mark, String, u32, u32)>,
    /// Every purchase.
    pub buys: Vec<Buy>,
    /// Every inspection of the store.
    pub inspections: Vec<Inspection>,
    /// When the lab added units to the stock, and how many.
    pub stocked: Vec<(Mark, i64)>,
    /// Requests that failed: the process and the reason.
    pub failures: Vec<(Mark, String, String)>,
    /// Steps that were answered: the process, the hold, and when they were requested.
    answered_steps: Vec<(String, u64, u64)>,
    asked_ops: Vec<(u64, Mark)>,
    /// The timestamp of the last event.
    pub end_ns: u64,
}

impl Facts {
    /// Derives the facts from a complete history.
    pub fn of(events: &[Event]) -> Self {
        let mut facts = Self::default();
        for event in events {
            facts.learn(event);
        }
        facts.end_ns = events.last().map_or(0, |event| event.at_ns);
        facts.bound_beliefs();
        facts
    }

    fn learn(&mut self, event: &Event) {
        let mark = Mark::from(event);
        let who = event.who.clone().unwrap_or_default();
        match &event.what {
            What::Acquire { op, key, wait_ms } => self.waits.push(Wait {
                who,
                key: key.clone(),
                op: *op,
                wait_ms: *wait_ms,
                asked: mark,
                answer: None,
            }),
            What::Acquired {
                op,
                key,
                hold,
                fence,
                valid_ms,
                ..
            } => {
                let asked = self
                    .answer_wait(*op, mark, WaitEnd::Granted)
                    .unwrap_or(mark);
                self.holds.push(Hold {
                    who,
                    key: key.clone(),
                    hold: *hold,
                    fence: fence.clone(),
                    valid_until_ns: valid_ms
                        .map(|ms| asked.at_ns.saturating_add((ms * 1e6) as u64)),
                    asked,
                    granted: mark,
                    lease_over: None,
                    release: None,
                    released: None,
                    killed: None,
                    learnt: None,
                    silent: None,
                    believed_until_ns: 0,
                });
            }
            What::Refused { op, .. } => drop(self.answer_wait(*op, mark, WaitEnd::Refused)),
            What::Reached { op, step, of, .. } => {
                self.answer_wait(*op, mark, WaitEnd::Unknown);
                self.reached.push((mark, who, *step, *of));
            }
            What::Failed { op, message, .. } => {
                self.answer_wait(*op, mark, WaitEnd::Unknown);
                self.fall_silent(&who, mark);
                self.failures.push((mark, who, message.clone()));
            }
            What::Step { op, .. } => self.asked_ops.push((*op, mark)),
            What::Register { op, .. } => {
                self.op(event, mark, who, *op);
            }
            What::LeaseOver { hold, .. } => {
                self.change(&who, *hold, |held| held.lease_over = Some(mark));
            }
            What::Declined { hold, .. } | What::Lost { hold } => {
                self.change(&who, *hold, |held| {
                    held.learnt.get_or_insert(mark);
                });
            }
            What::Release { hold, .. } => {
                self.change(&who, *hold, |held| held.release = Some(mark));
            }
            What::Released { hold, outcome, .. } => {
                let outcome = *outcome;
                self.change(&who, *hold, |held| held.released = Some((mark, outcome)));
            }
            What::Fault { fault } => self.fault(mark, who, *fault),
            What::StoreRead {
                key,
                taken,
                ttl_left_ms,
                server,
            } => self.inspections.push(Inspection {
                mark,
                key: key.clone(),
                taken: *taken,
                ttl_left_ms: *ttl_left_ms,
                server: server.clone(),
            }),
            What::Server { server, change } => self.servers.push((mark, server.clone(), *change)),
            What::StockSet { units } => self.stocked.push((mark, *units)),
            What::Purchase { op, .. } => {
                self.asked_ops.push((*op, mark));
                self.buys.push(Buy {
                    who,
                    asked: mark,
                    answer: None,
                    waited_ms: 0.0,
                });
            }
            What::Purchased { op, purchase } => {
                let asked = self.asked(*op);
                let buy = self.buys.iter_mut().find(|buy| Some(buy.asked) == asked);
                if let Some(buy) = buy {
                    buy.answer = Some((mark, purchase.outcome));
                    buy.waited_ms = purchase.waited_ms;
                }
            }
            What::Round { .. } | What::StockRead { .. } | What::GaveUp { .. } => {}
        }
    }

    fn asked(&self, op: u64) -> Option<Mark> {
        let asked = self.asked_ops.iter().find(|(of, _)| *of == op);
        asked.map(|(_, mark)| *mark)
    }

    /// Records the answer to a wait and returns when the wait was requested.
    fn answer_wait(&mut self, op: u64, mark: Mark, end: WaitEnd) -> Option<Mark> {
        let wait = self.waits.iter_mut().find(|wait| wait.op == op)?;
        wait.answer = Some((mark, end));
        Some(wait.asked)
    }

    fn op(&mut self, event: &Event, mark: Mark, who: String, asked: u64) {
        let What::Register {
            hold,
            serial,
            action,
            value,
            fence,
            highest,
            refused,
            ..
        } = &event.what
        else {
            return;
        };
        if let Some(asked) = self.asked(asked) {
            self.answered_steps.push((who.clone(), *hold, asked.at_ns));
        }
        self.ops.push(Op {
            serial: *serial,
            mark,
            who,
            hold: *hold,
            action: *action,
            value: *value,
            fence: fence.clone(),
            highest: highest.clone(),
            refused: *refused,
        });
    }

    /// Changes the latest hold with this identifier. Identifiers are unique within a process.
    fn change(&mut self, who: &str, hold: u64, change: impl FnOnce(&mut Hold)) {
        let found = |held: &&mut Hold| held.who == who && held.hold == hold;
        if let Some(held) = self.holds.iter_mut().rev().find(found) {
            change(held);
        }
    }

    fn fault(&mut self, mark: Mark, who: String, fault: Fault) {
        if fault == Fault::Killed {
            let open = |held: &&mut Hold| held.who == who && held.is_open();
            self.holds
                .iter_mut()
                .filter(open)
                .for_each(|held| held.killed = Some(mark));
        }
        self.faults.push((mark, who, fault));
    }

    /// The process is dead, silent or confused. It may have given up what it holds.
    fn fall_silent(&mut self, who: &str, mark: Mark) {
        let open = |held: &&mut Hold| held.who == who && held.is_open();
        for held in self.holds.iter_mut().filter(open) {
            held.silent.get_or_insert(mark);
        }
    }

    /// Determines until when each belief is certain.
    fn bound_beliefs(&mut self) {
        for held in &mut self.holds {
            let ends = [held.release, held.killed].into_iter().flatten();
            let end = ends.map(|mark| mark.at_ns).min().unwrap_or(self.end_ns);
            let last_step_before = |ns: u64| {
                let own = |step: &&(String, u64, u64)| {
                    step.0 == held.who && step.1 == held.hold && step.2 < ns
                };
                let last = self.answered_steps.iter().rev().find(own);
                last.map_or(held.granted.at_ns, |step| step.2.max(held.granted.at_ns))
            };
            let doubt = [held.learnt, held.silent].into_iter().flatten();
            let doubt = doubt.min().filter(|doubt| doubt.at_ns <= end);
            held.believed_until_ns = match (doubt, held.valid_until_ns) {
                // A process that reports the loss of its lock, or stops making sense, may have known for a while. It still
                // believed in the lock when it took its last step.
                (Some(doubt), _) => last_step_before(doubt.at_ns),
                // Whoever says how long its lock is valid believes in it no longer, unless a later step shows that it does.
                (None, Some(valid_ns)) if valid_ns < end => valid_ns.max(last_step_before(end)),
                (None, _) => end,
            };
        }
    }

    /// Returns the hold that an operation belongs to.
    pub fn hold_of(&self, op: &Op) -> Option<&Hold> {
        let earlier =
            |held: &&Hold| held.who == op.who && held.hold == op.hold && held.granted <= op.mark;
        self.holds.iter().rev().find(earlier)
    }

    /// Returns the first hold of this process.
    pub fn first_of(&self, who: &str) -> Option<&Hold> {
        self.holds.iter().find(|held| held.who == who)
    }

    /// Returns when this fault was first injected into this process, if it was.
    pub fn fault_of(&self, who: &str, fault: Fault) -> Option<Mark> {
        let done = |(_, whom, what): &&(Mark, String, Fault)| whom == who && *what == fault;
        self.faults.iter().find(done).map(|(mark, ..)| *mark)
    }

    /// Returns the first server with such a change, and when the change happened.
    pub fn server_that(&self, is: fn(Change) -> bool) -> Option<(Mark, &str)> {
        let found = self.servers.iter().find(|(.., change)| is(*change));
        found.map(|(mark, server, _)| (*mark, server.as_str()))
    }

    /// Returns whether the lab saw, after servers had failed, that this server has no record of the lock.
    pub fn is_without_lock(&self, server: &str) -> bool {
        let failed = self.server_that(|change| change == Change::Killed);
        let is_late =
            |inspection: &Inspection| failed.is_some_and(|(mark, _)| inspection.mark > mark);
        let mut inspections = self.inspections.iter();
        inspections.any(|inspection| {
            inspection.server.as_deref() == Some(server) && is_late(inspection) && !inspection.taken
        })
    }

    /// Returns every fence that was granted.
    pub fn fences(&self) -> Vec<&str> {
        let fences = self.holds.iter().map(|held| held.fence.as_deref());
        fences.flatten().collect()
    }

    /// Returns the number of accepted writes, that is, additions that a process believes it has made.
    pub fn additions(&self) -> i64 {
        let written = |op: &&Op| op.action == Action::Write && !op.refused;
        self.ops.iter().filter(written).count() as i64
    }

    /// Returns the final value of the number, which starts at zero.
    pub fn number(&self) -> i64 {
        let written = |op: &&Op| op.action == Action::Write && !op.refused;
        self.ops.iter().rev().find(written).map_or(0, |op| op.value)
    }
}
