//! Wait cycles, in which every process waits for a lock that the next process holds.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{Facts, Hold, Mark, Wait};

/// A wait cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    /// The processes in the cycle. Each waits for the next, and the last waits for the first.
    pub who: Vec<String>,
    /// The request that closed it.
    pub since: Mark,
    /// The first answer that ended it; `None` if no process in the cycle got an answer.
    pub until: Option<Mark>,
    /// How long it certainly lasted.
    pub lasted_ns: u64,
}

impl Cycle {
    /// Returns words such as "A waits for B, B waits for A".
    pub(crate) fn waits(&self) -> String {
        let mut who = self.who.clone();
        // The description starts with the first process by name, whichever closed the cycle.
        let first = (0..who.len()).min_by_key(|index| who[*index].clone());
        who.rotate_left(first.unwrap_or(0));
        let next = who.iter().cycle().skip(1);
        let pairs = who.iter().zip(next);
        let pairs: Vec<String> = pairs
            .map(|(one, other)| format!("{one} waits for {other}"))
            .collect();
        pairs.join(", ")
    }
}

/// How many processes a cycle may have. A trial has a few; only a file that nobody recorded has more, and following its chains would
/// take too long.
const PROCESSES_MAX: usize = 64;
/// How many cycles are kept, for the same reason.
const CYCLES_MAX: usize = 10_000;

/// Returns every wait cycle, in the order in which they closed, as far as the limits allow.
pub(super) fn cycles(facts: &Facts) -> Vec<Cycle> {
    let mut closing: Vec<usize> = (0..facts.waits.len()).collect();
    closing.retain(|wait| facts.waits[*wait].wait_ms > 0);
    closing.sort_by_key(|wait| facts.waits[*wait].asked.at_ns);
    let mut moment = Moment::first_of(facts);
    let mut cycles: Vec<(usize, Cycle)> = Vec::new();
    for wait in closing {
        if cycles.len() == CYCLES_MAX {
            break;
        }
        moment.advance(facts.waits[wait].asked.at_ns);
        let cycle = moment.cycle_closed_by(&facts.waits[wait]);
        cycles.extend(cycle.map(|cycle| (wait, cycle)));
    }
    cycles.sort_by_key(|(wait, _)| *wait);
    cycles.into_iter().map(|(_, cycle)| cycle).collect()
}

/// Who holds and who waits for what at one moment. The moments of a history are visited in the order of time, so that none of them
/// has to search all holds and waits.
struct Moment<'a> {
    facts: &'a Facts,
    /// What changes when; the next change comes last.
    changes: Vec<(u64, Boundary)>,
    /// The holders of each lock.
    holders: HashMap<&'a str, Holders<'a>>,
    /// What each process waits for.
    waiting: HashMap<&'a str, BTreeSet<usize>>,
}

/// Where a hold or a wait begins or ends.
#[derive(Clone, Copy)]
enum Boundary {
    Granted(usize),
    Over(usize),
    Asked(usize),
    Answered(usize),
}

impl<'a> Moment<'a> {
    fn first_of(facts: &'a Facts) -> Self {
        let mut changes = Vec::new();
        for (place, hold) in facts.holds.iter().enumerate() {
            let (from_ns, until_ns) = (hold.granted.at_ns, hold.unquestioned_until_ns());
            if from_ns < until_ns {
                changes.push((from_ns, Boundary::Granted(place)));
                changes.push((until_ns, Boundary::Over(place)));
            }
        }
        for (place, wait) in facts.waits.iter().enumerate() {
            let from_ns = wait.asked.at_ns;
            let until_ns = wait.answer.map(|(mark, _)| mark.at_ns);
            if wait.wait_ms > 0 && until_ns.is_none_or(|until_ns| from_ns < until_ns) {
                changes.push((from_ns, Boundary::Asked(place)));
                changes.extend(until_ns.map(|until_ns| (until_ns, Boundary::Answered(place))));
            }
        }
        changes.sort_by_key(|(at_ns, _)| std::cmp::Reverse(*at_ns));
        Self {
            facts,
            changes,
            holders: HashMap::new(),
            waiting: HashMap::new(),
        }
    }

    /// Makes every change up to this time, including it.
    fn advance(&mut self, at_ns: u64) {
        while let Some((_, change)) = self.changes.pop_if(|(next_ns, _)| *next_ns <= at_ns) {
            match change {
                Boundary::Granted(place) => self.holders_like(place).add(place),
                Boundary::Over(place) => self.holders_like(place).remove(place),
                Boundary::Asked(place) => drop(self.waits_like(place).insert(place)),
                Boundary::Answered(place) => drop(self.waits_like(place).remove(&place)),
            }
        }
    }

    /// Returns the holds of the same lock by the same process.
    fn holders_like(&mut self, place: usize) -> HoldsOf<'_, 'a> {
        let hold = &self.facts.holds[place];
        HoldsOf {
            holders: self.holders.entry(&hold.key).or_default(),
            who: &hold.who,
        }
    }

    /// Returns the waits of the same process.
    fn waits_like(&mut self, place: usize) -> &mut BTreeSet<usize> {
        let who = &self.facts.waits[place].who;
        self.waiting.entry(who).or_default()
    }

    fn cycle_closed_by(&self, last: &'a Wait) -> Option<Cycle> {
        let mut path = vec![last];
        let mut seen = HashSet::from([last.op]);
        while path.len() <= PROCESSES_MAX {
            let holder = self.holder(path[path.len() - 1])?;
            if holder.who == last.who {
                return Some(self.cycle(last, &path));
            }
            let next = self.wait_of(&holder.who)?;
            // The path does not lead back to the process that closed it. It leads into another cycle, which is found
            // separately.
            if !seen.insert(next.op) {
                return None;
            }
            path.push(next);
        }
        None
    }

    fn cycle(&self, last: &Wait, path: &[&Wait]) -> Cycle {
        let answers = path.iter().filter_map(|wait| wait.answer);
        let until = answers.map(|(mark, _)| mark).min_by_key(|mark| mark.at_ns);
        let end_ns = until.map_or(self.facts.end_ns, |mark| mark.at_ns);
        Cycle {
            who: path.iter().map(|wait| wait.who.clone()).collect(),
            since: last.asked,
            until,
            lasted_ns: end_ns.saturating_sub(last.asked.at_ns),
        }
    }

    /// Returns the latest hold of another process on the lock that this wait is for.
    fn holder(&self, wait: &Wait) -> Option<&'a Hold> {
        let holders = self.holders.get(wait.key.as_str())?;
        let place = holders.latest_of_others(&wait.who)?;
        Some(&self.facts.holds[place])
    }

    /// Returns the first request that this process is waiting for.
    fn wait_of(&self, who: &str) -> Option<&'a Wait> {
        let place = self.waiting.get(who)?.first()?;
        Some(&self.facts.waits[*place])
    }
}

/// The holders of a lock.
#[derive(Default)]
struct Holders<'a> {
    holds_of: HashMap<&'a str, BTreeSet<usize>>,
    /// The latest hold of each process.
    latest: BTreeMap<usize, &'a str>,
}

impl Holders<'_> {
    fn latest_of_others(&self, who: &str) -> Option<usize> {
        let mut latest = self.latest.iter().rev();
        let (place, _) = latest.find(|(_, of)| **of != who)?;
        Some(*place)
    }
}

/// The holds of a lock by one process.
struct HoldsOf<'h, 'a> {
    holders: &'h mut Holders<'a>,
    who: &'a str,
}

impl HoldsOf<'_, '_> {
    fn add(self, place: usize) {
        self.change(|holds| holds.insert(place));
    }

    fn remove(self, place: usize) {
        self.change(|holds| holds.remove(&place));
    }

    fn change(self, change: impl FnOnce(&mut BTreeSet<usize>) -> bool) {
        let holds = self.holders.holds_of.entry(self.who).or_default();
        if let Some(latest) = holds.last() {
            self.holders.latest.remove(latest);
        }
        change(holds);
        if let Some(latest) = holds.last() {
            self.holders.latest.insert(*latest, self.who);
        }
    }
}
