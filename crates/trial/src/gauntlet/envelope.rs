//! The envelope of a lock: up to which length of a fault it held, and at which length it broke.
//!
//! A search halves the distance between the longest fault that the lock withstood and the shortest that broke it. It tells what was seen in
//! a few runs, and proves nothing about the lengths in between.

use serde::Serialize;

use crate::history::Fault;
use crate::holds::facts::{Facts, Mark};
use crate::holds::{FIRST_LOCK, HOLDER, Judged, OTHER, Scenario, Trial};
use crate::protocol::Action;
use crate::text::numbers::{duration, plural};
use crate::verdict::{Belief, Lack, Outcome};

/// How often a length is tried at most, if nothing was seen.
const TRIES_MAX: usize = 3;

/// What a run lacks if its fault was too short to do anything to the lock.
const TOO_SHORT: [Lack; 6] = [
    Lack::Overrun,
    Lack::Contention,
    Lack::Pause,
    Lack::Cut,
    Lack::Delay,
    // Its holder was told so late of the grant that it did not take the lock.
    Lack::Grant,
];

/// Returns the words before the length of a scenario's fault, such as "a pause of"; `None` if its fault has no length.
pub fn fault(scenario: Scenario) -> Option<&'static str> {
    match scenario {
        Scenario::TtlEdge => Some("work of"),
        Scenario::Pause => Some("a pause of"),
        Scenario::Cut => Some("a cut of"),
        Scenario::SlowReplies => Some("a grant that is learned after"),
        _ => None,
    }
}

/// What a run with a fault of a certain length showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeSeen {
    /// The fault took place, and the lock was not convicted.
    Held,
    /// The lock was convicted.
    Broke,
    /// The fault was not seen, or not all requests were answered.
    Nothing,
}

/// One run of the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probe {
    /// The length that was asked for.
    pub asked_ms: u64,
    /// How long the fault lasted at least, on the lab's clock.
    pub lasted_ns: Option<u64>,
    /// What was seen.
    pub seen: EdgeSeen,
}

impl Probe {
    /// Returns a probe in which nothing was seen.
    pub fn without_result(asked_ms: u64) -> Self {
        Self {
            asked_ms,
            lasted_ns: None,
            seen: EdgeSeen::Nothing,
        }
    }

    /// Returns what a run showed. A conviction is that of the checks. A lock that was not convicted held only if the fault took place, its
    /// holder went on or knew better, the waiter got the lock in the end, and nothing is in doubt.
    pub fn of(judged: &Judged, asked_ms: u64) -> Self {
        let lasted_ns = lasted_ns(judged.trial.scenario, &judged.facts);
        let has_waiter = judged.facts.first_of_lock(OTHER, FIRST_LOCK).is_some();
        let seen = if judged.verdict.outcome.is_conviction() {
            EdgeSeen::Broke
        } else if has_waiter && lasted_ns.is_some() && !is_in_doubt(judged, asked_ms) {
            EdgeSeen::Held
        } else {
            EdgeSeen::Nothing
        };
        Self {
            asked_ms,
            lasted_ns,
            seen,
        }
    }

    fn length_ns(&self) -> u64 {
        let asked_ns = self.asked_ms.saturating_mul(1_000_000);
        self.lasted_ns.unwrap_or(asked_ns)
    }
}

/// Returns whether a run without a conviction does not show that the lock held: two processes met, it lacks something else than a fault that
/// was long enough, the lock went around the store, or the fault was much shorter than it should have been.
fn is_in_doubt(judged: &Judged, asked_ms: u64) -> bool {
    let verdict = &judged.verdict;
    let has_met = verdict.belief.code == Belief::Overlap || !verdict.damage.code.is_empty();
    let shows_nothing = match &verdict.missing {
        Some(missing) => !TOO_SHORT.contains(&missing.what),
        None => verdict.outcome != Outcome::Held,
    };
    let went_around = !judged.facts.unseen.is_empty();
    let hold = judged.facts.first_of_lock(HOLDER, FIRST_LOCK);
    // Whoever knows that its lock is lost goes no further.
    let knew = hold.is_some_and(|hold| hold.learned_at.is_some());
    let lasted_ns = lasted_ns(judged.trial.scenario, &judged.facts).unwrap_or_default();
    let is_short = lasted_ns < asked_ms.saturating_mul(500_000) && !knew;
    // Under a fence, two may meet without harm.
    let is_excused = verdict.outcome == Outcome::Held;
    has_met && !is_excused || shows_nothing || went_around || is_short
}

/// Returns how long the fault lasted at least, if it was seen and the holder did something afterwards.
fn lasted_ns(scenario: Scenario, facts: &Facts) -> Option<u64> {
    let hold = facts.first_of_lock(HOLDER, FIRST_LOCK);
    let late = |from: Mark| {
        let is_write = |op: &&crate::holds::facts::Op| {
            op.who == HOLDER && op.action == Action::Write && op.mark > from
        };
        let write = facts.ops.iter().find(is_write).map(|op| op.mark);
        let learned = hold.and_then(|hold| hold.learned_at);
        write.into_iter().chain(learned).min()
    };
    let (from, until) = match scenario {
        Scenario::Pause => {
            let continued = facts.fault_of(HOLDER, Fault::Continued)?;
            late(continued).or(late(facts.fault_of(HOLDER, Fault::Stopped)?))?;
            (facts.fault_of(HOLDER, Fault::Stopped)?, continued)
        }
        Scenario::Cut => {
            let cut = facts.fault_of(HOLDER, Fault::CutOff)?;
            (cut, late(cut)?)
        }
        Scenario::SlowReplies => {
            facts.fault_of(HOLDER, Fault::Slowed)?;
            match hold {
                Some(hold) => {
                    late(hold.granted)?;
                    (hold.asked, hold.granted)
                }
                // It did not take the late answer for a grant.
                None => {
                    let mut waits = facts.waits.iter();
                    let own = waits.find(|wait| wait.who == HOLDER && wait.key == FIRST_LOCK)?;
                    (own.asked, own.refused()?)
                }
            }
        }
        _ => {
            let granted = hold?.granted;
            (granted, late(granted)?)
        }
    };
    Some(until.at_ns.saturating_sub(from.at_ns))
}

/// The search for the edge in one scenario.
#[derive(Debug, Clone)]
pub struct Search {
    /// The scenario.
    pub scenario: Scenario,
    /// The TTL of its trials.
    pub ttl_ms: u64,
    /// The runs so far.
    pub probes: Vec<Probe>,
}

impl Search {
    /// Creates a search that has not begun.
    pub fn new(trial: &Trial) -> Self {
        Self {
            scenario: trial.scenario,
            ttl_ms: trial.ttl_ms,
            probes: Vec::new(),
        }
    }

    fn longest_ms(&self) -> u64 {
        match self.scenario {
            // So long that a lock which renews its lease only once or twice breaks too.
            Scenario::TtlEdge => self.ttl_ms * 7 / 2,
            Scenario::SlowReplies => self.ttl_ms,
            _ => self.ttl_ms * 3 / 2,
        }
    }

    /// Returns how close two lengths must be.
    fn resolution_ms(&self) -> u64 {
        (self.ttl_ms / 100).max(5)
    }

    /// Returns the length to try next; `None` if the search is over.
    pub fn next_ms(&self) -> Option<u64> {
        if let Some(last) = self.probes.last()
            && last.seen == EdgeSeen::Nothing
        {
            let same = self.probes.iter().rev();
            let tries = same
                .take_while(|one| one.asked_ms == last.asked_ms && one.seen == EdgeSeen::Nothing)
                .count();
            return (tries < TRIES_MAX).then_some(last.asked_ms);
        }
        let (shortest_ms, longest_ms) = (self.ttl_ms / 10, self.longest_ms());
        match (self.held(), self.broke()) {
            (None, None) => Some(longest_ms),
            (Some(_), None) => None,
            (None, Some(broke)) if broke.asked_ms > shortest_ms => Some(shortest_ms),
            (None, Some(_)) => None,
            (Some(held), Some(broke)) => {
                let apart_ms = broke.asked_ms.saturating_sub(held.asked_ms);
                let middle_ms = held.asked_ms + apart_ms / 2;
                (apart_ms > self.resolution_ms()).then_some(middle_ms)
            }
        }
    }

    /// Returns the longest of the faults that were asked for and withstood, of those shorter than every one that broke the lock.
    fn held(&self) -> Option<&Probe> {
        let shortest_ms = self.broke().map_or(u64::MAX, |broke| broke.asked_ms);
        let held = self.probes.iter().filter(|one| one.seen == EdgeSeen::Held);
        held.filter(|one| one.asked_ms < shortest_ms)
            .max_by_key(|one| one.asked_ms)
    }

    /// Returns the shortest of the faults that were asked for and broke the lock.
    fn broke(&self) -> Option<&Probe> {
        self.broken().min_by_key(|one| one.asked_ms)
    }

    /// Returns the fault that broke the lock and lasted for the shortest time. On a busy machine, that may be one for which a longer time
    /// was asked.
    pub fn shortest_broken(&self) -> Option<&Probe> {
        self.broken().min_by_key(|one| one.length_ns())
    }

    /// Returns the fault that the lock withstood and that lasted longest, of those shorter than every one that broke it.
    pub fn longest_held(&self) -> Option<&Probe> {
        let shortest = self.shortest_broken().map_or(u64::MAX, Probe::length_ns);
        let held = self.probes.iter().filter(|one| one.seen == EdgeSeen::Held);
        held.filter(|one| one.length_ns() < shortest)
            .max_by_key(|one| one.length_ns())
    }

    fn broken(&self) -> impl Iterator<Item = &Probe> {
        let probes = self.probes.iter();
        probes.filter(|one| one.seen == EdgeSeen::Broke)
    }

    /// Returns how many runs showed nothing.
    pub fn unclear(&self) -> usize {
        let unclear = self.probes.iter();
        unclear.filter(|one| one.seen == EdgeSeen::Nothing).count()
    }

    /// Returns whether the search ended without an answer.
    pub fn gave_up(&self) -> bool {
        self.probes
            .last()
            .is_none_or(|last| last.seen == EdgeSeen::Nothing)
    }

    /// Returns words such as "held up to a pause of 497.3 ms, broke at 502.9 ms (TTL 500.0 ms), 9 runs".
    pub fn in_words(&self) -> String {
        let fault = fault(self.scenario).unwrap_or("a fault of");
        let of = |probe: &Probe| length(probe.length_ns());
        let mut text = match (self.longest_held(), self.shortest_broken()) {
            (Some(held), Some(broke)) => {
                format!("held up to {fault} {}, broke at {}", of(held), of(broke))
            }
            (Some(held), None) => {
                format!(
                    "held up to {fault} {}, the longest that was tried",
                    of(held)
                )
            }
            (None, Some(broke)) => {
                format!(
                    "broke at {fault} {}, the shortest that was tried",
                    of(broke)
                )
            }
            (None, None) => "neither held nor broke".to_owned(),
        };
        if self.gave_up() {
            text.push_str("; then the search ended, because nothing was seen");
        }
        let ttl = length(self.ttl_ms.saturating_mul(1_000_000));
        let runs = plural(self.probes.len(), "run", "runs");
        text.push_str(&format!(" (TTL {ttl}), {runs}"));
        match self.unclear() {
            0 => {}
            1 => text.push_str(", of which 1 showed nothing"),
            unclear => text.push_str(&format!(", of which {unclear} showed nothing")),
        }
        text
    }
}

fn length(ns: u64) -> String {
    let (number, unit) = duration(ns);
    format!("{number} {unit}")
}

#[cfg(test)]
mod tests;
