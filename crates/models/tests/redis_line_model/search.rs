//! Searches all states of the Redis line model, breadth first, so that the first conviction has the shortest story.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::fmt;
use std::time::{Duration, Instant};

use crate::canonical::{ByPrint, canonical, fingerprint, observable};
use crate::invariants::{self, Promise};
use crate::moves::{Move, after, enabled};
use crate::progress::{self, Cost, Progress};
use crate::setup::Setup;
use crate::state::State;
use crate::story;

/// A client with more unread pushes than this is not explored further; such cuts are counted.
const UNREAD_PUSHES_MAX: usize = 3;

/// Where a promise is broken: in the state that was found, or in what must follow from it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Here,
    Later,
}

/// A broken promise, with the steps that led to it.
pub(crate) struct Conviction {
    pub(crate) promise: Promise,
    pub(crate) story: String,
}

/// The size and the result of a search.
pub(crate) struct Outcome {
    pub(crate) states: usize,
    pub(crate) transitions: u64,
    pub(crate) cut_off: u64,
    pub(crate) worst: Cost,
    pub(crate) took: Duration,
    pub(crate) conviction: Option<Conviction>,
}

/// Visits every state that the setup can reach, or stops at the first broken promise.
pub(crate) fn search(setup: &Setup) -> Outcome {
    let started = Instant::now();
    let mut search = Search::new(setup);
    let conviction = search.visit_all();
    Outcome {
        states: search.parents.len(),
        transitions: search.transitions,
        cut_off: search.cut_off,
        worst: search.progress.worst,
        took: started.elapsed(),
        conviction,
    }
}

struct Search<'a> {
    setup: &'a Setup,
    /// Maps each state's fingerprint to that of its predecessor.
    parents: ByPrint<u64>,
    queue: VecDeque<State>,
    progress: Progress,
    transitions: u64,
    cut_off: u64,
}

impl<'a> Search<'a> {
    fn new(setup: &'a Setup) -> Self {
        let first = canonical(State::new(setup), setup);
        let first_print = fingerprint(&first);
        Self {
            setup,
            parents: ByPrint::from_iter([(first_print, first_print)]),
            queue: VecDeque::from([first]),
            progress: Progress::default(),
            transitions: 0,
            cut_off: 0,
        }
    }

    fn visit_all(&mut self) -> Option<Conviction> {
        while let Some(state) = self.queue.pop_front() {
            let here = fingerprint(&state);
            if let Err(promise) = self.progress.judge(&state, self.setup) {
                return Some(self.conviction(here, promise, Ending::Later));
            }
            for step in enabled(&state, self.setup) {
                self.transitions += 1;
                let next = canonical(after(&state, self.setup, step), self.setup);
                let there = fingerprint(&next);
                let Entry::Vacant(vacant) = self.parents.entry(there) else {
                    continue;
                };
                vacant.insert(here);
                if let Some(promise) = invariants::broken(&next) {
                    return Some(self.conviction(there, promise, Ending::Here));
                }
                if next
                    .clients
                    .iter()
                    .any(|it| it.pushes.len() > UNREAD_PUSHES_MAX)
                {
                    self.cut_off += 1;
                    continue;
                }
                self.queue.push_back(next);
            }
        }
        None
    }

    fn conviction(&self, end: u64, promise: Promise, ending: Ending) -> Conviction {
        let mut told = String::new();
        let mut state = observable(State::new(self.setup), self.setup);
        for print in self.way_to(end) {
            let step = self.step_to(&state, print);
            let next = after(&state, self.setup, step);
            told += &story::line(&state, step, &next);
            state = observable(next, self.setup);
        }
        if ending == Ending::Later {
            told += "    ... from here on nothing goes wrong any more, and everybody acts at once ...\n";
            told += &progress::tell(&state, self.setup, promise);
        }
        Conviction {
            promise,
            story: format!("{told}    BROKEN: {promise}\n"),
        }
    }

    fn way_to(&self, end: u64) -> Vec<u64> {
        let mut way = Vec::new();
        let mut print = end;
        while self.parents[&print] != print {
            way.push(print);
            print = self.parents[&print];
        }
        way.reverse();
        way
    }

    /// States are stored without the names of their clients. To tell the story with names, each step is found again by its
    /// result.
    fn step_to(&self, state: &State, print: u64) -> Move {
        let leads_there = |step: &Move| {
            let next = canonical(after(state, self.setup, *step), self.setup);
            fingerprint(&next) == print
        };
        enabled(state, self.setup)
            .into_iter()
            .find(leads_there)
            .expect("each state was found from its parent by one step")
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} states, {} transitions, {:.1} s",
            self.states,
            self.transitions,
            self.took.as_secs_f32()
        )?;
        if self.conviction.is_none() {
            let Cost { ticks, dead_ticks } = self.worst;
            write!(
                f,
                "; without faults all is done in {ticks} ticks, {dead_ticks} lost to dead waiters"
            )?;
        }
        if self.cut_off > 0 {
            write!(f, "; {} cut off", self.cut_off)?;
        }
        Ok(())
    }
}
