//! The director of a storm: gives every process round after round, follows the plan of the faults, and asks for every lock when they are
//! over.
//!
//! The seed decides the plan and the rounds. How many rounds there are depends on the machine, so a seed repeats the faults, not the run.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{Actor, Doing, NOTHING_ASKED, Stage};
use crate::history::{FaultKind, StormSettings, What};
use crate::holds::Trial;
use crate::holds::check::with_slack;
use crate::holds::run::chance::Chance;
use crate::holds::run::script::{Act, read, until_recovered, write};
use crate::holds::storm::{LOCKS, Planned};
use crate::processes::{Heard, NoVerdict};
use crate::protocol::Claims;

mod faults;

use faults::Condition;

/// A storm in which more requests fail than this ends early: the lock or its program does not work.
const FAILURES_MAX: usize = 20;
/// How long most of the work takes at most.
const SHORT_WORK: Duration = Duration::from_millis(8);
/// How long a process rests between most rounds at most.
const SHORT_REST: Duration = Duration::from_millis(10);

/// What happens next in a storm.
pub(super) struct Storm {
    /// Decides the rounds.
    chance: Chance,
    settings: StormSettings,
    ttl: Duration,
    /// How long somebody waits for each lock when the storm is over.
    last_wait: Duration,
    phase: Phase,
    /// The faults that have not been injected yet.
    plan: VecDeque<Planned>,
    began: Instant,
    /// When to look again whether the next fault can be injected, if it could not when it was due.
    postponed: Option<Instant>,
    /// How many processes were started, to give each a number of its own.
    started: usize,
    failures: usize,
    /// What happens to each process.
    conditions: Vec<Condition>,
    /// When the servers serve clients again, if they do not.
    servers_return: Option<Instant>,
    /// Until when a request may fail because of a server.
    servers_excuse: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The clock of the trial has not started yet.
    Calm,
    /// Faults are injected until this time.
    Raging {
        until: Instant,
    },
    /// Everybody is well again and finishes its round.
    Healing,
    /// Everybody does one more round, and finds out whether its connections are dead. What was late has arrived at this time.
    Reviving(Instant),
    /// Each lock is taken once more, this one next.
    Aftermath(usize),
    Over,
}

impl Storm {
    pub(super) fn new(trial: &Trial, settings: StormSettings, claims: Claims) -> Self {
        let plan = trial.plan().map(|plan| plan.faults).unwrap_or_default();
        Self {
            // Not the chance of the plan, so that a smaller plan has other rounds only because of its faults.
            chance: Chance::new(trial.seed.rotate_left(32)),
            settings,
            ttl: trial.ttl(),
            last_wait: until_recovered(trial, claims),
            phase: Phase::Calm,
            plan: plan.into(),
            began: Instant::now(),
            postponed: None,
            started: settings.processes,
            failures: 0,
            conditions: vec![Condition::FINE; settings.processes],
            servers_return: None,
            servers_excuse: None,
        }
    }

    /// Returns the next time at which something happens to a process or a server.
    pub(super) fn next_alarm(&self) -> Option<Instant> {
        let next = match self.phase {
            Phase::Raging { until } => Some(self.next_fault().map_or(until, |at| at.min(until))),
            // When it is over, the end of a round wakes the lab.
            Phase::Reviving(until) => Some(until).filter(|until| *until > Instant::now()),
            _ => None,
        };
        let each = self
            .conditions
            .iter()
            .filter_map(|one| one.next_alarm(self));
        each.chain(next).chain(self.servers_return).min()
    }

    /// Returns when to look at the next fault of the plan.
    fn next_fault(&self) -> Option<Instant> {
        let due = self.began + Duration::from_millis(self.plan.front()?.at_ms);
        Some(self.postponed.map_or(due, |postponed| postponed.max(due)))
    }

    fn is_raging(&self) -> bool {
        matches!(self.phase, Phase::Raging { .. })
    }

    /// Returns whether the lab comes between the processes and their store in this storm.
    fn disturbs_requests(&self) -> bool {
        let kinds = [FaultKind::Cut, FaultKind::Delay, FaultKind::Server];
        kinds.into_iter().any(|kind| self.settings.faults.has(kind))
    }

    /// Returns `true` with a probability of 1 in `cases`.
    fn one_in(&self, cases: usize) -> bool {
        self.chance.below(cases) == 0
    }

    /// Returns the acts of a round: it takes one lock or two, in a fixed order, works, and releases them.
    fn round(&self) -> Vec<Act> {
        let chance = &self.chance;
        let mut keys = vec![chance.below(self.settings.names)];
        if self.settings.names > 1 && self.one_in(3) {
            keys.push(chance.below(self.settings.names));
        }
        keys.sort_unstable();
        keys.dedup();
        let keys: Vec<&'static str> = keys.iter().map(|at| LOCKS[*at]).collect();
        let rest = if self.one_in(6) { self.ttl } else { SHORT_REST };
        // Now and then the work takes longer than the lease, above all under two locks.
        let is_long = self.one_in(if keys.len() > 1 { 4 } else { 24 });
        let work = if is_long {
            chance.between(self.ttl, self.ttl + self.ttl / 2)
        } else {
            chance.between(Duration::ZERO, SHORT_WORK)
        };
        let mut acts = vec![Act::Work(chance.between(Duration::ZERO, rest))];
        acts.extend(keys.iter().map(|key| Act::Acquire {
            key,
            wait: self.wait(),
        }));
        acts.extend(keys.iter().map(|key| read(key)));
        acts.push(Act::Work(work));
        acts.extend(keys.iter().map(|key| write(key)));
        let mut released = keys;
        if self.one_in(2) {
            released.reverse();
        }
        acts.extend(released.into_iter().map(|key| Act::Release { key }));
        acts
    }

    /// Returns how long a process waits for a lock: well below three TTLs, after which a lock would count as stuck.
    fn wait(&self) -> Duration {
        if self.one_in(6) {
            return Duration::ZERO;
        }
        self.chance.between(self.ttl / 2, 2 * self.ttl)
    }

    /// Returns the acts that show whether somebody can still take this lock.
    fn last_round(&self, key: &'static str) -> Vec<Act> {
        let wait = self.last_wait;
        vec![
            Act::Acquire { key, wait },
            read(key),
            write(key),
            Act::Release { key },
        ]
    }

    /// Returns how long a process may still feel that it could not reach its store.
    fn lingers(&self) -> Duration {
        let ttl_ns = u64::try_from(self.ttl.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(with_slack(ttl_ns))
    }
}

impl Stage<'_> {
    /// Lets a storm go on: starts rounds, injects the faults that are due, and ends them.
    pub(super) fn storm(&mut self) -> Result<(), NoVerdict> {
        let Some(mut storm) = self.storm.take() else {
            return Ok(());
        };
        let result = self.rage(&mut storm, Instant::now());
        self.storm = Some(storm);
        result
    }

    /// Returns whether the trial is over: every script is done, and no storm has anything left to do.
    pub(super) fn is_over_for_all(&self) -> bool {
        let storm = self.storm.as_ref();
        let is_over = storm.is_none_or(|storm| matches!(storm.phase, Phase::Over));
        is_over && self.actors.iter().all(Actor::is_finished)
    }

    fn rage(&mut self, storm: &mut Storm, now: Instant) -> Result<(), NoVerdict> {
        self.end_faults(storm, now)?;
        self.replace_failed(storm, now);
        match storm.phase {
            Phase::Calm => {
                let until = now + Duration::from_millis(storm.settings.for_ms);
                storm.began = now;
                storm.phase = Phase::Raging { until };
                self.begin_rounds(storm);
            }
            Phase::Raging { until } if now >= until => storm.phase = Phase::Healing,
            Phase::Raging { .. } => {
                self.follow_plan(storm, now)?;
                self.begin_rounds(storm);
            }
            Phase::Healing if self.is_calm(storm) && storm.disturbs_requests() => {
                // A little longer than what the checks allow for, which count from the end of the last fault.
                storm.phase = Phase::Reviving(now + storm.lingers() + SHORT_REST);
                self.begin_rounds(storm);
            }
            Phase::Healing if self.is_calm(storm) => storm.phase = Phase::Aftermath(0),
            Phase::Reviving(until) if now >= until && self.is_calm(storm) => {
                storm.phase = Phase::Aftermath(0);
            }
            Phase::Aftermath(at) if self.is_calm(storm) => {
                if at == storm.settings.names {
                    storm.phase = Phase::Over;
                } else {
                    let index = at % self.actors.len();
                    self.actors[index].script = storm.last_round(LOCKS[at]).into();
                    storm.phase = Phase::Aftermath(at + 1);
                }
            }
            Phase::Healing | Phase::Reviving(_) | Phase::Aftermath(_) | Phase::Over => {}
        }
        Ok(())
    }

    /// Returns whether everything is well, and every process has finished its round.
    fn is_calm(&self, storm: &Storm) -> bool {
        storm.servers_return.is_none()
            && storm.conditions.iter().all(Condition::is_fine)
            && self.actors.iter().all(Actor::is_finished)
    }

    fn begin_rounds(&mut self, storm: &Storm) {
        for index in 0..self.actors.len() {
            let actor = &mut self.actors[index];
            if actor.alive && actor.is_finished() {
                // What it could not release, because a request failed, ends with its process.
                actor.script = storm.round().into();
            }
        }
    }

    fn start_again(&mut self, storm: &mut Storm, index: usize) -> Result<(), NoVerdict> {
        let life = storm.conditions[index].life + 1;
        self.start_life(index, life, storm.started)?;
        storm.started += 1;
        storm.conditions[index].life = life;
        let roads = self.roads.as_mut();
        storm.conditions[index].replies_at_birth =
            roads.map_or(0, |roads| roads.of(index).replies());
        Ok(())
    }

    /// Handles what a process says that was started again.
    pub(super) fn hear_returned(&mut self, index: usize, heard: Heard) -> Result<(), NoVerdict> {
        let at = heard.at;
        match self.subjects.expect_ready(heard) {
            Ok(()) => {
                self.actors[index].doing = Doing::Nothing;
                Ok(())
            }
            Err(no_verdict) => self.not_ready_again(index, at, no_verdict),
        }
    }

    /// Records that a process that was started again did not get ready. That is a failure like others: it is started once more.
    pub(super) fn not_ready_again(
        &mut self,
        index: usize,
        at: Instant,
        no_verdict: NoVerdict,
    ) -> Result<(), NoVerdict> {
        match no_verdict.not_ready() {
            Some((_, instead)) if self.trial.strategy.is_external() => {
                self.fail(index, NOTHING_ASKED, at, true, instead)
            }
            _ => Err(no_verdict.of_our_lock()),
        }
    }

    /// Kills every process of which a request has failed, so that nobody has to guess what it holds, and starts it again. If that happens
    /// too often without a reason that the lab knows of, the storm ends.
    fn replace_failed(&mut self, storm: &mut Storm, now: Instant) {
        for index in 0..self.actors.len() {
            if !std::mem::take(&mut self.actors[index].has_failed) {
                continue;
            }
            let lasts = storm.chance.between(Duration::ZERO, storm.ttl);
            self.kill_for_a_while(storm, index, now + lasts);
            if storm.is_excused(index, now) {
                continue;
            }
            storm.failures += 1;
            if storm.failures > FAILURES_MAX && storm.is_raging() {
                storm.phase = Phase::Healing;
                let why = format!(
                    "for the end of the storm: {} requests failed",
                    storm.failures
                );
                self.diary.later(now, None, What::GaveUp { why });
            }
            if storm.failures > 2 * FAILURES_MAX {
                storm.phase = Phase::Over;
            }
        }
    }
}
