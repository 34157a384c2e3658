//! The director of a storm: gives every process round after round, and injects faults at random instants.
//!
//! The seed decides every choice, one after the other. How many choices there are depends on the machine, so a seed repeats the kind of
//! weather, not the run.

use std::time::{Duration, Instant};

use fencepost_rig::Signal;

use super::{Actor, Doing, NOTHING_ASKED, Stage};
use crate::history::{StormSettings, What};
use crate::holds::Trial;
use crate::holds::run::chance::Chance;
use crate::holds::run::script::{Act, read, until_recovered, write};
use crate::holds::storm::LOCKS;
use crate::processes::{Heard, Stopped};
use crate::protocol::Claims;

/// The faults of a storm, and how often each is chosen.
const FAULTS: [(StormFault, u64); 3] = [
    (StormFault::Kill, 2),
    (StormFault::PauseWithinLease, 1),
    (StormFault::PauseBeyondLease, 2),
];

/// A storm in which more requests fail than this ends early: the lock or its program does not work.
const FAILURES_MAX: usize = 20;
/// How long most of the work takes at most.
const SHORT_WORK: Duration = Duration::from_millis(8);
/// How long a process rests between most rounds at most.
const SHORT_REST: Duration = Duration::from_millis(10);

/// A fault that the lab injects into a process at a random instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StormFault {
    /// It is killed, and started again a little later.
    Kill,
    /// It is stopped for less than a TTL.
    PauseWithinLease,
    /// It is stopped for more than a TTL.
    PauseBeyondLease,
}

/// What happens next in a storm.
pub(super) struct Storm {
    chance: Chance,
    settings: StormSettings,
    ttl: Duration,
    /// How long somebody waits for each lock when the storm is over.
    last_wait: Duration,
    phase: Phase,
    /// How many processes were started, to give each a number of its own.
    started: usize,
    failures: usize,
    /// What happens to each process.
    weather: Vec<Weather>,
}

/// What happens to a process.
#[derive(Debug, Clone, Copy)]
struct Weather {
    life: u64,
    /// When it goes on, if it is stopped.
    goes_on: Option<Instant>,
    /// When it is started again, if it is dead.
    returns: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The clock of the trial has not started yet.
    Calm,
    /// Faults are injected, the next one at this time, until the end.
    Raging {
        next: Instant,
        until: Instant,
    },
    /// Everybody is well again and finishes its round.
    Healing,
    /// Each lock is taken once more, this one next.
    Aftermath(usize),
    Over,
}

impl Storm {
    pub(super) fn new(trial: &Trial, settings: StormSettings, claims: Claims) -> Self {
        let fine = Weather {
            life: 1,
            goes_on: None,
            returns: None,
        };
        Self {
            chance: Chance::new(trial.seed),
            settings,
            ttl: trial.ttl(),
            last_wait: until_recovered(trial, claims),
            phase: Phase::Calm,
            started: settings.processes,
            failures: 0,
            weather: vec![fine; settings.processes],
        }
    }

    /// Returns the next time at which something happens to a process.
    pub(super) fn next_alarm(&self) -> Option<Instant> {
        let next = match self.phase {
            Phase::Raging { next, until } => Some(next.min(until)),
            _ => None,
        };
        let weather = self.weather.iter();
        let each = weather.flat_map(|one| [one.goes_on, one.returns]);
        each.flatten().chain(next).min()
    }

    fn is_raging(&self) -> bool {
        matches!(self.phase, Phase::Raging { .. })
    }

    /// Returns `true` with a probability of 1 in `cases`.
    fn one_in(&self, cases: usize) -> bool {
        self.chance.below(cases) == 0
    }

    fn fault(&self) -> StormFault {
        let all = FAULTS.iter().map(|(_, often)| *often as usize).sum();
        let mut chosen = self.chance.below(all);
        for (fault, often) in FAULTS {
            match chosen.checked_sub(often as usize) {
                Some(left) => chosen = left,
                None => return fault,
            }
        }
        StormFault::Kill
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
}

impl Stage<'_> {
    /// Lets a storm go on: starts rounds, injects the faults that are due, and ends them.
    pub(super) fn storm(&mut self) -> Result<(), Stopped> {
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

    fn rage(&mut self, storm: &mut Storm, now: Instant) -> Result<(), Stopped> {
        self.end_faults(storm, now)?;
        self.replace_failed(storm, now);
        match storm.phase {
            Phase::Calm => {
                let until = now + Duration::from_millis(storm.settings.for_ms);
                let next = now + storm.chance.between(Duration::ZERO, storm.ttl);
                storm.phase = Phase::Raging { next, until };
                self.begin_rounds(storm);
            }
            Phase::Raging { until, .. } if now >= until => storm.phase = Phase::Healing,
            Phase::Raging { next, until } => {
                if now >= next {
                    self.inject(storm, now);
                    let next = now
                        + storm
                            .chance
                            .between(storm.ttl / 4, storm.ttl + storm.ttl / 2);
                    storm.phase = Phase::Raging { next, until };
                }
                self.begin_rounds(storm);
            }
            Phase::Healing if self.is_calm(storm) => storm.phase = Phase::Aftermath(0),
            Phase::Aftermath(at) if self.is_calm(storm) => {
                if at == storm.settings.names {
                    storm.phase = Phase::Over;
                } else {
                    let index = at % self.actors.len();
                    self.actors[index].script = storm.last_round(LOCKS[at]).into();
                    storm.phase = Phase::Aftermath(at + 1);
                }
            }
            Phase::Healing | Phase::Aftermath(_) | Phase::Over => {}
        }
        Ok(())
    }

    /// Returns whether every process lives, runs and has finished its round.
    fn is_calm(&self, storm: &Storm) -> bool {
        let mut weather = storm.weather.iter();
        weather.all(|one| one.goes_on.is_none() && one.returns.is_none())
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

    /// Injects a fault into a process that is well, unless too many are not.
    fn inject(&mut self, storm: &mut Storm, now: Instant) {
        let is_well = |index: &usize| {
            let weather = storm.weather[*index];
            let is_starting = matches!(self.actors[*index].doing, Doing::Starting(_));
            weather.goes_on.is_none() && weather.returns.is_none() && !is_starting
        };
        let well: Vec<usize> = (0..self.actors.len()).filter(is_well).collect();
        let fault = storm.fault();
        let victim = storm.chance.below(well.len().max(1));
        let Some(index) = well.get(victim).copied() else {
            return;
        };
        if 2 * well.len() <= self.actors.len() {
            return;
        }
        let ttl = storm.ttl;
        match fault {
            StormFault::Kill => self.kill_for_a_while(storm, index, now),
            StormFault::PauseWithinLease => {
                let lasts = storm.chance.between(ttl / 10, ttl / 2);
                self.pause(storm, index, lasts);
            }
            StormFault::PauseBeyondLease => {
                let lasts = storm.chance.between(ttl + ttl / 8, 2 * ttl);
                self.pause(storm, index, lasts);
            }
        }
    }

    fn kill_for_a_while(&mut self, storm: &mut Storm, index: usize, now: Instant) {
        self.kill(index);
        let dead_for = storm.chance.between(Duration::ZERO, storm.ttl);
        storm.weather[index].returns = Some(now + dead_for);
        storm.weather[index].goes_on = None;
    }

    fn pause(&mut self, storm: &mut Storm, index: usize, lasts: Duration) {
        let _ = self.subjects.child(index).signal(Signal::SIGSTOP);
        self.witness_stop(index);
        storm.weather[index].goes_on = Some(Instant::now() + lasts);
    }

    /// Ends the faults that are over by now, or all of them when the storm is.
    fn end_faults(&mut self, storm: &mut Storm, now: Instant) -> Result<(), Stopped> {
        let is_due = |at: Instant| at <= now || !storm.is_raging();
        let due: Vec<(bool, bool)> = storm
            .weather
            .iter()
            .map(|one| {
                (
                    one.goes_on.is_some_and(is_due),
                    one.returns.is_some_and(is_due),
                )
            })
            .collect();
        for (index, (goes_on, returns)) in due.into_iter().enumerate() {
            if goes_on {
                storm.weather[index].goes_on = None;
                // Taken before the signal: the process may answer before this thread runs again.
                self.go_on(index, Instant::now());
            }
            if returns {
                storm.weather[index].returns = None;
                self.start_again(storm, index)?;
            }
        }
        Ok(())
    }

    fn start_again(&mut self, storm: &mut Storm, index: usize) -> Result<(), Stopped> {
        let life = storm.weather[index].life + 1;
        self.start_life(index, life, storm.started)?;
        storm.started += 1;
        storm.weather[index].life = life;
        Ok(())
    }

    /// Handles what a process says that was started again.
    pub(super) fn hear_returned(&mut self, index: usize, heard: Heard) -> Result<(), Stopped> {
        let at = heard.at;
        match self.subjects.expect_ready(heard) {
            Ok(()) => {
                self.actors[index].doing = Doing::Nothing;
                Ok(())
            }
            Err(stopped) => self.not_ready_again(index, at, stopped),
        }
    }

    /// Records that a process that was started again did not get ready. That is a failure like others: it is started once more.
    pub(super) fn not_ready_again(
        &mut self,
        index: usize,
        at: Instant,
        stopped: Stopped,
    ) -> Result<(), Stopped> {
        match stopped.not_ready() {
            Some((_, instead)) if self.trial.strategy.is_external() => {
                self.fail(index, NOTHING_ASKED, at, true, instead)
            }
            _ => Err(stopped.of_our_lock()),
        }
    }

    /// Kills every process of which a request has failed, so that nobody has to guess what it holds, and starts it again. If that happens
    /// too often, the storm ends.
    fn replace_failed(&mut self, storm: &mut Storm, now: Instant) {
        for index in 0..self.actors.len() {
            if !std::mem::take(&mut self.actors[index].has_failed) {
                continue;
            }
            storm.failures += 1;
            self.kill_for_a_while(storm, index, now);
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
