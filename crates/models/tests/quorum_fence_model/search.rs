//! Searches all states of the quorum model, breadth first, so that the first conviction has the shortest story.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::{Duration, Instant};

use crate::canonical::{canonical, without_the_past};
use crate::moves::{Move, after, enabled};
use crate::promises::{Promise, broken};
use crate::setup::Setup;
use crate::state::State;
use crate::story;

/// A broken promise, with the steps that led to it.
pub(crate) struct Conviction {
    pub(crate) promise: Promise,
    pub(crate) story: String,
}

/// The size and the result of a search.
pub(crate) struct Outcome {
    pub(crate) states: usize,
    pub(crate) transitions: u64,
    pub(crate) took: Duration,
    pub(crate) conviction: Option<Conviction>,
}

/// A hasher for fingerprints, which are already hashes.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are hashed");
    }

    fn write_u64(&mut self, print: u64) {
        self.0 = print;
    }
}

/// Maps each state's fingerprint to that of its predecessor; the first state maps to itself.
type Parents = HashMap<u64, u64, BuildHasherDefault<AsItIs>>;

/// Visits every state that the setup can reach, or stops at the first broken promise.
pub(crate) fn search(setup: &Setup) -> Outcome {
    let started = Instant::now();
    let (first, print) = canonical(State::new(setup), setup);
    let mut parents = Parents::from_iter([(print, print)]);
    let mut queue = VecDeque::from([(first, print)]);
    let mut transitions = 0;
    let mut conviction = None;
    'all: while let Some((state, here)) = queue.pop_front() {
        for step in enabled(&state, setup) {
            transitions += 1;
            let (next, verdict) = take(&state, setup, step);
            let (next, there) = canonical(next, setup);
            if let Entry::Vacant(vacant) = parents.entry(there) {
                vacant.insert(here);
                queue.push_back((next, there));
            }
            if let Some(promise) = verdict {
                let way = way_to(&parents, here);
                let story = tell(setup, &way, promise);
                conviction = Some(Conviction { promise, story });
                break 'all;
            }
        }
    }
    Outcome {
        states: parents.len(),
        transitions,
        took: started.elapsed(),
        conviction,
    }
}

fn take(state: &State, setup: &Setup, step: Move) -> (State, Option<Promise>) {
    let mut next = after(state, setup, step);
    let verdict = broken(state, &mut next, setup);
    (next, verdict)
}

fn way_to(parents: &Parents, end: u64) -> Vec<u64> {
    let mut way = Vec::new();
    let mut print = end;
    while parents[&print] != print {
        way.push(print);
        print = parents[&print];
    }
    way.reverse();
    way
}

/// States are stored without the names of clients and nodes. To tell the story with names, each step is found again by its
/// result.
fn tell(setup: &Setup, way: &[u64], promise: Promise) -> String {
    let mut told = String::new();
    let mut state = without_the_past(State::new(setup), setup);
    for print in way {
        let leads_there = |step: &Move| canonical(take(&state, setup, *step).0, setup).1 == *print;
        let mut steps = enabled(&state, setup).into_iter();
        let step = steps.find(leads_there);
        let step = step.expect("each state was found from its parent by one step");
        let (next, _) = take(&state, setup, step);
        told += &story::line(&state, step, &next);
        state = without_the_past(next, setup);
    }
    let breaks = |step: &Move| take(&state, setup, *step).1 == Some(promise);
    let last = enabled(&state, setup).into_iter().find(breaks);
    let last = last.expect("the promise is broken by one more step");
    told += &story::line(&state, last, &take(&state, setup, last).0);
    format!("{told}    BROKEN: {promise}\n")
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} states, {} transitions, {:.1} s",
            self.states,
            self.transitions,
            self.took.as_secs_f32()
        )
    }
}
