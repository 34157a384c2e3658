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
pub enum Shown {
    /// The fault took place, and the lock was not convicted.
    Held,
    /// The lock was convicted.
    Broke,
    /// The fault was not seen, or not all requests were answered.
    Nothing,
}

/// One run of the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attempt {
    /// The length that was asked for.
    pub asked_ms: u64,
    /// How long the fault lasted at least, on the lab's clock.
    pub lasted_ns: Option<u64>,
    /// What was seen.
    pub seen: Shown,
}

impl Attempt {
    /// Returns an attempt in which nothing was seen.
    pub fn without_result(asked_ms: u64) -> Self {
        Self {
            asked_ms,
            lasted_ns: None,
            seen: Shown::Nothing,
        }
    }

    /// Returns what a run showed. A conviction is that of the checks. A lock that was not convicted held only if the fault took place, its
    /// holder went on or knew better, the waiter got the lock in the end, and nothing is in doubt.
    pub fn of(judged: &Judged, asked_ms: u64) -> Self {
        let lasted_ns = lasted_ns(judged.trial.scenario, &judged.facts);
        let has_waiter = judged.facts.first_of_lock(OTHER, FIRST_LOCK).is_some();
        let seen = if judged.verdict.outcome.is_conviction() {
            Shown::Broke
        } else if has_waiter && lasted_ns.is_some() && !is_in_doubt(judged, asked_ms) {
            Shown::Held
        } else {
            Shown::Nothing
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
    let held = judged.facts.first_of_lock(HOLDER, FIRST_LOCK);
    // Whoever knows that its lock is lost goes no further.
    let knew = held.is_some_and(|held| held.learned_at.is_some());
    let lasted_ns = lasted_ns(judged.trial.scenario, &judged.facts).unwrap_or_default();
    let is_short = lasted_ns < asked_ms.saturating_mul(500_000) && !knew;
    // Under a fence, two may meet without harm.
    let is_excused = verdict.outcome == Outcome::Held;
    has_met && !is_excused || shows_nothing || went_around || is_short
}

/// Returns how long the fault lasted at least, if it was seen and the holder did something afterwards.
fn lasted_ns(scenario: Scenario, facts: &Facts) -> Option<u64> {
    let held = facts.first_of_lock(HOLDER, FIRST_LOCK);
    let late = |from: Mark| {
        let is_write = |op: &&crate::holds::facts::Op| {
            op.who == HOLDER && op.action == Action::Write && op.mark > from
        };
        let write = facts.ops.iter().find(is_write).map(|op| op.mark);
        let learned = held.and_then(|held| held.learned_at);
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
            match held {
                Some(held) => {
                    late(held.granted)?;
                    (held.asked, held.granted)
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
            let granted = held?.granted;
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
    pub attempts: Vec<Attempt>,
}

impl Search {
    /// Creates a search that has not begun.
    pub fn new(trial: &Trial) -> Self {
        Self {
            scenario: trial.scenario,
            ttl_ms: trial.ttl_ms,
            attempts: Vec::new(),
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
        if let Some(last) = self.attempts.last()
            && last.seen == Shown::Nothing
        {
            let same = self.attempts.iter().rev();
            let tries = same
                .take_while(|one| one.asked_ms == last.asked_ms && one.seen == Shown::Nothing)
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
    fn held(&self) -> Option<&Attempt> {
        let shortest_ms = self.broke().map_or(u64::MAX, |broke| broke.asked_ms);
        let held = self.attempts.iter().filter(|one| one.seen == Shown::Held);
        held.filter(|one| one.asked_ms < shortest_ms)
            .max_by_key(|one| one.asked_ms)
    }

    /// Returns the shortest of the faults that were asked for and broke the lock.
    fn broke(&self) -> Option<&Attempt> {
        self.broken().min_by_key(|one| one.asked_ms)
    }

    /// Returns the fault that broke the lock and lasted for the shortest time. On a busy machine, that may be one for which a longer time
    /// was asked.
    pub fn shortest_broken(&self) -> Option<&Attempt> {
        self.broken().min_by_key(|one| one.length_ns())
    }

    /// Returns the fault that the lock withstood and that lasted longest, of those shorter than every one that broke it.
    pub fn longest_held(&self) -> Option<&Attempt> {
        let shortest = self.shortest_broken().map_or(u64::MAX, Attempt::length_ns);
        let held = self.attempts.iter().filter(|one| one.seen == Shown::Held);
        held.filter(|one| one.length_ns() < shortest)
            .max_by_key(|one| one.length_ns())
    }

    fn broken(&self) -> impl Iterator<Item = &Attempt> {
        let attempts = self.attempts.iter();
        attempts.filter(|one| one.seen == Shown::Broke)
    }

    /// Returns how many runs showed nothing.
    pub fn unclear(&self) -> usize {
        let unclear = self.attempts.iter();
        unclear.filter(|one| one.seen == Shown::Nothing).count()
    }

    /// Returns whether the search ended without an answer.
    pub fn gave_up(&self) -> bool {
        self.attempts
            .last()
            .is_none_or(|last| last.seen == Shown::Nothing)
    }

    /// Returns words such as "held up to a pause of 497.3 ms, broke at 502.9 ms (TTL 500.0 ms), 9 runs".
    pub fn in_words(&self) -> String {
        let fault = fault(self.scenario).unwrap_or("a fault of");
        let of = |attempt: &Attempt| length(attempt.length_ns());
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
        let runs = plural(self.attempts.len(), "run", "runs");
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
mod tests {
    use super::*;
    use crate::history::{History, What};
    use crate::holds::by_hand::{HistoryBuilder, KEY};
    use crate::protocol::{Claims, ReleaseResult};
    use crate::strategy;
    use crate::verdict::Verdict;

    fn search() -> Search {
        Search::new(&Trial::new(
            Scenario::Pause,
            strategy::find("safe").unwrap(),
            7,
        ))
    }

    /// Searches the edge of a lock that breaks at this length, and shows nothing in some runs.
    fn search_for(breaks_at_ms: u64, shows_nothing: impl Fn(usize) -> bool) -> Search {
        let mut search = search();
        while let Some(asked_ms) = search.next_ms() {
            assert!(search.attempts.len() < 50, "{search:?}");
            let seen = match asked_ms {
                _ if shows_nothing(search.attempts.len()) => Shown::Nothing,
                asked_ms if asked_ms < breaks_at_ms => Shown::Held,
                _ => Shown::Broke,
            };
            search.attempts.push(Attempt {
                asked_ms,
                lasted_ns: Some(asked_ms * 1_000_000),
                seen,
            });
        }
        search
    }

    #[test]
    fn the_edge_is_found_wherever_it_is() {
        for edge_ms in [60, 120, 333, 499, 500, 501, 700, 749] {
            let search = search_for(edge_ms, |_| false);
            let (held, broke) = (search.held().unwrap(), search.broke().unwrap());
            assert!(held.asked_ms < edge_ms && edge_ms <= broke.asked_ms);
            assert!(broke.asked_ms - held.asked_ms <= 5, "{search:?}");
            assert!(search.attempts.len() <= 10, "{search:?}");
        }
    }

    #[test]
    fn a_fault_that_lasted_longer_than_it_should_does_not_move_the_edge() {
        let attempt = |asked_ms, lasted_ms: u64, seen| Attempt {
            asked_ms,
            lasted_ns: Some(lasted_ms * 1_000_000),
            seen,
        };
        let mut search = search();
        search.attempts = vec![
            attempt(550, 550, Shown::Broke),
            attempt(497, 497, Shown::Held),
            attempt(501, 940, Shown::Broke),
            attempt(499, 555, Shown::Held),
        ];
        assert_eq!(
            search.in_words(),
            "held up to a pause of 497.0 ms, broke at 550.0 ms (TTL 500.0 ms), 4 runs"
        );
    }

    #[test]
    fn a_lock_that_withstands_everything_is_tried_once_with_the_longest_fault() {
        let search = search_for(u64::MAX, |_| false);
        assert_eq!(
            search.in_words(),
            "held up to a pause of 750.0 ms, the longest that was tried (TTL 500.0 ms), 1 run"
        );
    }

    #[test]
    fn a_lock_that_withstands_nothing_is_told_so() {
        let search = search_for(0, |_| false);
        assert_eq!(
            search.in_words(),
            "broke at a pause of 50.0 ms, the shortest that was tried (TTL 500.0 ms), 2 runs"
        );
    }

    #[test]
    fn runs_that_show_nothing_are_repeated_and_counted() {
        let search = search_for(500, |run| run % 2 == 1);
        assert!(search.in_words().starts_with("held up to a pause of "));
        assert!(search.in_words().contains(" ms, broke at "));
        assert!(search.in_words().ends_with("showed nothing"), "{search:?}");
        assert!(!search.gave_up());
        let hopeless = search_for(500, |run| run >= 2);
        assert!(hopeless.gave_up());
        assert_eq!(
            hopeless.in_words(),
            "held up to a pause of 50.0 ms, broke at 750.0 ms; then the search ended, because nothing was seen (TTL 500.0 ms), 5 runs, of which 3 showed nothing"
        );
    }

    fn attempt(history: &HistoryBuilder, scenario: Scenario, asked_ms: u64) -> Attempt {
        let trial = Trial::new(scenario, strategy::find("safe").unwrap(), 7);
        let history = History {
            header: history.header(),
            events: history.events().to_vec(),
        };
        Attempt::of(&Judged::of(&trial, history), asked_ms)
    }

    /// A is stopped for 700 ms of its lease of a second, writes and releases; B comes before that, or after it.
    fn paused(b_comes_at: f64) -> HistoryBuilder {
        HistoryBuilder::of(Scenario::Pause)
            .granted("A", KEY, 0.0, 1.0, 1)
            .reads("A", 2.0, 1)
            .fault("A", 3.0, Fault::Stopped)
            .fault("A", 703.0, Fault::Continued)
            .granted("B", KEY, 500.0, b_comes_at, 1)
            .writes("A", 1_010.0, 1, 1)
            .releases("A", 1_020.0, 1, ReleaseResult::Released)
    }

    #[test]
    fn a_run_in_doubt_shows_nothing() {
        let calm = attempt(&paused(1_030.0), Scenario::Pause, 700);
        assert_eq!(calm.seen, Shown::Held);
        // Something went wrong after the lease, and the lab may have been the reason.
        let claims = Claims {
            keep_alive: true,
            ..Claims::PLAIN
        };
        let stalled = HistoryBuilder::of(Scenario::TtlEdge)
            .promising(claims)
            .granted("A", KEY, 0.0, 1.0, 1)
            .reads("A", 2.0, 1)
            .stalls(10.0, 1_100.0)
            .granted("B", KEY, 500.0, 1_200.0, 1)
            .writes("A", 3_000.0, 1, 1)
            .releases("A", 3_010.0, 1, ReleaseResult::AlreadyLost);
        let stalled = attempt(&stalled, Scenario::TtlEdge, 3_000);
        assert_eq!(stalled.seen, Shown::Nothing);
    }

    /// The same run as if it had lacked something else.
    fn seen_without(what: Lack) -> Shown {
        let trial = Trial::new(Scenario::Pause, strategy::find("safe").unwrap(), 7);
        let calm = paused(1_030.0);
        let history = History {
            header: calm.header(),
            events: calm.events().to_vec(),
        };
        let mut judged = Judged::of(&trial, history);
        judged.verdict = Verdict::inconclusive("", what, "");
        Attempt::of(&judged, 700).seen
    }

    #[test]
    fn only_what_a_fault_lacks_that_was_too_short_shows_that_a_lock_held() {
        for what in [
            Lack::Overrun,
            Lack::Contention,
            Lack::Pause,
            Lack::Cut,
            Lack::Delay,
            Lack::Grant,
        ] {
            assert_eq!(seen_without(what), Shown::Held, "{what:?}");
        }
        for what in [
            Lack::Answers,
            Lack::Awake,
            Lack::Calm,
            Lack::Clock,
            Lack::Kept,
            Lack::Ready,
            Lack::Scenario,
            Lack::Traffic,
        ] {
            assert_eq!(seen_without(what), Shown::Nothing, "{what:?}");
        }
    }

    #[test]
    fn a_lock_that_goes_around_the_proxy_shows_nothing() {
        let around = HistoryBuilder::of(Scenario::SlowReplies)
            .fault("A", 0.5, Fault::Slowed)
            .granted("A", KEY, 1.0, 2.2, 1)
            .reads("A", 3.0, 1)
            .writes("A", 4.0, 1, 1)
            .releases("A", 5.0, 1, ReleaseResult::Released)
            .granted("B", KEY, 6.0, 7.0, 1);
        // A grant that was to be learned after a second was there after 1.2 ms.
        assert_eq!(
            attempt(&around, Scenario::SlowReplies, 1_000).seen,
            Shown::Nothing
        );
        assert_eq!(attempt(&around, Scenario::SlowReplies, 2).seen, Shown::Held);
        let unseen = around.add(2.1, "A", What::Unseen { hold: 1 });
        assert_eq!(
            attempt(&unseen, Scenario::SlowReplies, 2).seen,
            Shown::Nothing
        );
    }

    #[test]
    fn a_run_without_the_fault_shows_nothing() {
        let trial = Trial::new(Scenario::Pause, strategy::find("safe").unwrap(), 7);
        let history = History {
            header: trial.header(),
            events: Vec::new(),
        };
        let attempt = Attempt::of(&Judged::of(&trial, history), 480);
        assert_eq!(attempt, Attempt::without_result(480));
    }
}
