//! What was requested and answered under each number, so that an entry need not search the whole run for its other half.

use std::collections::HashMap;

use super::SETTLED_NS;
use crate::history::{Event, What};
use crate::protocol::ReleaseResult;

/// The requests of a run and their answers, by the number of the request.
#[derive(Default)]
pub(super) struct Requests {
    reached: HashMap<u64, Vec<u64>>,
    release: HashMap<u64, u64>,
    released: HashMap<u64, Vec<(u64, ReleaseResult)>>,
    purchase: HashMap<u64, u64>,
    purchased: HashMap<u64, u64>,
}

/// Returns whether something followed so soon that it may share a line.
fn is_soon(at_ns: u64, asked_ns: u64) -> bool {
    at_ns
        .checked_sub(asked_ns)
        .is_some_and(|after_ns| after_ns <= SETTLED_NS)
}

impl Requests {
    pub(super) fn of(events: &[Event]) -> Self {
        let mut requests = Self::default();
        for event in events {
            requests.add(event);
        }
        requests
    }

    fn add(&mut self, event: &Event) {
        let at_ns = event.at_ns;
        match event.what {
            What::Reached { op, .. } => self.reached.entry(op).or_default().push(at_ns),
            What::Release { op, .. } => {
                self.release.entry(op).or_insert(at_ns);
            }
            What::Released { op, outcome, .. } => {
                let answers = self.released.entry(op).or_default();
                answers.push((at_ns, outcome));
            }
            What::Purchase { op, .. } => {
                self.purchase.entry(op).or_insert(at_ns);
            }
            What::Purchased { op, .. } => {
                self.purchased.entry(op).or_insert(at_ns);
            }
            _ => {}
        }
    }

    /// Returns whether a process stopped between two steps of this request soon after it was made.
    pub(super) fn is_stepwise(&self, op: u64, asked_ns: u64) -> bool {
        let mut reached = self.reached.get(&op).into_iter().flatten();
        reached.any(|at_ns| is_soon(*at_ns, asked_ns))
    }

    /// Returns when a release with this number was requested, if one was.
    pub(super) fn release(&self, op: u64) -> Option<u64> {
        self.release.get(&op).copied()
    }

    /// Returns the result of this release, if the lock reported it promptly.
    pub(super) fn prompt_word(&self, op: u64, asked_ns: u64) -> Option<ReleaseResult> {
        let mut answers = self.released.get(&op).into_iter().flatten();
        let prompt = answers.find(|(at_ns, _)| is_soon(*at_ns, asked_ns));
        prompt.map(|(_, outcome)| *outcome)
    }

    /// Returns when this purchase was requested, and when it was answered.
    pub(super) fn purchase(&self, op: u64) -> Option<(u64, Option<u64>)> {
        let asked = self.purchase.get(&op)?;
        Some((*asked, self.purchased.get(&op).copied()))
    }
}
