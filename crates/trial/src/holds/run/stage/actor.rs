//! A process on stage: what it is to do, and what it is doing.

use std::collections::VecDeque;
use std::time::Instant;

use crate::holds::run::script::Act;

/// A process, what it is still to do, and what it is doing.
pub(super) struct Actor {
    pub(super) script: VecDeque<Act>,
    /// How many acts it has done.
    pub(super) done: usize,
    pub(super) doing: Doing,
    pub(super) holds: Vec<Held>,
    pub(super) alive: bool,
    pub(super) is_stopped: bool,
    /// What it was asked when it stopped itself.
    pub(super) interrupted: Option<PendingRequest>,
}

impl Actor {
    pub(super) fn new(script: Vec<Act>) -> Self {
        Self {
            script: script.into(),
            done: 0,
            doing: Doing::Nothing,
            holds: Vec::new(),
            alive: true,
            is_stopped: false,
            interrupted: None,
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.script.is_empty() && matches!(self.doing, Doing::Nothing) && self.interrupted.is_none()
    }

    /// The act is done; the next may begin.
    pub(super) fn go_on(&mut self) {
        self.doing = Doing::Nothing;
        self.done += 1;
    }

    /// There is nothing more to do.
    pub(super) fn end(&mut self) {
        self.script.clear();
        self.interrupted = None;
        self.go_on();
    }

    pub(super) fn held(&self, key: &str) -> Option<&Held> {
        self.holds.iter().rev().find(|held| held.key == key)
    }

    pub(super) fn hold_of(&self, key: &str) -> Option<u64> {
        self.held(key).map(|held| held.hold)
    }
}

/// A lock that a process has.
pub(super) struct Held {
    pub(super) key: &'static str,
    pub(super) hold: u64,
    pub(super) fence: Option<String>,
}

/// What a process is doing.
pub(super) enum Doing {
    Nothing,
    /// It works.
    Until(Instant),
    /// It waits for another to have done so many acts, until then.
    Meeting(usize, usize, Instant),
    /// It was asked, and has so long to answer.
    Asked(PendingRequest, Instant),
}

/// What a process was asked.
#[derive(Clone, Copy)]
pub(super) struct PendingRequest {
    pub(super) op: u64,
    pub(super) act: Act,
}
