//! What an entry must know about the rest of the run, so that it need not search for its other half: what was requested and answered
//! under each number, which holds are open, and whose reading was overwritten.

use std::collections::HashMap;

use super::SETTLED_NS;
use crate::history::{Event, What};
use crate::holds::facts::{Facts, Hold, Wait};
use crate::protocol::{Action, ReleaseResult};

/// The facts of the run, its requests by their numbers, and the state at the event that is being told.
#[derive(Default)]
pub(super) struct Context {
    pub(super) facts: Facts,
    /// The places of the waits.
    waits: HashMap<u64, usize>,
    reached: HashMap<u64, Vec<u64>>,
    release: HashMap<u64, u64>,
    released: HashMap<u64, Vec<(u64, ReleaseResult)>>,
    purchase: HashMap<u64, u64>,
    purchased: HashMap<u64, u64>,
    /// How many holds were granted so far.
    granted: usize,
    /// The places of the holds that nothing has ended so far.
    open: Vec<usize>,
    /// Whether another process has written since this one read, for each that has read.
    overwritten: HashMap<String, bool>,
}

/// Returns whether something followed so soon that it may share a line.
fn is_soon(at_ns: u64, asked_ns: u64) -> bool {
    at_ns
        .checked_sub(asked_ns)
        .is_some_and(|after_ns| after_ns <= SETTLED_NS)
}

impl Context {
    /// Returns the context of the first event.
    pub(super) fn of(events: &[Event]) -> Self {
        let facts = Facts::of(events);
        let mut context = Self {
            waits: waits(&facts),
            facts,
            ..Self::default()
        };
        for event in events {
            context.add(event);
        }
        context
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

    /// Goes on to the next event: keeps what later entries depend on.
    pub(super) fn remember(&mut self, event: &Event) {
        match &event.what {
            What::Acquired { .. } => {
                let holds = &self.facts.holds;
                self.open
                    .retain(|place| holds[*place].unquestioned_until_ns() > event.at_ns);
                self.open.push(self.granted);
                self.granted += 1;
            }
            What::Register {
                action,
                refused: false,
                ..
            } => {
                let who = event.who.as_deref().unwrap_or_default();
                match action {
                    Action::Read => drop(self.overwritten.insert(who.to_owned(), false)),
                    Action::Write => {
                        let others = self.overwritten.iter_mut();
                        let others = others.filter(|(reader, _)| *reader != who);
                        others.for_each(|(_, is_overwritten)| *is_overwritten = true);
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the holds that were granted before and that nothing has ended.
    pub(super) fn open_holds(&self) -> impl Iterator<Item = &Hold> {
        self.open.iter().map(|place| &self.facts.holds[*place])
    }

    /// Returns whether another process has written since this one read.
    pub(super) fn is_overwritten(&self, reader: &str) -> bool {
        self.overwritten.get(reader) == Some(&true)
    }

    /// Returns the wait with this number.
    pub(super) fn wait(&self, op: u64) -> Option<&Wait> {
        Some(&self.facts.waits[*self.waits.get(&op)?])
    }

    /// Returns whether the answer to this request came too late to share a line with it, or never.
    pub(super) fn was_long(&self, op: u64) -> bool {
        self.wait(op).is_some_and(|wait| {
            let answered = wait.answer.map(|(mark, _)| mark.at_ns);
            answered.is_none_or(|at_ns| at_ns.saturating_sub(wait.asked.at_ns) > SETTLED_NS)
        })
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

/// Returns the place of the first wait with each number.
fn waits(facts: &Facts) -> HashMap<u64, usize> {
    let mut places = HashMap::new();
    for (place, wait) in facts.waits.iter().enumerate() {
        places.entry(wait.op).or_insert(place);
    }
    places
}
