//! The stage of a lock trial: the loop that starts acts, receives answers, sends signals and records events.
//!
//! It runs on one thread. A request is timestamped before it is written, and a reply after it was read. A step is executed on
//! the number as soon as its reply is read. A signal is recorded once its effect was observed, with a timestamp that never
//! overestimates how long a process believed in its lock or was paused.

use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};

use fencepost_rig::Interrupt;

use super::LockWatch;
use super::clocks::Clocks;
use super::lease_start::LeaseStart;
use super::roads::Roads;
use super::script::scripts;
use super::servers::{self, Servers};
use crate::history::{History, Recorder, What};
use crate::holds::register::{FenceCheck, Registers};
use crate::holds::storm::{LOCKS, PROCESSES};
use crate::holds::{FIRST_LOCK, SECOND_LOCK, Scenario, Trial};
use crate::holds::{many_leases, names};
use crate::processes::{Heard, LOOK_UP, NoVerdict, Pids, Processes, Said};
use crate::protocol::{Claims, PROTOCOL, Reply, Request, Resource};
use crate::store::stock::Stock;
use crate::store::{Ground, TemporaryGround};
use crate::text::foreign::quote;

mod actor;
mod acts;
mod answers;
mod clocks;
mod diary;
mod inspection;
mod network;
mod stalls;
mod standstill;
mod storm;

use actor::{Actor, Doing, HeldLock, PendingRequest};
use diary::Diary;
use standstill::Standstill;
use storm::Storm;

/// The request number for a process that fails without having been asked anything. Real requests count from one.
const NOTHING_ASKED: u64 = 0;

/// Runs a lock trial, from the start of the first process to the last look at the store.
///
/// `subject` makes the command of each process; `file` receives the history as it happens.
///
/// Call this function from a thread that outlives the run (see [`fencepost_rig::Child::spawn`]). Whatever the outcome, no
/// process and no temporary file is left when it returns.
///
/// # Errors
/// Returns a [`NoVerdict`] that says why there is nothing to judge.
pub fn run(
    trial: &Trial,
    subject: &dyn Fn() -> Command,
    file: Option<File>,
    watch: &mut dyn LockWatch,
    interrupt: Interrupt,
) -> Result<History, NoVerdict> {
    // The servers come before the ground, so that they still run when the ground is cleared.
    let servers = servers::start(trial)?;
    let store = servers.as_ref().map(|servers| servers.store());
    let temporary = TemporaryGround::prepare(store.as_ref().unwrap_or(&trial.store))?;
    let roads = Roads::start(trial, &temporary.ground)?;
    let stock = match trial.scenario.resource() {
        Resource::Stock => Some(temporary.ground.stock()?),
        Resource::Register => None,
    };
    let clocks = Clocks::start(trial)?;
    let endpoints = |index| match &roads {
        Some(roads) => roads.endpoints(index),
        None => trial.strategy.endpoints(&temporary.ground),
    };
    let clocked = |index| {
        let mut command = subject();
        if let Some(clocks) = &clocks {
            clocks.give(index, &mut command);
        }
        command
    };
    let subjects = match gather(trial, &endpoints, &clocked, watch, interrupt) {
        Ok(subjects) => subjects,
        Err(no_verdict) => {
            // The file should at least say what was to be tried.
            let _ = Recorder::start(trial.header(), file);
            return Err(no_verdict);
        }
    };
    let claims = claims(trial, &subjects);
    let header = trial.header_with(claims);
    let recorder = Recorder::start(header, file).map_err(|error| NoVerdict::History {
        error,
        progress: "no process was asked anything yet".into(),
        events: 0,
    })?;
    let actors = scripts(trial, claims).into_iter().zip(names(trial));
    let actors = actors.enumerate();
    let mut stage = Stage {
        trial,
        subject,
        ground: &temporary.ground,
        stock,
        servers,
        roads,
        clocks,
        subjects,
        actors: actors
            .map(|(number, (script, who))| Actor::new(who, number, script))
            .collect(),
        lease_start: LeaseStart::of(claims),
        registers: Registers::new(FenceCheck::of(claims)),
        storm: trial.storm.map(|storm| Storm::new(trial, storm, claims)),
        diary: Diary::new(recorder),
        last_op: 0,
        kills: 0,
        answer_timeout: watch.answer_timeout(),
        witness_timeout: watch.witness_timeout(),
        last_seen: Instant::now(),
        standstill: Standstill::default(),
        watch,
        interrupt,
    };
    let played = stage.play().and_then(|()| stage.look_at_store());
    played.map_err(|no_verdict| no_verdict.after(stage.diary.history().events.len()))?;
    stage.notice_stall();
    stage.shut_down_processes();
    stage.diary.finish()
}

/// Returns the claims by which the lock is judged. Those of an external lock were settled before the trial, with its manifest. A lock of
/// ours may claim something else on this store than the list says.
fn claims(trial: &Trial, subjects: &Processes) -> Claims {
    if trial.strategy.is_external() {
        trial.strategy.claims
    } else {
        subjects.claims().unwrap_or_default()
    }
}

fn gather(
    trial: &Trial,
    endpoints: &dyn Fn(usize) -> Vec<String>,
    subject: &dyn Fn(usize) -> Command,
    watch: &mut dyn LockWatch,
    interrupt: Interrupt,
) -> Result<Processes, NoVerdict> {
    let index = |id: &str| names(trial).position(|name| name == id);
    let init = |id: &str| init(trial, endpoints(index(id).unwrap_or_default()), id, 1);
    let answer_timeout = watch.answer_timeout();
    let names = names(trial).map(str::to_owned).collect();
    let mut starting = |ready, of| watch.starting(ready, of);
    let pids = if trial.scenario.chooses_pids() {
        Pids::chosen()?
    } else {
        Pids::ANY
    };
    let gathered = Processes::gather(
        (names, pids),
        subject,
        &init,
        answer_timeout,
        interrupt,
        &mut starting,
    );
    if trial.strategy.is_external() {
        return gathered;
    }
    gathered.map_err(NoVerdict::of_our_lock)
}

/// Returns the names of the processes in their first lives.
fn names(trial: &Trial) -> impl Iterator<Item = &'static str> {
    PROCESSES.into_iter().take(trial.processes())
}

/// Returns the request that makes a process ready, in one of its lives.
fn init(trial: &Trial, endpoints: Vec<String>, id: &str, incarnation: u64) -> Request {
    let keys = match trial.storm {
        Some(storm) => LOCKS.iter().take(storm.names).copied().collect(),
        None if trial.scenario == Scenario::Names => names::all(),
        None if trial.scenario == Scenario::ManyLeases => many_leases::all(),
        None => vec![FIRST_LOCK, SECOND_LOCK],
    };
    Request::Init {
        protocol: PROTOCOL,
        id: id.into(),
        incarnation,
        keys: keys.into_iter().map(str::to_owned).collect(),
        ttl_ms: trial.ttl_ms,
        endpoints,
        resource: trial.scenario.resource(),
        start: None,
    }
}

struct Stage<'a> {
    trial: &'a Trial,
    /// Makes the command of each process.
    subject: &'a dyn Fn() -> Command,
    ground: &'a Ground,
    /// The stock for purchases.
    stock: Option<Box<dyn Stock>>,
    servers: Option<Box<dyn Servers>>,
    /// The roads to the store, if the lab comes between.
    roads: Option<Roads>,
    /// The clocks of the processes, if the lab sets them.
    clocks: Option<Clocks>,
    subjects: Processes,
    actors: Vec<Actor>,
    lease_start: LeaseStart,
    registers: Registers,
    /// What happens next in a storm.
    storm: Option<Storm>,
    diary: Diary,
    last_op: u64,
    /// How many processes were killed.
    kills: usize,
    answer_timeout: Duration,
    witness_timeout: Duration,
    /// When the lab was last seen to be there.
    last_seen: Instant,
    standstill: Standstill,
    watch: &'a mut dyn LockWatch,
    interrupt: Interrupt,
}

impl Stage<'_> {
    /// Follows the scripts until every process has finished.
    fn play(&mut self) -> Result<(), NoVerdict> {
        if self.trial.scenario == Scenario::ShortStock {
            self.set_stock(0)?;
        }
        self.diary.restart_clock();
        self.last_seen = Instant::now();
        loop {
            self.notice_stall();
            self.storm()?;
            while self.begin_ready_acts()? {}
            self.show();
            if self.is_over_for_all() {
                return Ok(());
            }
            self.check_interrupt()?;
            let pause = self.next_alarm().saturating_duration_since(Instant::now());
            match self.subjects.next(pause.min(self.look_up())) {
                Ok(heard) => self.handle_output(heard)?,
                // Everything that was said before this moment has been read.
                Err(_) => {
                    let now = Instant::now();
                    self.notice_met(now);
                    self.notice_read(now);
                    self.diary.settle(now)?;
                }
            }
            self.handle_timeouts()?;
        }
    }

    /// Returns the next time at which something happens without an answer.
    fn next_alarm(&self) -> Instant {
        let now = Instant::now();
        let alarms = self.actors.iter().filter_map(|actor| match actor.doing {
            Doing::Until(until) | Doing::Meeting(_, _, until) => Some(until),
            _ => None,
        });
        let storm = self.storm.as_ref().and_then(Storm::next_alarm);
        alarms
            .chain(self.diary.next_lease_over())
            .chain(storm)
            .chain(self.roads.as_ref().and_then(Roads::next_alarm))
            .min()
            .unwrap_or(now + LOOK_UP)
    }

    fn handle_timeouts(&mut self) -> Result<(), NoVerdict> {
        let now = Instant::now();
        self.reconnect_due(now);
        self.deliver_forgotten();
        self.end_standstill(now);
        for index in 0..self.actors.len() {
            match &self.actors[index].doing {
                Doing::Until(until) if *until <= now => self.actors[index].finish_act(),
                Doing::Meeting(other, acts, until)
                    if *until <= now || self.has_done(*other, *acts) =>
                {
                    self.actors[index].finish_act();
                }
                Doing::Starting(until) if *until <= now => {
                    let no_verdict = self.subjects.mute();
                    self.not_ready_again(index, now, no_verdict)?;
                }
                Doing::Asked(asked, until) if *until <= now => {
                    let message = format!("no answer for {} s", self.answer_timeout.as_secs());
                    let op = asked.op;
                    self.fail(index, op, now, false, message)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Handles what a process said, or that it closed its output.
    fn handle_output(&mut self, heard: Heard) -> Result<(), NoVerdict> {
        let (index, at) = (heard.from, heard.at);
        // Before the answer that it explains.
        self.notice_met(at);
        self.notice_read(at);
        self.diary.settle(at)?;
        if let Doing::Starting(_) = self.actors[index].doing {
            return self.hear_returned(index, heard);
        }
        let message = match heard.what {
            Said::Reply(reply, line) => match self.handle_reply(index, at, reply, &line)? {
                None => return Ok(()),
                Some(complaint) => complaint,
            },
            Said::Invalid(why) => why,
            Said::CutOff(why) => return self.is_over(index, at, |_| why),
            Said::Closed => {
                return self.is_over(index, at, |subjects| {
                    subjects.how_it_ended_with_stderr(index)
                });
            }
        };
        match self.actors[index].doing {
            Doing::Asked(asked, _) => self.fail(index, asked.op, at, false, message),
            // The process is dead, or it will not be asked anything more.
            _ if !self.actors[index].alive || self.actors[index].is_finished() => Ok(()),
            _ => self.fail(index, NOTHING_ASKED, at, false, message),
        }
    }

    /// Handles a message. Returns what is wrong with it, if it answers nothing.
    fn handle_reply(
        &mut self,
        index: usize,
        at: Instant,
        reply: Reply,
        line: &str,
    ) -> Result<Option<String>, NoVerdict> {
        let asked = match self.actors[index].doing {
            Doing::Asked(asked, _) => Some(asked),
            _ => None,
        };
        match (reply, asked) {
            (Reply::Lost { hold }, _) => {
                self.diary.forget_lease(index, hold);
                if self.storm.is_some() {
                    self.actors[index].lose(hold);
                }
                self.note(at, index, What::Lost { hold })?;
                Ok(None)
            }
            (reply, Some(asked)) if reply.op() == Some(asked.op) => {
                self.answer(index, at, asked, reply)?;
                Ok(None)
            }
            (Reply::Error { message, .. }, Some(_)) => Ok(Some(message)),
            (_, Some(_)) => Ok(Some(format!("answered another request: {}", quote(line)))),
            (_, None) => Ok(Some(format!("answered without a request: {}", quote(line)))),
        }
    }

    /// Notes that the process has exited, was cut off, or will not answer any more because it closed its output. `how` says which.
    fn is_over(
        &mut self,
        index: usize,
        at: Instant,
        how: impl FnOnce(&mut Processes) -> String,
    ) -> Result<(), NoVerdict> {
        if !std::mem::replace(&mut self.actors[index].alive, false) {
            return Ok(());
        }
        let end = how(&mut self.subjects);
        self.diary.forget_leases(index);
        let asked = match self.actors[index].doing {
            Doing::Asked(asked, _) => Some(asked),
            _ => self.actors[index].interrupted,
        };
        match asked {
            Some(asked) => self.fail(index, asked.op, at, false, end),
            // A process that has finished and holds nothing may exit.
            None if self.actors[index].is_finished() && self.actors[index].holds.is_empty() => {
                Ok(())
            }
            None => self.fail(index, NOTHING_ASKED, at, false, end),
        }
    }

    /// Records that a request failed; `definite` says whether it certainly had no effect. The process is not asked anything else.
    fn fail(
        &mut self,
        index: usize,
        op: u64,
        at: Instant,
        definite: bool,
        message: String,
    ) -> Result<(), NoVerdict> {
        self.actors[index].end();
        self.actors[index].has_failed = true;
        self.note_failure(index, op, at, definite, message)
    }

    /// Records the same, but the process goes on with its script: the failure is what the trial is about.
    fn fail_anyway(
        &mut self,
        index: usize,
        op: u64,
        at: Instant,
        definite: bool,
        message: String,
    ) -> Result<(), NoVerdict> {
        self.actors[index].finish_act();
        self.note_failure(index, op, at, definite, message)
    }

    fn note_failure(
        &mut self,
        index: usize,
        op: u64,
        at: Instant,
        definite: bool,
        message: String,
    ) -> Result<(), NoVerdict> {
        let what = What::Failed {
            op,
            definite,
            message,
        };
        self.note(at, index, what)
    }

    /// Ends the trial with an error if the store is gone. A process that reports an error may have failed because of that. Where the lab
    /// itself makes servers fail, a failed request is part of the trial.
    fn check_store(&self) -> Result<(), NoVerdict> {
        if self.servers.is_none() {
            self.ground.inspect(FIRST_LOCK)?;
        }
        Ok(())
    }

    fn note(&mut self, at: Instant, index: usize, what: What) -> Result<(), NoVerdict> {
        self.diary.record(at, Some(&self.actors[index].who), what)
    }

    fn show(&mut self) {
        let now_ns = self.diary.now_ns();
        let history = self.diary.history();
        self.watch
            .progressed(&history.header, &history.events, now_ns);
    }

    fn check_interrupt(&mut self) -> Result<(), NoVerdict> {
        let Some(signal) = self.interrupt.requested() else {
            return Ok(());
        };
        Err(NoVerdict::Interrupted {
            signal,
            progress: format!("the {} trial was not finished", self.trial.scenario.name()),
            stopped: self.actors.iter().filter(|actor| actor.alive).count(),
            events: self.diary.history().events.len(),
        })
    }

    /// Lets the remaining processes exit by themselves.
    fn shut_down_processes(&mut self) {
        // Whoever gives something back on its way out needs the store.
        self.roads.iter_mut().for_each(Roads::open_all);
        for index in 0..self.actors.len() {
            self.subjects.send(index, &Request::Shutdown);
        }
        let alive: Vec<bool> = self.actors.iter().map(|actor| actor.alive).collect();
        self.subjects.wait_for_exits(|index| alive[index]);
    }
}
