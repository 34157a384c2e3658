//! Starts the acts of a script: requests to processes, signals, and events of the servers.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use fencepost_rig::Signal;

use super::stalls::witnessed;
use super::{Actor, Doing, PendingRequest, Stage, init};
use crate::history::{Fault, What};
use crate::holds::FIRST_LOCK;
use crate::holds::run::chance::{self, milliseconds};
use crate::holds::run::lease_start::LeaseStart;
use crate::holds::run::script::{Act, ServerEvent};
use crate::holds::run::servers::{Seen, Servers, Watched};
use crate::holds::storm::{PROCESSES, name_of, process_of};
use crate::processes::NoVerdict;
use crate::protocol::{Action, Failure, Request};

impl Stage<'_> {
    /// Begins the next act of every process that is free. Returns whether any act began.
    pub(super) fn begin_ready_acts(&mut self) -> Result<bool, NoVerdict> {
        let mut began = false;
        for index in self.order() {
            let actor = &self.actors[index];
            let is_free = matches!(actor.doing, Doing::Nothing) && !actor.is_at_step;
            let Some(act) = actor.script.front().copied().filter(|_| is_free) else {
                continue;
            };
            if self.is_ready(act) {
                self.actors[index].script.pop_front();
                self.begin(index, act)?;
                began = true;
            }
        }
        Ok(began)
    }

    /// Returns the order in which processes are asked if several are ready. The seed decides it.
    fn order(&self) -> Vec<usize> {
        let acts = self.actors.iter().map(|actor| actor.done).sum();
        chance::order(self.trial.seed, acts, self.actors.len())
    }

    fn is_ready(&self, act: Act) -> bool {
        match act {
            Act::After(other, acts) => self.has_done(other, acts),
            Act::AfterAll(other) => self.actors[other].is_finished(),
            Act::AfterAnswer(other) => self.is_answered(other),
            Act::AfterKills(kills) => self.kills >= kills || self.is_over_for_others(act),
            Act::AfterPause(other, acts) => self.is_at_step(other) || self.has_done(other, acts),
            Act::AfterNextAnswer(other) => self.has_answered(other),
            Act::AfterMet(other, chosen, acts) => {
                let is_chosen = self.actors[other].done >= chosen;
                self.has_done(other, acts) || is_chosen && self.has_met(other)
            }
            _ => true,
        }
    }

    /// Returns whether every process has finished, except those that wait with the same act.
    fn is_over_for_others(&self, act: Act) -> bool {
        let mut actors = self.actors.iter();
        actors.all(|actor| actor.is_finished() || actor.script.front() == Some(&act))
    }

    pub(super) fn has_done(&self, index: usize, acts: usize) -> bool {
        self.actors[index].done >= acts || self.actors[index].is_finished()
    }

    fn begin(&mut self, index: usize, act: Act) -> Result<(), NoVerdict> {
        match act {
            Act::KillIfBelow(most) if self.kills < most => self.kill(index),
            Act::After(..)
            | Act::AfterAll(_)
            | Act::AfterAnswer(_)
            | Act::AfterKills(_)
            | Act::AfterPause(..)
            | Act::AfterNextAnswer(_)
            | Act::AfterMet(..)
            | Act::KillIfBelow(_) => {
                self.actors[index].done += 1;
            }
            Act::Meet(other, acts, _) if self.has_done(other, acts) => {
                self.actors[index].finish_act()
            }
            Act::Meet(other, acts, limit) => {
                self.actors[index].doing = Doing::Meeting(other, acts, Instant::now() + limit);
            }
            Act::Work(time) => self.actors[index].doing = Doing::Until(Instant::now() + time),
            Act::Acquire { key, wait } | Act::TryAnyway { key, wait } => {
                self.acquire(index, act, key, wait, None);
            }
            Act::TryUnlessHeld { key, .. } | Act::WorkUnlessHeld { key, .. }
                if self.actors[index].hold_of(key).is_some() =>
            {
                self.actors[index].finish_act();
            }
            Act::TryUnlessHeld { key, wait } => self.acquire(index, act, key, wait, None),
            Act::WorkUnlessHeld { time, .. } => {
                self.actors[index].doing = Doing::Until(Instant::now() + time);
            }
            Act::AcquireStepwise { key } => self.acquire(index, act, key, Duration::ZERO, Some(1)),
            Act::AcquirePaused { key, wait } => self.acquire(index, act, key, wait, Some(1)),
            Act::Try { key } => self.acquire(index, act, key, Duration::ZERO, None),
            Act::Step { key, action } | Act::StepIfHeld { key, action } => {
                self.step(index, act, key, action);
            }
            Act::SendWrite { key } => self.step(index, act, key, Action::Write),
            Act::Arrive(other) => {
                self.arrive(other);
                self.actors[index].finish_act();
            }
            Act::Release { key } | Act::ReleaseIfHeld { key } => {
                self.release(index, act, key, None);
            }
            Act::ReleaseAgain { key } => self.release_again(index, act, key),
            Act::ReleaseStepwise { key } => self.release(index, act, key, Some(1)),
            Act::Buy { wait } => self.buy(index, act, wait),
            Act::Restock(units) => {
                self.set_stock(units)?;
                self.actors[index].finish_act();
            }
            Act::Servers(event) => {
                self.act_on_servers(event)?;
                self.actors[index].finish_act();
            }
            Act::Road(event) => {
                self.act_on_road(index, event);
                self.actors[index].finish_act();
            }
            Act::Clock(event) => {
                self.act_on_clock(index, event);
                self.actors[index].finish_act();
            }
            Act::EndUnlessMet if !self.has_met(index) => self.actors[index].end(),
            Act::EndIfFinished(other) if self.actors[other].is_finished() => {
                self.actors[index].end();
            }
            Act::EndUnlessPaused(other) if !self.is_at_step(other) => self.actors[index].end(),
            Act::EndUnlessMet | Act::EndIfFinished(_) | Act::EndUnlessPaused(_) => {
                self.actors[index].done += 1;
            }
            Act::LoseWithheld(other) => {
                self.lose_withheld(other);
                self.actors[index].finish_act();
            }
            Act::Deliver(other) => {
                self.deliver(other);
                self.actors[index].finish_act();
            }
            Act::ReconnectWithin(time) => {
                self.reconnect_within(index, time);
                self.actors[index].finish_act();
            }
            Act::Kill => self.kill(index),
            Act::KillOther(other) => {
                self.kill(other);
                self.actors[index].finish_act();
            }
            Act::Restart => self.restart(index)?,
            Act::Stop => {
                let _ = self.subjects.child(index).signal(Signal::SIGSTOP);
                self.witness_stop(index);
                self.actors[index].finish_act();
            }
            Act::Continue => self.resume(index),
        }
        Ok(())
    }

    /// Sends a request, timestamped before it is written.
    fn ask(&mut self, index: usize, act: Act, wait: Duration, request: &Request, what: What) {
        let at = Instant::now();
        self.diary.later(at, Some(&self.actors[index].who), what);
        let op = self.last_op;
        self.actors[index].doing =
            Doing::Asked(PendingRequest { op, act }, at + wait + self.answer_timeout);
        self.subjects.send(index, request);
    }

    fn next_op(&mut self) -> u64 {
        self.last_op += 1;
        self.last_op
    }

    fn acquire(
        &mut self,
        index: usize,
        act: Act,
        key: &str,
        wait: Duration,
        halt_after: Option<u32>,
    ) {
        if let Some(roads) = &mut self.roads {
            roads.of(index).asked();
        }
        let (op, wait_ms) = (self.next_op(), milliseconds(wait));
        let request = Request::Acquire {
            op,
            key: key.into(),
            wait_ms,
            halt_after,
        };
        let key = key.into();
        self.ask(
            index,
            act,
            wait,
            &request,
            What::Acquire { op, key, wait_ms },
        );
    }

    /// Ends an act that needs a hold which the process does not have: it is left out, or the process has nothing more to do.
    fn without_hold(&mut self, index: usize, act: Act) {
        match act {
            Act::StepIfHeld { .. } | Act::ReleaseIfHeld { .. } => self.actors[index].finish_act(),
            _ => self.actors[index].end(),
        }
    }

    fn step(&mut self, index: usize, act: Act, key: &str, action: Action) {
        let Some(hold) = self.actors[index].hold_of(key) else {
            return self.without_hold(index, act);
        };
        let op = self.next_op();
        let request = Request::Step { op, hold, action };
        let what = What::Step { op, hold, action };
        self.ask(index, act, Duration::ZERO, &request, what);
    }

    fn release(&mut self, index: usize, act: Act, key: &str, halt_after: Option<u32>) {
        let Some(hold) = self.actors[index].hold_of(key) else {
            return self.without_hold(index, act);
        };
        let op = self.next_op();
        let request = Request::Release {
            op,
            hold,
            halt_after,
        };
        // If the process is to stop on the way, it has the lock until it continues, and the lease may expire meanwhile.
        if halt_after.is_none() {
            self.diary.forget_lease(index, hold);
        }
        let key = key.into();
        let what = What::Release { op, key, hold };
        self.ask(index, act, Duration::ZERO, &request, what);
    }

    /// Asks for the release of what is released. A process that has released nothing is not asked.
    fn release_again(&mut self, index: usize, act: Act, key: &str) {
        let Some(hold) = self.actors[index].released_last(key) else {
            return self.actors[index].finish_act();
        };
        let op = self.next_op();
        let request = Request::Release {
            op,
            hold,
            halt_after: None,
        };
        let key = key.into();
        let what = What::Release { op, key, hold };
        self.ask(index, act, Duration::ZERO, &request, what);
    }

    fn buy(&mut self, index: usize, act: Act, wait: Duration) {
        let (op, quantity) = (self.next_op(), 1);
        let request = Request::Purchase {
            op,
            product: FIRST_LOCK.into(),
            quantity,
            wait_ms: milliseconds(wait),
            delay_us: 0,
            retry: None,
        };
        self.ask(index, act, wait, &request, What::Purchase { op, quantity });
    }

    pub(super) fn set_stock(&mut self, units: i64) -> Result<(), NoVerdict> {
        if let Some(stock) = &mut self.stock {
            stock.write(FIRST_LOCK, units)?;
        }
        self.diary
            .later(Instant::now(), None, What::StockSet { units });
        Ok(())
    }

    /// Does this to the servers, and records what was observed.
    pub(super) fn act_on_servers(&mut self, event: ServerEvent) -> Result<(), NoVerdict> {
        self.observe(|servers, watched| match event {
            ServerEvent::CutOff => servers.cut_off(),
            ServerEvent::Kill => servers.kill(watched),
            ServerEvent::ServeAgain => servers.serve_again(watched),
            ServerEvent::Misbehave => servers.misbehave(watched),
            ServerEvent::Stop(stop) => servers.stop(stop),
        })
    }

    /// Inspects the servers when the trial is over.
    pub(super) fn look_at_servers(&mut self) -> Result<(), NoVerdict> {
        self.observe(|servers, watched| servers.last_look(watched))
    }

    fn observe(
        &mut self,
        act: impl FnOnce(&mut dyn Servers, &Watched<'_>) -> Result<Vec<Seen>, Failure>,
    ) -> Result<(), NoVerdict> {
        self.notice_stall();
        let Some(servers) = &mut self.servers else {
            return Ok(());
        };
        let watched = Watched {
            ground: self.ground,
            key: FIRST_LOCK,
            is_known: !self.trial.strategy.is_external(),
        };
        // Starting and stopping servers takes seconds.
        let (seen, stalls) = witnessed(|| act(&mut **servers, &watched));
        self.was_busy(stalls);
        for seen in seen? {
            self.diary.later(seen.at, None, seen.what);
        }
        Ok(())
    }

    /// Kills the process, and records the kill once its death by that signal was observed.
    pub(super) fn kill(&mut self, index: usize) {
        // Taken before the kill: from here on, what the process believes is unknown.
        let at = Instant::now();
        let child = self.subjects.child(index);
        let _ = child.signal(Signal::SIGKILL);
        let status = child.wait(self.witness_timeout);
        if status.is_some_and(|status| status.signal() == Some(Signal::SIGKILL as i32)) {
            self.fault(at, index, Fault::Killed);
        }
        self.kills += 1;
        self.diary.forget_leases(index);
        self.actors[index].alive = false;
        self.actors[index].end();
    }

    /// Kills the process and starts it again. Its next life has the rest of the script.
    fn restart(&mut self, index: usize) -> Result<(), NoVerdict> {
        let script = std::mem::take(&mut self.actors[index].script);
        let done = self.actors[index].done + 1;
        let pid = self.subjects.child(index).number_inside();
        self.kill(index);
        let life = process_of(&self.actors[index].who).1 + 1;
        // Every life of every process has a number of its own.
        let number = self.actors[index].number + self.actors.len();
        self.start_life(index, life, number)?;
        self.witness_pid(index, pid);
        (self.actors[index].script, self.actors[index].done) = (script, done);
        Ok(())
    }

    /// Records that the process has the same process id as in its life before, if the lab chose it and it was seen.
    fn witness_pid(&mut self, index: usize, before: Option<i32>) {
        let after = self.subjects.child(index).number_inside();
        if self.trial.scenario.chooses_pids() && before.is_some() && before == after {
            self.fault(Instant::now(), index, Fault::SamePid);
        }
    }

    /// Starts a dead process again. Its new life has a name and a number of its own, and may count its holds from 1.
    pub(super) fn start_life(
        &mut self,
        index: usize,
        life: u64,
        number: usize,
    ) -> Result<(), NoVerdict> {
        let process = PROCESSES[index];
        let endpoints = match &self.roads {
            Some(roads) => roads.endpoints(index),
            None => self.trial.strategy.endpoints(self.ground),
        };
        let init = init(self.trial, endpoints, process, life);
        let mut command = (self.subject)();
        if let Some(clocks) = &self.clocks {
            clocks.give(index, &mut command);
        }
        self.subjects.restart(index, command, &init)?;
        let mut actor = Actor::new(name_of(process, life), number, Vec::new());
        actor.doing = Doing::Starting(Instant::now() + self.answer_timeout);
        self.actors[index] = actor;
        Ok(())
    }

    /// Records that the process is stopped, once it was seen in that state.
    pub(super) fn witness_stop(&mut self, index: usize) {
        let within = self.witness_timeout;
        if !self.subjects.child(index).wait_stopped(within) {
            return;
        }
        let at = Instant::now();
        self.fault(at, index, Fault::Stopped);
        self.actors[index].is_stopped = true;
        if let Some(clocks) = &mut self.clocks {
            clocks.stopped(index, at);
        }
        self.expect_no_renewal(index, at);
    }

    /// Notes that the process cannot renew its leases any more; the last renewal was before this time.
    pub(super) fn expect_no_renewal(&mut self, index: usize, at: Instant) {
        if self.lease_start != LeaseStart::Renewed {
            return;
        }
        let over = at + self.trial.ttl();
        for held in &self.actors[index].holds {
            let who = (index, self.actors[index].who.as_str());
            self.diary.expect_lease_over(over, who, held.key, held.hold);
        }
    }

    /// Continues a process that was told to stop. It may have stopped later than it was watched, so it gets the signal in any case; only
    /// a stop that was seen has an end that is recorded.
    pub(super) fn go_on(&mut self, index: usize, at: Instant) {
        let _ = self.subjects.child(index).signal(Signal::SIGCONT);
        if std::mem::take(&mut self.actors[index].is_stopped) {
            self.fault(at, index, Fault::Continued);
        }
        if self.lease_start == LeaseStart::Renewed {
            self.diary.forget_leases(index);
        }
    }

    fn resume(&mut self, index: usize) {
        self.suspend(index);
        // Taken before the signal: the process may answer before this thread runs again.
        let at = Instant::now();
        self.go_on(index, at);
        match self.actors[index].interrupted.take() {
            Some(asked) => {
                let wait = match asked.act {
                    Act::AcquirePaused { wait, .. } => wait,
                    _ => Duration::ZERO,
                };
                self.actors[index].doing = Doing::Asked(asked, at + wait + self.answer_timeout);
            }
            None => self.actors[index].finish_act(),
        }
    }

    pub(super) fn fault(&mut self, at: Instant, index: usize, fault: Fault) {
        let who = Some(self.actors[index].who.as_str());
        self.diary.later(at, who, What::Fault { fault });
    }
}
