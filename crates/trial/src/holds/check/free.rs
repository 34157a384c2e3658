//! Since when a lock was free, for every wait of a history.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::history::Fault;
use crate::holds::facts::{Facts, Hold, Mark, Wait, WaitEnd};
use crate::holds::lookup::{LargestBefore, LastBelow};
use crate::protocol::{Claims, ReleaseResult};

/// Since when a lock was free.
pub(super) struct FreeSince<'a> {
    pub(super) mark: Mark,
    pub(super) freed_by: Option<&'a Hold>,
}

/// All locks of a history: who requested them, and when they were released.
pub(super) struct FreeLocks<'a> {
    locks: HashMap<&'a str, Lock<'a>>,
    had_server_changes: bool,
    /// When each process went on after it was stopped.
    went_on: HashMap<&'a str, LastBelow<Reverse<u64>>>,
}

struct Lock<'a> {
    /// When each request was answered.
    requests: LargestBefore<u64, Answered>,
    granted_ns: Vec<u64>,
    /// For each grant, whether everything granted up to there was released; `None` if something never was.
    given_back: Vec<Option<GivenBack<'a>>>,
}

/// When it was certain whether a request had been granted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Answered {
    AtNs(u64),
    Never,
}

/// When a lock was released by everybody who had it.
#[derive(Clone, Copy)]
struct GivenBack<'a> {
    by_ns: u64,
    last: Mark,
    freed_by: &'a Hold,
}

impl<'a> FreeLocks<'a> {
    pub(super) fn of(facts: &'a Facts, claims: Claims) -> Self {
        let mut requests: HashMap<&str, Vec<(u64, u64, Answered)>> = HashMap::new();
        for wait in &facts.waits {
            let answered = match wait.answer {
                Some((mark, WaitEnd::Granted | WaitEnd::Refused)) => Answered::AtNs(mark.at_ns),
                _ => Answered::Never,
            };
            let request = (wait.asked.at_ns, wait.op, answered);
            requests.entry(&wait.key).or_default().push(request);
        }
        let mut holds: HashMap<&str, Vec<&Hold>> = HashMap::new();
        for hold in &facts.holds {
            holds.entry(&hold.key).or_default().push(hold);
        }
        let lock = |(key, requests)| {
            let holds = holds.remove(key).unwrap_or_default();
            (key, Lock::of(requests, holds, claims))
        };
        Self {
            locks: requests.into_iter().map(lock).collect(),
            had_server_changes: !facts.servers.is_empty(),
            went_on: went_on(facts),
        }
    }

    /// Returns since when the lock that this wait is for was certainly free, up to the answer. `None` if somebody may have had
    /// it, or if a server failed.
    pub(super) fn since(&self, wait: &Wait, answered: Mark) -> Option<FreeSince<'a>> {
        let lock = self.locks.get(wait.key.as_str())?;
        if self.had_server_changes || lock.may_be_taken_unseen(wait, answered) {
            return None;
        }
        let before = lock.granted_ns.partition_point(|ns| *ns < answered.at_ns);
        let Some(last) = before.checked_sub(1) else {
            return Some(FreeSince {
                mark: wait.asked,
                freed_by: None,
            });
        };
        let given_back = lock.given_back[last]?;
        (given_back.by_ns <= answered.at_ns).then_some(FreeSince {
            mark: given_back.last,
            freed_by: Some(given_back.freed_by),
        })
    }

    /// Returns when this process last went on after having been stopped, if that was after this time.
    pub(super) fn went_on(&self, who: &str, after_ns: u64) -> Option<u64> {
        let (_, Reverse(at_ns)) = self.went_on.get(who)?.last(|at_ns| at_ns.0 > after_ns)?;
        Some(at_ns)
    }
}

impl<'a> Lock<'a> {
    fn of(requests: Vec<(u64, u64, Answered)>, mut holds: Vec<&'a Hold>, claims: Claims) -> Self {
        holds.sort_by_key(|hold| hold.granted.at_ns);
        let mut given_back = Vec::with_capacity(holds.len());
        for (index, hold) in holds.iter().enumerate() {
            let before = index.checked_sub(1).map(|before| given_back[before]);
            given_back.push(GivenBack::after(before, hold, claims));
        }
        Self {
            requests: LargestBefore::of(requests),
            granted_ns: holds.iter().map(|hold| hold.granted.at_ns).collect(),
            given_back,
        }
    }

    /// Returns whether another request, also of the same process, had no known result by then, so that it may have the lock.
    fn may_be_taken_unseen(&self, wait: &Wait, answered: Mark) -> bool {
        let others = self.requests.of_others(answered.at_ns, wait.op);
        others.is_some_and(|last| last > Answered::AtNs(answered.at_ns))
    }
}

impl<'a> GivenBack<'a> {
    /// Adds a hold to those before it.
    fn after(before: Option<Option<Self>>, hold: &'a Hold, claims: Claims) -> Option<Self> {
        let (mark, outcome) = hold.released?;
        // Without a lease, only a confirmed release frees the lock.
        if outcome == ReleaseResult::Unknown && claims.untimed {
            return None;
        }
        let own = Self {
            by_ns: mark.at_ns,
            last: mark,
            freed_by: hold,
        };
        let Some(before) = before else {
            return Some(own);
        };
        let before = before?;
        let last = if before.last < mark { own } else { before };
        Some(Self {
            by_ns: before.by_ns.max(mark.at_ns),
            ..last
        })
    }
}

fn went_on(facts: &Facts) -> HashMap<&str, LastBelow<Reverse<u64>>> {
    let mut times: HashMap<&str, Vec<Reverse<u64>>> = HashMap::new();
    for seen in &facts.faults {
        if seen.fault == Fault::Continued {
            let own = times.entry(&seen.who).or_default();
            own.push(Reverse(seen.mark.at_ns));
        }
    }
    let process = |(who, times)| (who, LastBelow::of(times));
    times.into_iter().map(process).collect()
}
