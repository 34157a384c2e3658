//! The shortest beginning of a history that convicts a lock: no shorter one convicts it on evidence that the whole history still shows.
//!
//! A verdict on the beginning of a history differs from that on a shorter one only because of its last event. Most events cannot convict
//! anybody. So one pass over the history collects those that can, and the judge is asked about these, in order.

use std::collections::{HashMap, HashSet};

use super::check::{Checks, Overlap};
use super::facts::{Facts, Mark};
use super::verdict;
use crate::history::fence::{FenceNumber, fence_number};
use crate::history::{Event, Fault, Header, What};
use crate::protocol::{Action, Claims, ReleaseResult};
use crate::strategy;
use crate::verdict::Verdict;

/// Returns the number of events of the shortest beginning of this history that convicts the lock, and the verdict on it. `None` if the
/// whole history does not.
///
/// A process may report later that its lock had been lost, so two holders may be seen in a beginning but not in the whole. Such a
/// beginning does not count.
pub(crate) fn conviction(header: &Header, events: &[Event]) -> Option<(usize, Verdict)> {
    let whole = Facts::of(events);
    if !verdict::judge(header, &whole).outcome.is_conviction() {
        return None;
    }
    let lasting: HashSet<(Mark, Mark)> = guilty(&Checks::of(header, &whole)).collect();
    let candidates = Candidates::of(header, events).into_iter();
    // Whether there were two holders who are not seen in the whole. What ends that may leave another reason to convict.
    let mut is_in_doubt = false;
    candidates
        .chain([(events.len(), Reason::Proof)])
        .find_map(|(length, reason)| {
            if reason == Reason::Doubt && !is_in_doubt {
                return None;
            }
            let facts = Facts::of(&events[..length]);
            let lasts = guilty(&Checks::of(header, &facts)).all(|pair| lasting.contains(&pair));
            is_in_doubt = !lasts;
            let verdict = lasts.then(|| verdict::judge(header, &facts))?;
            let is_conviction = verdict.outcome.is_conviction();
            is_conviction.then_some((length, verdict))
        })
}

/// Returns the grants of each two holds that overlap and may not.
fn guilty(checks: &Checks<'_>) -> impl Iterator<Item = (Mark, Mark)> {
    let overlaps = checks.overlaps_within_lease().into_iter();
    let overlaps = overlaps.chain(checks.overlaps_not_kept());
    overlaps.map(|Overlap { first, second, .. }| (first.granted, second.granted))
}

/// Why a conviction may begin with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// It may prove something.
    Proof,
    /// It may end what seemed proven.
    Doubt,
}

/// Collects the lengths at which a conviction may begin.
struct Candidates {
    claims: Claims,
    ttl_ns: u64,
    /// What each request was: when it was made, and how long it may wait.
    asked: HashMap<u64, (u64, u64)>,
    /// The holds of each lock that were neither released nor ended by a kill.
    open: HashMap<String, Vec<OpenHold>>,
    fences: HashMap<String, FenceNumber>,
    /// The last accepted operation of each lock, and the number there.
    numbers: HashMap<String, ((String, u64), i64)>,
    /// The holds that have used the number.
    used: HashSet<(String, u64)>,
    /// The timestamp of a grant that meets an open hold. A later event shows that both believe.
    meeting_ns: Option<u64>,
}

struct OpenHold {
    who: String,
    id: u64,
    asked_ns: u64,
    fence: Option<String>,
    valid_until_ns: Option<u64>,
}

impl Candidates {
    fn of(header: &Header, events: &[Event]) -> Vec<(usize, Reason)> {
        let mut candidates = Self {
            claims: strategy::claims_of(header),
            ttl_ns: header.ttl_ms.saturating_mul(1_000_000),
            asked: HashMap::new(),
            open: HashMap::new(),
            fences: HashMap::new(),
            numbers: HashMap::new(),
            used: HashSet::new(),
            meeting_ns: None,
        };
        let of_event = |(index, event): (usize, &Event)| {
            let reason = if candidates.may_convict(event) {
                Reason::Proof
            } else if may_acquit(&event.what) {
                Reason::Doubt
            } else {
                return None;
            };
            Some((index + 1, reason))
        };
        events.iter().enumerate().filter_map(of_event).collect()
    }

    fn may_convict(&mut self, event: &Event) -> bool {
        let met = self.meeting_ns.take_if(|met_ns| event.at_ns > *met_ns);
        let who = event.who.clone().unwrap_or_default();
        let convicts = match &event.what {
            What::Acquire { op, wait_ms, .. } => {
                self.asked.insert(*op, (event.at_ns, *wait_ms));
                false
            }
            What::Acquired { .. } => self.grant(event, who),
            What::Refused { op, .. } => {
                let wait_ms = self.asked.get(op).map_or(0, |(_, wait_ms)| *wait_ms);
                wait_ms.saturating_mul(1_000_000) >= self.ttl_ns.saturating_mul(3)
            }
            What::Register { .. } => self.operation(event, who),
            What::Release { key, hold, .. } => {
                let open = self.open.entry(key.clone()).or_default();
                open.retain(|own| own.who != who || own.id != *hold);
                false
            }
            What::Released { outcome, .. } => *outcome == ReleaseResult::AlreadyLost,
            // Until a dead server is back with its data, it may have lost them, and nobody is to blame.
            What::Server { change, .. } => change.ends_outage(),
            What::Fault {
                fault: Fault::Killed,
            } => {
                let all = self.open.values_mut();
                all.for_each(|open| open.retain(|hold| hold.who != who));
                false
            }
            _ => false,
        };
        convicts || met.is_some()
    }

    fn grant(&mut self, event: &Event, who: String) -> bool {
        let What::Acquired {
            op,
            key,
            hold,
            fence,
            valid_ms,
            ..
        } = &event.what
        else {
            return false;
        };
        let asked_ns = self.asked.get(op).map_or(event.at_ns, |(at_ns, _)| *at_ns);
        let open = self.open.entry(key.clone()).or_default();
        let has_end = !self.claims.untimed && !self.claims.keep_alive;
        let may_meet = |hold: &OpenHold| {
            let lease_ns = hold.asked_ns.min(asked_ns).saturating_add(self.ttl_ns);
            !has_end || event.at_ns < lease_ns
        };
        if open.iter().any(may_meet) {
            self.meeting_ns = Some(event.at_ns);
        }
        open.push(OpenHold {
            who,
            id: *hold,
            asked_ns,
            fence: fence.clone(),
            valid_until_ns: valid_ms.map(|ms| asked_ns.saturating_add((ms * 1e6) as u64)),
        });
        if !self.claims.fencing {
            return false;
        }
        let number = fence.as_deref().and_then(fence_number);
        let before = self.fences.get(key).copied();
        let rises = number.is_some() && number > before;
        if let Some(number) = number.filter(|_| rises) {
            self.fences.insert(key.clone(), number);
        }
        !rises
    }

    fn operation(&mut self, event: &Event, who: String) -> bool {
        let What::Register {
            hold,
            action,
            value,
            fence,
            highest,
            refused,
            ..
        } = &event.what
        else {
            return false;
        };
        let mut open = self.open.iter();
        let own = open.find_map(|(key, holds)| {
            let own = holds.iter().find(|own| own.who == who && own.id == *hold)?;
            Some((key.clone(), own.valid_until_ns, own.fence != *fence))
        });
        let Some((key, valid_until_ns, is_exchanged)) = own else {
            // It may come from a hold that is over.
            return true;
        };
        if *refused {
            return true;
        }
        let is_late = valid_until_ns.is_some_and(|until_ns| until_ns < event.at_ns);
        let own = (who, *hold);
        let is_first = self.used.insert(own.clone());
        let last = self.numbers.get(&key);
        let is_mixed = !is_first && last.is_some_and(|(last, _)| *last != own);
        let number = last.map_or(0, |(_, number)| *number);
        let is_lost = *action == Action::Write && *value <= number;
        let number = if *action == Action::Write {
            *value
        } else {
            number
        };
        self.numbers.insert(key, (own, number));
        let [fence, highest] = [fence, highest].map(|text| text.as_deref().and_then(fence_number));
        let is_outdated = fence < highest;
        is_late || is_mixed || is_lost || is_exchanged || is_outdated
    }
}

/// Returns whether an event may show that a process had stopped to believe in its lock, or was not to blame.
fn may_acquit(what: &What) -> bool {
    matches!(
        what,
        What::Lost { .. }
            | What::Declined { .. }
            | What::Failed { .. }
            | What::Stalled { .. }
            | What::Slept { .. }
            | What::Server { .. }
            | What::Fault { .. }
    )
}

#[cfg(test)]
mod tests;
