//! Wait cycles, in which every process waits for a lock that the next process holds.

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

impl Facts {
    /// Returns every wait cycle, in the order in which they closed.
    pub fn cycles(&self) -> Vec<Cycle> {
        let closing = self.waits.iter().filter(|wait| wait.wait_ms > 0);
        closing
            .filter_map(|wait| self.cycle_closed_by(wait))
            .collect()
    }

    fn cycle_closed_by(&self, last: &Wait) -> Option<Cycle> {
        let mut path = vec![last];
        loop {
            let holder = self.holder_at(path[path.len() - 1], last.asked)?;
            if holder.who == last.who {
                break;
            }
            let next = self.wait_of(&holder.who, last.asked)?;
            // The path does not lead back to the process that closed it. It leads into another cycle, which is found
            // separately.
            if path.iter().any(|wait| wait.op == next.op) {
                return None;
            }
            path.push(next);
        }
        let answers = path.iter().filter_map(|wait| wait.answer);
        let until = answers.map(|(mark, _)| mark).min_by_key(|mark| mark.at_ns);
        let end_ns = until.map_or(self.end_ns, |mark| mark.at_ns);
        Some(Cycle {
            who: path.iter().map(|wait| wait.who.clone()).collect(),
            since: last.asked,
            until,
            lasted_ns: end_ns.saturating_sub(last.asked.at_ns),
        })
    }

    /// Returns the hold of another process on the lock that this wait is for, at that moment.
    fn holder_at(&self, wait: &Wait, at: Mark) -> Option<&Hold> {
        let holds = |held: &&Hold| {
            held.key == wait.key
                && held.who != wait.who
                && held.granted.at_ns <= at.at_ns
                && at.at_ns < held.unquestioned_until_ns()
        };
        self.holds.iter().rev().find(holds)
    }

    /// Returns what this process was waiting for at that moment.
    fn wait_of(&self, who: &str, at: Mark) -> Option<&Wait> {
        let waits = |wait: &&Wait| {
            wait.who == who
                && wait.wait_ms > 0
                && wait.asked.at_ns <= at.at_ns
                && wait.answer.is_none_or(|(mark, _)| mark.at_ns > at.at_ns)
        };
        self.waits.iter().find(waits)
    }
}
