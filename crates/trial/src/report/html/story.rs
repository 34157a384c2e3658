//! The cropped story: a few events with a sentence each.
//!
//! Every event that the verdict names is in it; the rest of the room goes to what tells most. A story judges nothing.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Serialize;

use super::PageRun;
use crate::history::{Event, Fault, What};
use crate::holds::verdict::capital;
use crate::protocol::{Action, Outcome as Answered, ReleaseWord};
use crate::text::numbers::{count, plural, shorten};
use crate::verdict::{Evidence, Outcome};

/// A story is no longer than this, and no shorter while there is anything to tell.
const BEATS_MAX: usize = 9;
const BEATS_MIN: usize = 5;
/// What weighs less only fills a story that would be too short.
const WEIGHT_WORTH_TELLING: u32 = 20;
/// A request that was answered sooner is not told as a wait.
const NOTABLE_WAIT_NS: u64 = 10_000_000;

/// Of so many, each can be told of by name.
const FEW_PROCESSES: usize = 4;

/// One event of a story.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Beat {
    /// Its number.
    pub(super) event: u64,
    /// What happened.
    pub(super) text: String,
    /// What it stands for, beyond what it tells.
    pub(super) mark: Option<Mark>,
}

/// What an event of a story stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mark {
    /// The verdict rests on it.
    Proof,
    /// The last of a run in which nothing broke.
    Good,
}

/// The story of a run.
pub(super) fn story(run: &PageRun<'_>) -> Vec<Beat> {
    let evidence: HashMap<u64, &Evidence> =
        run.verdict.evidence.iter().map(|e| (e.event, e)).collect();
    let names: HashSet<&str> = run
        .events
        .iter()
        .filter_map(|event| event.who.as_deref())
        .collect();
    let mut teller = Teller::of(run.events);
    let mut told: Vec<(u32, Beat)> = Vec::new();
    for event in run.events {
        let telling = teller.tell(event);
        let (weight, text, mark) = match evidence.get(&event.n) {
            Some(evidence) => (u32::MAX, proof(evidence, &names), Some(Mark::Proof)),
            None => match telling {
                Some((weight, text)) => (weight, text, None),
                None => continue,
            },
        };
        let event = event.n;
        told.push((weight, Beat { event, text, mark }));
    }
    let mut by_weight: Vec<(u32, usize)> = told
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
    let told = told
        .into_iter()
        .enumerate()
        .filter(|(at, _)| chosen.contains(at))
        .map(|(_, told)| told);
    let mut story: Vec<Beat> = told.map(|(_, beat)| beat).collect();
    if run.verdict.outcome == Outcome::Held
        && let Some(last) = story.last_mut()
    {
        last.mark = Some(Mark::Good);
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

/// With a capital, unless a process stands first, and a full stop.
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

/// Every fence of a run.
pub(super) fn fences(events: &[Event]) -> Vec<&str> {
    let all = events.iter().filter_map(|event| match &event.what {
        What::Acquired { fence, .. } | What::Register { fence, .. } => fence.as_deref(),
        _ => None,
    });
    all.collect()
}

/// Finds words for events, one after the other.
struct Teller<'a> {
    answers: HashMap<u64, u64>,
    orders: usize,
    last_order: u64,
    firsts: HashMap<(&'static str, Option<&'a str>), usize>,
    keys: usize,
    processes: usize,
    fences: Vec<&'a str>,
    /// Somebody was asked to buy after another had its answer: then each has a story of its own.
    asked_apart: bool,
}

impl<'a> Teller<'a> {
    fn of(events: &'a [Event]) -> Self {
        let mut teller = Self {
            answers: HashMap::new(),
            orders: 0,
            last_order: 0,
            firsts: HashMap::new(),
            keys: 0,
            processes: 0,
            fences: fences(events),
            asked_apart: false,
        };
        let mut answered = false;
        let mut keys: Vec<&str> = Vec::new();
        for event in events {
            match &event.what {
                What::Acquired { op, .. } | What::Refused { op, .. } | What::Failed { op, .. } => {
                    teller.answers.insert(*op, event.at_ns);
                }
                What::Purchase { .. } => teller.asked_apart |= answered,
                What::Purchased { purchase, .. } => {
                    answered = true;
                    if purchase.outcome == Answered::Sold {
                        teller.last_order = event.n;
                    }
                }
                What::Acquire { key, .. } => keys.push(key),
                _ => {}
            }
        }
        keys.sort_unstable();
        keys.dedup();
        teller.keys = keys.len();
        let names: HashSet<&str> = events
            .iter()
            .filter_map(|event| event.who.as_deref())
            .collect();
        teller.processes = names.len();
        teller
    }

    /// How often this has been told of them before; in a crowd, of anybody.
    fn times(&mut self, kind: &'static str, who: Option<&'a str>) -> usize {
        let who = who.filter(|_| self.processes <= FEW_PROCESSES);
        let times = self.firsts.entry((kind, who)).or_default();
        *times += 1;
        *times - 1
    }

    /// What an event says, and how much it tells; nothing for what tells nothing.
    fn tell(&mut self, event: &'a Event) -> Option<(u32, String)> {
        let who = event.who.as_deref();
        let name = who.unwrap_or("the lab");
        let (weight, text) = match &event.what {
            What::StockSet { units } => {
                (70, format!("The lab sets the stock to {}", count(*units)))
            }
            What::Purchase { .. } if self.asked_apart => {
                if self.times("asked", who) > 0 {
                    return None;
                }
                (60, format!("{name} is asked to buy"))
            }
            What::Purchase { .. } if self.times("purchase", None) == 0 => {
                let asked = plural(self.processes, "process is", "processes are");
                (60, format!("{asked} asked to buy, {name} first"))
            }
            What::Purchased { .. } => self.answer(event, name)?,
            What::Failed { message, .. } => (55, format!("{name} fails: {message}")),
            What::StockRead { units } => {
                (90, format!("The lab reads the stock: {}", count(*units)))
            }
            What::GaveUp { why } => (90, format!("The lab stops waiting: {why}")),
            What::StoreRead {
                key,
                taken,
                ttl_left_ms,
                server: None,
            } => (
                // That nobody has the lock in the end is no news.
                if *taken { 80 } else { 30 },
                format!(
                    "The lab looks at the store: {}",
                    stored(key, *taken, *ttl_left_ms)
                ),
            ),
            What::Fault { fault } => (100, struck(name, *fault)),
            What::Server { server, change } => (95, capital(&change.told(server, false))),
            // What the lab looks up on one server is told with what became of it.
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
        let told = match purchase.outcome {
            Answered::Sold => {
                self.orders += 1;
                let weight = match self.orders {
                    1 => 65,
                    _ if event.n == self.last_order => 50,
                    2 => 45,
                    _ => 5,
                };
                let read = match (purchase.before, purchase.after) {
                    (Some(before), Some(after)) => {
                        format!(": it read {} and wrote {}", count(before), count(after))
                    }
                    _ => String::new(),
                };
                (
                    weight,
                    format!(
                        "{name} is told sold, order {}{read}",
                        count(self.orders as i64)
                    ),
                )
            }
            Answered::Busy => {
                let weight = if self.times("busy", None) == 0 { 55 } else { 2 };
                let then = if self.asked_apart {
                    ""
                } else {
                    " and goes away"
                };
                (weight, format!("{name} finds the lock taken{then}"))
            }
            Answered::NoStock => {
                let weight = if self.times("no stock", None) == 0 {
                    50
                } else {
                    1
                };
                (
                    weight,
                    format!("{name} gets its turn and finds nothing left"),
                )
            }
            Answered::Unknown => (40, format!("{name} cannot tell whether it bought")),
        };
        Some(told)
    }

    fn of_lock(&mut self, event: &'a Event, who: Option<&'a str>) -> Option<(u32, String)> {
        let name = who.unwrap_or("the lab");
        let lock = |key: &str, keys: usize| {
            if keys > 1 {
                key.to_owned()
            } else {
                "the lock".to_owned()
            }
        };
        let told = match &event.what {
            What::Acquire { op, key, wait_ms } => {
                let waits = self
                    .answers
                    .get(op)
                    .is_none_or(|at| at - event.at_ns > NOTABLE_WAIT_NS);
                if !waits {
                    return None;
                }
                let weight = if self.times("waits", who) < 2 { 60 } else { 3 };
                let then = if *wait_ms > 0 { " and waits" } else { "" };
                (
                    weight,
                    format!("{name} asks for {}{then}", lock(key, self.keys)),
                )
            }
            What::Acquired { key, fence, .. } => {
                let weight = if self.times("granted", who) < 2 {
                    75
                } else {
                    10
                };
                let fence = fence.as_deref().map_or(String::new(), |fence| {
                    format!(", with fence {}", shorten(fence, &self.fences))
                });
                (
                    weight,
                    format!("{name} is granted {}{fence}", lock(key, self.keys)),
                )
            }
            What::Refused { key, .. } => {
                let weight = if self.times("refused", who) == 0 {
                    74
                } else {
                    4
                };
                (
                    weight,
                    format!("{name} is refused {}", lock(key, self.keys)),
                )
            }
            What::LeaseOver { key, .. } => {
                let of = if self.keys > 1 {
                    format!(" of {key}")
                } else {
                    String::new()
                };
                (
                    85,
                    format!("{name}'s lease{of} is over by now; {name} does not know"),
                )
            }
            What::Register { .. } => register(&event.what, name, &self.fences)?,
            What::Declined { .. } => (
                80,
                format!("{name} declines to go on: it knows that its lock is lost"),
            ),
            What::Released {
                key,
                outcome: ReleaseWord::AlreadyLost,
                ..
            } => (
                78,
                format!(
                    "{name} releases {}, which is no longer its own",
                    lock(key, self.keys)
                ),
            ),
            What::Released { key, .. } => {
                (20, format!("{name} gives {} back", lock(key, self.keys)))
            }
            What::Lost { .. } => (82, format!("{name} learns that its lock is lost")),
            What::Reached { step, of, what, .. } => {
                (86, format!("{name} has done step {step} of {of}: {what}"))
            }
            _ => return None,
        };
        Some(told)
    }
}

fn register(what: &What, name: &str, fences: &[&str]) -> Option<(u32, String)> {
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
    let told = match (action, refused, fence, highest) {
        (_, true, Some(fence), Some(highest)) => {
            let (fence, highest) = (shorten(fence, fences), shorten(highest, fences));
            let verb = if *action == Action::Write {
                "write"
            } else {
                "read"
            };
            (
                88,
                format!(
                    "{name}'s {verb} is refused: its fence {fence} is below {highest} (op {serial})"
                ),
            )
        }
        (_, true, ..) => (88, format!("{name}'s step is refused (op {serial})")),
        (Action::Read, ..) => (56, format!("{name} reads {} (op {serial})", count(*value))),
        (Action::Write, ..) => (72, format!("{name} writes {} (op {serial})", count(*value))),
    };
    Some(told)
}

fn struck(name: &str, fault: Fault) -> String {
    match fault {
        Fault::Killed => format!("The lab kills {name} (SIGKILL) and sees it die"),
        Fault::Stopped => format!("The lab stops {name} (SIGSTOP)"),
        Fault::Continued => format!("The lab lets {name} go on (SIGCONT)"),
    }
}

fn stored(key: &str, taken: bool, ttl_left_ms: Option<f64>) -> String {
    match (taken, ttl_left_ms) {
        (false, _) => format!("{key} is free"),
        (true, None) => format!("{key} is taken, and has no expiry"),
        (true, Some(ms)) => format!("{key} is taken, for {ms:.1} ms more"),
    }
}

#[cfg(test)]
mod tests;
