//! Derives the facts from the events, one after the other. Requests, holds and purchases are looked up by their numbers.

use std::collections::{HashMap, HashSet};

use super::{
    Buy, Facts, FailedRequest, FaultSeen, GaveUp, Halted, Hold, HoldsOfName, Inspection, Mark, Op,
    ServerChange, Stall, StockSet, UnseenGrant, Wait, WaitEnd,
};
use crate::history::{Event, Fault, What};
use crate::holds::lookup::{ByHold, LastBelow};

/// The facts so far, and where to find them.
#[derive(Default)]
pub(super) struct Learner {
    facts: Facts,
    /// The first wait with each request number.
    waits: HashMap<u64, usize>,
    /// When each step and each purchase was first requested.
    asked: HashMap<u64, Mark>,
    /// The first purchase that was requested at each event.
    buys: HashMap<Mark, usize>,
    holds: ByHold<Vec<usize>>,
    /// The holds of each process that were not yet ended by its death.
    not_killed: HashMap<String, Vec<usize>>,
    /// The holds of each process that were not yet put into doubt by a failure.
    not_silent: HashMap<String, Vec<usize>>,
    /// The requests to release a hold for which that had been requested before.
    released_again: HashSet<u64>,
    /// When the steps of each hold were requested, of those that were answered.
    steps: ByHold<Vec<u64>>,
}

impl Learner {
    pub(super) fn of(events: &[Event]) -> Facts {
        let mut learner = Self::default();
        for event in events {
            learner.learn(event);
        }
        learner.facts.end_ns = events.last().map_or(0, |event| event.at_ns);
        learner.finish()
    }

    fn learn(&mut self, event: &Event) {
        let mark = Mark::from(event);
        let who = event.who.clone().unwrap_or_default();
        match &event.what {
            What::Acquire { op, key, wait_ms } => {
                self.waits.entry(*op).or_insert(self.facts.waits.len());
                self.facts.waits.push(Wait {
                    who,
                    key: key.clone(),
                    op: *op,
                    wait_ms: *wait_ms,
                    asked: mark,
                    answer: None,
                });
            }
            What::Acquired { .. } => self.grant(event, mark, who),
            What::Refused { op, .. } => drop(self.answer_wait(*op, mark, WaitEnd::Refused)),
            What::Reached { op, step, of, .. } => {
                self.answer_wait(*op, mark, WaitEnd::Unknown);
                let (step, of) = (*step, *of);
                self.facts.halted.push(Halted {
                    mark,
                    who,
                    step,
                    of,
                });
            }
            What::Failed {
                op,
                definite,
                message,
            } => {
                self.answer_wait(*op, mark, WaitEnd::Unknown);
                // Whoever refuses to release what it has released still has everything else.
                if !*definite || !self.released_again.contains(op) {
                    self.fall_silent(&who, mark);
                }
                let message = message.clone();
                self.facts
                    .failures
                    .push(FailedRequest { mark, who, message });
            }
            What::Step { op, .. } => {
                self.asked.entry(*op).or_insert(mark);
            }
            What::Register { op, .. } => self.op(event, mark, who, *op),
            What::LeaseOver { hold, .. } => {
                self.change(&who, *hold, |hold| hold.lease_over = Some(mark));
            }
            What::Declined { hold, .. } => {
                self.change(&who, *hold, |hold| {
                    hold.learned_at.get_or_insert(mark);
                    hold.declined = Some(mark);
                });
            }
            What::Lost { hold } => {
                self.change(&who, *hold, |hold| {
                    hold.learned_at.get_or_insert(mark);
                    hold.said_lost.get_or_insert(mark);
                });
            }
            What::Release { op, hold, .. } => {
                let mut is_first = true;
                // A second request changes nothing about the first.
                self.change(&who, *hold, |hold| {
                    is_first = *hold.release.get_or_insert(mark) == mark;
                });
                if !is_first {
                    self.released_again.insert(*op);
                }
            }
            What::Released { hold, outcome, .. } => {
                let outcome = *outcome;
                self.change(&who, *hold, |hold| {
                    hold.released.get_or_insert((mark, outcome));
                });
            }
            What::Fault { fault } => self.fault(mark, who, *fault),
            What::StoreRead {
                key,
                taken,
                ttl_left_ms,
                server,
            } => self.facts.inspections.push(Inspection {
                mark,
                key: key.clone(),
                taken: *taken,
                ttl_left_ms: *ttl_left_ms,
                server: server.clone(),
            }),
            What::Server { server, change } => self.facts.servers.push(ServerChange {
                mark,
                server: server.clone(),
                change: *change,
            }),
            What::StockSet { units } => {
                let units = *units;
                self.facts.stock_set.push(StockSet { mark, units });
            }
            What::Purchase { op, .. } => {
                self.asked.entry(*op).or_insert(mark);
                self.buys.entry(mark).or_insert(self.facts.buys.len());
                self.facts.buys.push(Buy {
                    who,
                    asked: mark,
                    answer: None,
                    waited_ms: 0.0,
                });
            }
            What::Purchased { op, purchase } => {
                let buy = self.asked.get(op).and_then(|asked| self.buys.get(asked));
                if let Some(buy) = buy {
                    let buy = &mut self.facts.buys[*buy];
                    buy.answer = Some((mark, purchase.outcome));
                    buy.waited_ms = purchase.waited_ms;
                }
            }
            What::Stalled { for_ms } => {
                let from_ns = mark.at_ns.saturating_sub((for_ms * 1e6) as u64);
                let until = mark;
                self.facts.stalls.push(Stall { from_ns, until });
            }
            What::Slept { for_ms } => *self.facts.slept_ms.get_or_insert_default() += for_ms,
            What::Unseen { .. } => self.facts.unseen.push(UnseenGrant { mark, who }),
            What::GaveUp { why } => {
                let why = why.clone();
                self.facts.given_up.push(GaveUp { mark, why });
            }
            What::Round { .. } | What::StockRead { .. } => {}
        }
    }

    fn grant(&mut self, event: &Event, mark: Mark, who: String) {
        let What::Acquired {
            op,
            key,
            hold,
            fence,
            valid_ms,
            ..
        } = &event.what
        else {
            return;
        };
        let asked = self.answer_wait(*op, mark, WaitEnd::Granted);
        let asked = asked.unwrap_or(mark);
        let place = self.facts.holds.len();
        self.holds.or_default(&who, *hold).push(place);
        for holds in [&mut self.not_killed, &mut self.not_silent] {
            holds.entry(who.clone()).or_default().push(place);
        }
        self.facts.holds.push(Hold {
            who,
            key: key.clone(),
            id: *hold,
            fence: fence.clone(),
            valid_until_ns: valid_ms.map(|ms| asked.at_ns.saturating_add((ms * 1e6) as u64)),
            asked,
            granted: mark,
            lease_over: None,
            release: None,
            released: None,
            killed: None,
            learned_at: None,
            said_lost: None,
            declined: None,
            silent: None,
            believed_until_ns: 0,
        });
    }

    /// Records the answer to a wait and returns when the wait was requested.
    fn answer_wait(&mut self, op: u64, mark: Mark, end: WaitEnd) -> Option<Mark> {
        let wait = &mut self.facts.waits[*self.waits.get(&op)?];
        wait.answer = Some((mark, end));
        Some(wait.asked)
    }

    fn op(&mut self, event: &Event, mark: Mark, who: String, request: u64) {
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
        let asked = self.asked.get(&request).copied();
        if let Some(asked) = asked {
            self.steps.or_default(&who, *hold).push(asked.at_ns);
        }
        let place = self.holds.get(&who, *hold).and_then(|holds| holds.last());
        let key = place.map(|place| self.facts.holds[*place].key.clone());
        self.facts.ops.push(Op {
            serial: *serial,
            mark,
            asked,
            who,
            hold: *hold,
            key: key.unwrap_or_default(),
            action: *action,
            value: *value,
            fence: fence.clone(),
            highest: highest.clone(),
            refused: *refused,
        });
    }

    /// Changes the latest hold with this identifier. Identifiers are unique within a process.
    fn change(&mut self, who: &str, hold: u64, change: impl FnOnce(&mut Hold)) {
        let latest = self.holds.get(who, hold).and_then(|holds| holds.last());
        if let Some(place) = latest {
            change(&mut self.facts.holds[*place]);
        }
    }

    fn fault(&mut self, mark: Mark, who: String, fault: Fault) {
        if fault == Fault::Killed {
            let holds = self.not_killed.remove(&who).unwrap_or_default();
            self.each_open(holds, |hold| hold.killed = Some(mark));
        }
        self.facts.faults.push(FaultSeen { mark, who, fault });
    }

    /// Notes that the process is dead, silent or confused. It may have given up what it holds.
    fn fall_silent(&mut self, who: &str, mark: Mark) {
        let holds = self.not_silent.remove(who).unwrap_or_default();
        self.each_open(holds, |hold| hold.silent = Some(mark));
    }

    fn each_open(&mut self, holds: Vec<usize>, change: impl Fn(&mut Hold)) {
        for place in holds {
            let hold = &mut self.facts.holds[place];
            // A hold that is over stays over, so nobody need look at it again.
            if hold.is_open() {
                change(hold);
            }
        }
    }

    fn finish(self) -> Facts {
        let mut facts = self.facts;
        bound_beliefs(&mut facts, &self.steps.map(LastBelow::of));
        let granted = |place: &usize| facts.holds[*place].granted;
        let named = self.holds.map(|places| HoldsOfName {
            granted: LastBelow::of(places.iter().map(granted).collect()),
            places,
        });
        facts.holds_of_name = named;
        facts.cycles = super::cycle::cycles(&facts);
        facts
    }
}

/// Determines until when each belief is certain.
fn bound_beliefs(facts: &mut Facts, steps: &ByHold<LastBelow<u64>>) {
    for hold in &mut facts.holds {
        let ends = [hold.release, hold.killed].into_iter().flatten();
        let end = ends.map(|mark| mark.at_ns).min().unwrap_or(facts.end_ns);
        let last_step_before = |ns: u64| {
            let own = steps.get(&hold.who, hold.id);
            let last = own.and_then(|steps| steps.last(|asked_ns| *asked_ns < ns));
            last.map_or(hold.granted.at_ns, |(_, asked_ns)| {
                asked_ns.max(hold.granted.at_ns)
            })
        };
        let doubt = [hold.learned_at, hold.silent].into_iter().flatten();
        let doubt = doubt.min().filter(|doubt| doubt.at_ns <= end);
        hold.believed_until_ns = match (doubt, hold.valid_until_ns) {
            // A process that reports the loss of its lock, or stops making sense, may have known for a while. It still
            // believed in the lock when it took its last step.
            (Some(doubt), _) => last_step_before(doubt.at_ns),
            // Whoever says how long its lock is valid believes in it no longer, unless a later step shows that it does.
            (None, Some(valid_ns)) if valid_ns < end => valid_ns.max(last_step_before(end)),
            (None, _) => end,
        };
    }
}
