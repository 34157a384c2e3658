//! The periods in which each process was stopped by a signal. Checks look here before they blame a process for something that it did not do.

use std::collections::HashMap;

use super::Checks;
use crate::history::Fault;
use crate::holds::facts::{Facts, FaultSeen};

/// When each process was stopped: from when to when, in order.
#[derive(Debug)]
pub(super) struct Pauses(HashMap<String, Vec<(u64, u64)>>);

impl Pauses {
    pub(super) fn of(facts: &Facts) -> Self {
        let mut pauses: HashMap<String, Vec<(u64, u64)>> = HashMap::new();
        for FaultSeen { mark, who, fault } in &facts.faults {
            let own = pauses.entry(who.clone()).or_default();
            match (fault, own.last_mut()) {
                (Fault::Stopped, _) => own.push((mark.at_ns, u64::MAX)),
                (Fault::Continued | Fault::Killed, Some((_, until_ns))) => {
                    *until_ns = mark.at_ns.min(*until_ns);
                }
                _ => {}
            }
        }
        Self(pauses)
    }
}

impl Checks<'_> {
    /// Returns whether this process was stopped at any moment between these times.
    pub fn was_stopped(&self, who: &str, from_ns: u64, until_ns: u64) -> bool {
        let own = self.pauses.0.get(who).into_iter().flatten();
        own.clone()
            .any(|(stopped_ns, went_on_ns)| *stopped_ns < until_ns && *went_on_ns > from_ns)
    }

    /// Returns every pause that had an end: the process, from when, and until when.
    pub fn pauses(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        let each = self.pauses.0.iter();
        let each =
            each.flat_map(|(who, own)| own.iter().map(|(from, to)| (who.as_str(), *from, *to)));
        each.filter(|(.., until_ns)| *until_ns < u64::MAX)
    }
}
