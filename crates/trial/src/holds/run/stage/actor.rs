//! A process on the stage: its script, its holds, and what it is doing.

use std::collections::{HashSet, VecDeque};
use std::time::Instant;

use crate::holds::register::Step;
use crate::holds::run::script::Act;

/// A process, the rest of its script, and what it is doing.
pub(super) struct Actor {
    /// Its name in the history.
    pub(super) who: String,
    /// Its number, unique in the trial. A process that was started again has another one.
    pub(super) number: usize,
    pub(super) script: VecDeque<Act>,
    /// The number of acts it has done.
    pub(super) done: usize,
    pub(super) doing: Doing,
    pub(super) holds: Vec<HeldLock>,
    /// The locks that it has released, with the numbers of the holds.
    pub(super) released: Vec<(&'static str, u64)>,
    /// The numbers that it has given to its holds.
    used_holds: HashSet<u64>,
    pub(super) alive: bool,
    pub(super) is_stopped: bool,
    /// Whether a request of it has failed, so that nobody knows what it holds.
    pub(super) has_failed: bool,
    /// Whether the lab disturbs what passes between it and its store.
    pub(super) is_disturbed: bool,
    /// Whether the lab has stopped it at a step, and asks nothing of it.
    pub(super) is_at_step: bool,
    /// How often it has answered.
    pub(super) answers: u64,
    /// How often it had answered when it last went on after a step.
    pub(super) answers_before: u64,
    /// A write that it has sent, and that has not arrived: the lock that protects the number, and the step.
    pub(super) on_its_way: Option<(&'static str, Step)>,
    /// The request that it was executing when it stopped itself.
    pub(super) interrupted: Option<PendingRequest>,
}

impl Actor {
    pub(super) fn new(who: impl Into<String>, number: usize, script: Vec<Act>) -> Self {
        Self {
            who: who.into(),
            number,
            script: script.into(),
            done: 0,
            doing: Doing::Nothing,
            holds: Vec::new(),
            released: Vec::new(),
            used_holds: HashSet::new(),
            alive: true,
            is_stopped: false,
            has_failed: false,
            is_disturbed: false,
            is_at_step: false,
            answers: 0,
            answers_before: 0,
            on_its_way: None,
            interrupted: None,
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.script.is_empty() && matches!(self.doing, Doing::Nothing) && self.interrupted.is_none()
    }

    /// Marks the current act as done, so that the next one may begin.
    pub(super) fn finish_act(&mut self) {
        self.doing = Doing::Nothing;
        self.done += 1;
    }

    /// Skips the rest of the script.
    pub(super) fn end(&mut self) {
        self.script.clear();
        self.interrupted = None;
        self.finish_act();
    }

    /// Skips the rest of the script, except that it releases what it holds.
    pub(super) fn give_up(&mut self) {
        let holds = &self.holds;
        let is_held = |key: &str| holds.iter().any(|held| held.key == key);
        self.script
            .retain(|act| matches!(act, Act::Release { key } if is_held(key)));
        self.finish_act();
    }

    /// Forgets a hold that its process says is lost. Nothing more is asked about it.
    pub(super) fn lose(&mut self, hold: u64) {
        let lost = self.holds.extract_if(.., |held| held.hold == hold);
        for HeldLock { key: lost, .. } in lost.collect::<Vec<_>>() {
            self.script.retain(
                |act| !matches!(act, Act::Step { key, .. } | Act::Release { key } if *key == lost),
            );
        }
    }

    /// Notes the number of a new hold. Returns whether it is new.
    pub(super) fn is_new_hold(&mut self, hold: u64) -> bool {
        self.used_holds.insert(hold)
    }

    pub(super) fn held(&self, key: &str) -> Option<&HeldLock> {
        self.holds.iter().rev().find(|held| held.key == key)
    }

    /// Returns the hold of this lock that it released last.
    pub(super) fn released_last(&self, key: &str) -> Option<u64> {
        let last = self.released.iter().rev().find(|(of, _)| *of == key);
        last.map(|(_, hold)| *hold)
    }

    pub(super) fn hold_of(&self, key: &str) -> Option<u64> {
        self.held(key).map(|held| held.hold)
    }
}

/// A lock that a process holds.
pub(super) struct HeldLock {
    pub(super) key: &'static str,
    pub(super) hold: u64,
    pub(super) fence: Option<String>,
}

/// What a process is doing.
pub(super) enum Doing {
    Nothing,
    /// It works until this time.
    Until(Instant),
    /// It waits until another process has done this many acts, or until this time.
    Meeting(usize, usize, Instant),
    /// It was started again and must be ready by this time.
    Starting(Instant),
    /// It was asked something and must answer by this time.
    Asked(PendingRequest, Instant),
}

/// A request that a process has not answered yet.
#[derive(Clone, Copy)]
pub(super) struct PendingRequest {
    pub(super) op: u64,
    pub(super) act: Act,
}
