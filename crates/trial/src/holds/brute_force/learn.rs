//! How brute force reads the events of a history, one by one.
//!
//! [`Facts`](crate::holds::facts::Facts) reads them alike. `learn`, `op`, `answer_wait` and `bound_beliefs` are copied from it on
//! purpose: the meaning of an event is written down twice, so that a slip in one of the copies makes them differ. Here, each record is
//! found by a search of all records, without an index.

use super::*;

impl BruteForce {
    pub(super) fn learn(&mut self, event: &Event) {
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
                    id: *hold,
                    fence: fence.clone(),
                    valid_until_ns: valid_ms
                        .map(|ms| asked.at_ns.saturating_add((ms * 1e6) as u64)),
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
            What::Refused { op, .. } => drop(self.answer_wait(*op, mark, WaitEnd::Refused)),
            What::Reached { op, step, of, .. } => {
                self.answer_wait(*op, mark, WaitEnd::Unknown);
                let (step, of) = (*step, *of);
                self.halted.push(Halted {
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
                if !definite || !self.released_again.contains(op) {
                    self.fall_silent(&who, mark);
                }
                let message = message.clone();
                self.failures.push(FailedRequest { mark, who, message });
            }
            What::Step { op, .. } => self.asked_ops.push((*op, mark)),
            What::Register { op, .. } => {
                self.op(event, mark, who, *op);
            }
            What::LeaseOver { hold, .. } => {
                self.change(&who, *hold, |hold| hold.lease_over = Some(mark));
            }
            What::Declined { hold, .. } | What::Lost { hold } => {
                let said = matches!(event.what, What::Lost { .. }).then_some(mark);
                let declined = matches!(event.what, What::Declined { .. }).then_some(mark);
                self.change(&who, *hold, |hold| {
                    hold.learned_at.get_or_insert(mark);
                    hold.said_lost = hold.said_lost.or(said);
                    hold.declined = declined.or(hold.declined);
                });
            }
            What::Release { op, hold, .. } => {
                let mut all = self.holds.iter().rev();
                let same = all.find(|one| one.who == who && one.id == *hold);
                if same.is_some_and(|one| one.release.is_some()) {
                    self.released_again.push(*op);
                }
                let first = |hold: &mut Hold| hold.release = hold.release.or(Some(mark));
                self.change(&who, *hold, first);
            }
            What::Released { hold, outcome, .. } => {
                let answer = Some((mark, *outcome));
                self.change(&who, *hold, |hold| hold.released = hold.released.or(answer));
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
            What::Server { server, change } => self.servers.push(ServerChange {
                mark,
                server: server.clone(),
                change: *change,
            }),
            What::Stalled { for_ms } => self.stalls.push(Stall {
                from_ns: mark.at_ns.saturating_sub((for_ms * 1e6) as u64),
                until: mark,
            }),
            What::StockSet { units } => {
                let units = *units;
                self.stock_set.push(StockSet { mark, units });
            }
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
            _ => {}
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
        let asked = self.asked(request);
        if let Some(asked) = asked {
            self.answered_steps.push((who.clone(), *hold, asked.at_ns));
        }
        let found = |own: &&Hold| own.who == who && own.id == *hold;
        let own = self.holds.iter().rev().find(found);
        self.ops.push(Op {
            serial: *serial,
            mark,
            asked,
            key: own.map_or_else(String::new, |own| own.key.clone()),
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
    fn change(&mut self, who: &str, id: u64, change: impl FnOnce(&mut Hold)) {
        let found = |hold: &&mut Hold| hold.who == who && hold.id == id;
        if let Some(hold) = self.holds.iter_mut().rev().find(found) {
            change(hold);
        }
    }

    fn fault(&mut self, mark: Mark, who: String, fault: Fault) {
        if fault == Fault::Killed {
            let open = |hold: &&mut Hold| hold.who == who && hold.is_open();
            self.holds
                .iter_mut()
                .filter(open)
                .for_each(|hold| hold.killed = Some(mark));
        }
        self.faults.push(FaultSeen { mark, who, fault });
    }

    /// Notes that the process is dead, silent or confused. It may have given up what it holds.
    fn fall_silent(&mut self, who: &str, mark: Mark) {
        let open = |hold: &&mut Hold| hold.who == who && hold.is_open();
        for hold in self.holds.iter_mut().filter(open) {
            hold.silent.get_or_insert(mark);
        }
    }

    /// Determines until when each belief is certain.
    pub(super) fn bound_beliefs(&mut self) {
        for hold in &mut self.holds {
            let ends = [hold.release, hold.killed].into_iter().flatten();
            let end = ends.map(|mark| mark.at_ns).min().unwrap_or(self.end_ns);
            let last_step_before = |ns: u64| {
                let own = |step: &&(String, u64, u64)| {
                    step.0 == hold.who && step.1 == hold.id && step.2 < ns
                };
                let last = self.answered_steps.iter().rev().find(own);
                last.map_or(hold.granted.at_ns, |step| step.2.max(hold.granted.at_ns))
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
}
