//! Beats: the most important events of a run, one sentence each.
//!
//! Every event that the verdict cites is included. The remaining beats are the events with the highest weight.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Serialize;

use super::phrases::{self, RefusedFences};
use crate::history::{Event, What, fences};
use crate::protocol::{Action, PurchaseOutcome, ReleaseResult};
use crate::text::capital;
use crate::text::numbers::{ShortFences, count, decimal, plural};
use crate::verdict::{Evidence, Outcome, Verdict};

/// The maximum number of beats. A story has fewer only if there is nothing more to tell.
const BEATS_MAX: usize = 9;
const BEATS_MIN: usize = 5;
/// Events with a lower weight are used only to fill a story that would be too short.
const WEIGHT_WORTH_TELLING: u32 = 20;
/// A request that was answered sooner is not described as a wait.
const NOTABLE_WAIT_NS: u64 = 10_000_000;

/// Up to this many processes are described individually.
const FEW_PROCESSES: usize = 4;

/// One event of a story.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Beat {
    /// The number of the event.
    pub event: u64,
    /// What happened.
    pub text: String,
    /// Why the event stands out, if it does.
    pub mark: Option<Emphasis>,
}

/// Why an event of a story stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Emphasis {
    /// The verdict rests on it.
    Proof,
    /// It is the last event of a run in which nothing broke.
    Good,
}

/// Returns the story of a run with this verdict.
pub(crate) fn beats(verdict: &Verdict, events: &[Event]) -> Vec<Beat> {
    let evidence: HashMap<u64, &Evidence> = verdict.evidence.iter().map(|e| (e.event, e)).collect();
    let names: HashSet<&str> = events
        .iter()
        .filter_map(|event| event.who.as_deref())
        .collect();
    let mut picker = Picker::of(events);
    let mut beats: Vec<(u32, Beat)> = Vec::new();
    for event in events {
        let telling = picker.tell(event);
        let (weight, text, mark) = match evidence.get(&event.n) {
            Some(evidence) => (u32::MAX, proof(evidence, &names), Some(Emphasis::Proof)),
            None => match telling {
                Some((weight, text)) => (weight, text, None),
                None => continue,
            },
        };
        let event = event.n;
        beats.push((weight, Beat { event, text, mark }));
    }
    let mut by_weight: Vec<(u32, usize)> = beats
        .iter()
        .enumerate()
        .map(|(at, (weight, _))| (*weight, at))
        .collect();
    by_weight.sort_by_key(|(weight, at)| (std::cmp::Reverse(*weight), *at));
    let enough = by_weight
        .iter()
        .take_while(|(weight, _)| *weight >= WEIGHT_WORTH_TELLING)
        .count();
    by_weight.truncate(enough.clamp(BEATS_MIN, BEATS_MAX));
    let chosen: BTreeSet<usize> = by_weight.into_iter().map(|(_, at)| at).collect();
    let mut story: Vec<Beat> = beats
        .into_iter()
        .enumerate()
        .filter(|(at, _)| chosen.contains(at))
        .map(|(_, (_, beat))| beat)
        .collect();
    if verdict.outcome == Outcome::Held
        && let Some(last) = story.last_mut()
    {
        last.mark = Some(Emphasis::Good);
    }
    story
}

fn proof(evidence: &Evidence, names: &HashSet<&str>) -> String {
    let mut text = sentence(&evidence.sentence, names);
    if !evidence.shows.is_empty() {
        text.pop();
        text.push_str(&format!("; {}.", evidence.shows.trim_end_matches('.')));
    }
    text
}

/// Adds a capital, unless the text starts with the name of a process, and a full stop.
fn sentence(text: &str, names: &HashSet<&str>) -> String {
    let text = text.trim_end_matches('.');
    let first_word = text.split([' ', ',', ':']).next().unwrap_or_default();
    let mut letters = text.chars();
    match letters.next() {
        Some(first) if !names.contains(first_word) => {
            format!("{}{}.", first.to_uppercase(), letters.as_str())
        }
        _ => format!("{text}."),
    }
}

/// Assigns a weight to each event in turn.
struct Picker<'a> {
    answers: HashMap<u64, u64>,
    orders: usize,
    last_order: u64,
    firsts: HashMap<(&'static str, Option<&'a str>), usize>,
    keys: usize,
    processes: usize,
    fences: ShortFences<'a>,
    /// Whether a process was asked to buy after another had its answer. Then each purchase is described individually.
    asked_apart: bool,
}

impl<'a> Picker<'a> {
    fn of(events: &'a [Event]) -> Self {
        let mut picker = Self {
            answers: HashMap::new(),
            orders: 0,
            last_order: 0,
            firsts: HashMap::new(),
            keys: 0,
            processes: 0,
            fences: ShortFences::among(&fences(events)),
            asked_apart: false,
        };
        let mut answered = false;
        let mut keys: Vec<&str> = Vec::new();
        for event in events {
            match &event.what {
                What::Acquired { op, .. } | What::Refused { op, .. } | What::Failed { op, .. } => {
                    picker.answers.insert(*op, event.at_ns);
                }
                What::Purchase { .. } => picker.asked_apart |= answered,
                What::Purchased { purchase, .. } => {
                    answered = true;
                    if purchase.outcome == PurchaseOutcome::Sold {
                        picker.last_order = event.n;
                    }
                }
                What::Acquire { key, .. } => keys.push(key),
                _ => {}
            }
        }
        keys.sort_unstable();
        keys.dedup();
        picker.keys = keys.len();
        let names: HashSet<&str> = events
            .iter()
            .filter_map(|event| event.who.as_deref())
            .collect();
        picker.processes = names.len();
        picker
    }

    /// Counts how often this kind of event occurred before: for this process or, in a crowd, for any process.
    fn times(&mut self, kind: &'static str, who: Option<&'a str>) -> usize {
        let who = who.filter(|_| self.processes <= FEW_PROCESSES);
        let times = self.firsts.entry((kind, who)).or_default();
        *times += 1;
        *times - 1
    }

    /// Returns the weight and the text of an event; `None` if it is not worth a beat.
    fn tell(&mut self, event: &'a Event) -> Option<(u32, String)> {
        let who = event.who.as_deref();
        let name = who.unwrap_or("the lab");
        let (weight, text) = match &event.what {
            What::StockSet { units } => (70, phrases::stock_set(*units).full),
            What::Purchase { .. } if self.asked_apart => {
                if self.times("asked", who) > 0 {
                    return None;
                }
                (60, phrases::asked_to_buy(name).full)
            }
            What::Purchase { .. } if self.times("purchase", None) == 0 => {
                let asked = plural(self.processes, "process is", "processes are");
                (60, format!("{asked} asked to buy, {name} first"))
            }
            What::Purchased { .. } => self.answer(event, name)?,
            What::Failed { message, .. } => (55, phrases::failed(name, message).full),
            What::StockRead { units } => (90, phrases::stock_read(&count(*units))),
            What::Unseen { .. } => (91, phrases::unseen(name)),
            What::GaveUp { why } => (90, phrases::gave_up(why).full),
            What::Stalled { for_ms } => (92, phrases::stalled(&decimal(*for_ms)).full),
            What::Slept { for_ms } => (95, phrases::slept(&decimal(*for_ms)).full),
            What::StoreRead {
                key,
                taken,
                ttl_left_ms,
                server: None,
            } => (
                // A lock that is free at the end is less interesting.
                if *taken { 80 } else { 30 },
                phrases::stored(key, *taken, *ttl_left_ms),
            ),
            What::Fault { fault } => (100, phrases::fault(name, *fault, None).full),
            What::Server { server, change } => (95, capital(&change.describe(server, false))),
            // An inspection of a single server is described together with what happened to that server.
            What::StoreRead {
                server: Some(_), ..
            } => return None,
            _ => self.of_lock(event, who)?,
        };
        Some((weight, format!("{text}.")))
    }

    fn answer(&mut self, event: &Event, name: &str) -> Option<(u32, String)> {
        let What::Purchased { purchase, .. } = &event.what else {
            return None;
        };
        let outcome = purchase.outcome;
        let mut text = phrases::bought(name, outcome, false, !self.asked_apart).full;
        let weight = match outcome {
            PurchaseOutcome::Sold => {
                self.orders += 1;
                text.push_str(&format!(", order {}", count(self.orders as i64)));
                if let (Some(before), Some(after)) = (purchase.before, purchase.after) {
                    let (before, after) = (count(before), count(after));
                    text.push_str(&format!(": it read {before} and wrote {after}"));
                }
                match self.orders {
                    1 => 65,
                    _ if event.n == self.last_order => 50,
                    2 => 45,
                    _ => 5,
                }
            }
            PurchaseOutcome::Busy if self.times("busy", None) == 0 => 55,
            PurchaseOutcome::Busy => 2,
            PurchaseOutcome::NoStock if self.times("no stock", None) == 0 => 50,
            PurchaseOutcome::NoStock => 1,
            PurchaseOutcome::Unknown => 40,
        };
        Some((weight, text))
    }

    /// Returns the name of a lock, if there are several.
    fn named<'k>(&self, key: &'k str) -> Option<&'k str> {
        (self.keys > 1).then_some(key)
    }

    fn of_lock(&mut self, event: &'a Event, who: Option<&'a str>) -> Option<(u32, String)> {
        let name = who.unwrap_or("the lab");
        let weighted = match &event.what {
            What::Acquire { op, key, wait_ms } => {
                let answered = self.answers.get(op);
                if answered.is_some_and(|at| at.saturating_sub(event.at_ns) <= NOTABLE_WAIT_NS) {
                    return None;
                }
                let weight = if self.times("waits", who) < 2 { 60 } else { 3 };
                (weight, phrases::asks(name, self.named(key), *wait_ms > 0))
            }
            What::Acquired { key, fence, .. } => {
                let is_early = self.times("granted", who) < 2;
                let fence = fence.as_deref().map(|fence| self.fences.shorten(fence));
                let phrase = phrases::granted(name, self.named(key), fence.as_deref());
                (if is_early { 75 } else { 10 }, phrase)
            }
            What::Refused { key, .. } => {
                let is_first = self.times("refused", who) == 0;
                let phrase = phrases::refused(name, self.named(key), None);
                (if is_first { 74 } else { 4 }, phrase)
            }
            What::LeaseOver { key, .. } => (85, phrases::lease_over(name, self.named(key))),
            What::Register { .. } => return register(&event.what, name, self.fences),
            What::Declined { .. } => (80, phrases::declined(name)),
            What::Released {
                key,
                outcome: ReleaseResult::AlreadyLost,
                ..
            } => (78, phrases::released_too_late(name, self.named(key))),
            What::Released { key, .. } => (20, phrases::released(name, self.named(key))),
            What::Lost { .. } => (82, phrases::lost(name)),
            What::Reached { step, of, what, .. } => {
                (86, phrases::reached(name, *step, *of, what, false))
            }
            _ => return None,
        };
        let (weight, phrase) = weighted;
        Some((weight, phrase.full))
    }
}

fn register(what: &What, name: &str, fences: ShortFences<'_>) -> Option<(u32, String)> {
    let What::Register {
        serial,
        action,
        value,
        fence,
        highest,
        refused,
        ..
    } = what
    else {
        return None;
    };
    if *refused {
        let refused = RefusedFences {
            own: fence.as_deref(),
            highest: highest.as_deref(),
            among: fences,
        };
        return Some((
            88,
            phrases::step_refused(name, *action, refused, *serial).full,
        ));
    }
    let weight = match action {
        Action::Read => 56,
        Action::Write => 72,
    };
    Some((weight, phrases::step(name, *action, *value, *serial).full))
}

#[cfg(test)]
mod tests;
