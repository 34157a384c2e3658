//! The facts of a lock trial: the holds, waits, faults and operations on the number, derived from its history. Pure functions
//! without a clock or a store.
//!
//! A hold is counted from the arrival of the grant to the sending of the release, so it is never overestimated. Anything
//! uncertain shortens it further.

use std::collections::HashMap;

use super::lookup::{ByHold, LastBelow};
use crate::history::{Change, Event, Fault};
use crate::protocol::Action;

mod cycle;
mod learn;
mod records;

pub use cycle::Cycle;
pub use records::{
    Buy, FailedRequest, FaultSeen, GaveUp, Halted, Hold, Inspection, Mark, Op, ServerChange, Stall,
    StockSet, UnseenGrant, Wait, WaitEnd,
};

/// The facts of a lock trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Every hold, in the order of the grants.
    pub holds: Vec<Hold>,
    /// Every wait and every single try, in the order of the requests.
    pub waits: Vec<Wait>,
    /// Every operation on the number, in serial order.
    pub ops: Vec<Op>,
    /// Every fault that was seen to take effect.
    pub faults: Vec<FaultSeen>,
    /// What happened to the servers.
    pub servers: Vec<ServerChange>,
    /// Where processes halted between the steps of their locks.
    pub halted: Vec<Halted>,
    /// Every purchase.
    pub buys: Vec<Buy>,
    /// Every inspection of the store.
    pub inspections: Vec<Inspection>,
    /// How the lab set the stock.
    pub stock_set: Vec<StockSet>,
    /// Requests that failed.
    pub failures: Vec<FailedRequest>,
    /// Grants in which the store had no part, as far as the lab could see.
    pub unseen: Vec<UnseenGrant>,
    /// When the lab stopped waiting.
    pub given_up: Vec<GaveUp>,
    /// When the lab itself stalled.
    pub stalls: Vec<Stall>,
    /// For how long the machine was suspended, if it was. Such a run shows nothing.
    pub slept_ms: Option<f64>,
    /// The timestamp of the last event.
    pub end_ns: u64,
    holds_of_name: ByHold<HoldsOfName>,
    cycles: Vec<Cycle>,
}

/// The holds to which a process gave the same identifier, in the order of the grants.
#[derive(Debug, Clone, PartialEq)]
struct HoldsOfName {
    places: Vec<usize>,
    granted: LastBelow<Mark>,
}

impl Facts {
    /// Derives the facts from a complete history.
    pub fn of(events: &[Event]) -> Self {
        learn::Learner::of(events)
    }

    /// Returns why the lab stopped waiting, if that was before anybody was asked anything.
    pub fn not_begun(&self) -> Option<&str> {
        let is_asked = !self.waits.is_empty() || !self.buys.is_empty();
        let given_up = self.given_up.first().filter(|_| !is_asked)?;
        Some(&given_up.why)
    }

    /// Returns the hold that an operation belongs to.
    pub fn hold_of(&self, op: &Op) -> Option<&Hold> {
        let named = self.holds_of_name.get(&op.who, op.hold)?;
        let (place, _) = named.granted.last(|granted| *granted <= op.mark)?;
        Some(&self.holds[named.places[place]])
    }

    /// Returns every wait cycle, in the order in which they closed.
    pub fn cycles(&self) -> &[Cycle] {
        &self.cycles
    }

    /// Returns the first hold of this process.
    pub fn first_of(&self, who: &str) -> Option<&Hold> {
        self.holds.iter().find(|hold| hold.who == who)
    }

    /// Returns the first hold of this lock by this process.
    pub fn first_of_lock(&self, who: &str, key: &str) -> Option<&Hold> {
        let mut holds = self.holds.iter();
        holds.find(|hold| hold.who == who && hold.key == key)
    }

    /// Returns when this fault was first injected into this process, if it was.
    pub fn fault_of(&self, who: &str, fault: Fault) -> Option<Mark> {
        let done = |seen: &&FaultSeen| seen.who == who && seen.fault == fault;
        self.faults.iter().find(done).map(|seen| seen.mark)
    }

    /// Returns the first server with such a change, and when the change happened.
    pub fn server_that(&self, is: fn(Change) -> bool) -> Option<(Mark, &str)> {
        let found = self.servers.iter().find(|changed| is(changed.change));
        found.map(|changed| (changed.mark, changed.server.as_str()))
    }

    /// Returns the server that has taken over from a primary that lives on, and when.
    pub fn deposed(&self) -> Option<(Mark, &str)> {
        self.last_sign_of_life()?;
        self.server_that(|change| change == Change::Promoted)
    }

    /// Returns when a primary that was replaced was last seen to be there.
    pub fn last_sign_of_life(&self) -> Option<Mark> {
        let mut latest = self.servers.iter().rev();
        let seen = latest.find(|changed| changed.change == Change::LivesOn);
        seen.map(|changed| changed.mark)
    }

    /// Returns whether the lab saw, after servers had failed, that this server has no record of the lock.
    pub fn is_without_lock(&self, server: &str) -> bool {
        let failed = self.server_that(|change| change == Change::Killed || change.ends_leases());
        let is_late =
            |inspection: &Inspection| failed.is_some_and(|(mark, _)| inspection.mark > mark);
        let mut inspections = self.inspections.iter();
        inspections.any(|inspection| {
            inspection.server.as_deref() == Some(server) && is_late(inspection) && !inspection.taken
        })
    }

    /// Returns every fence that was granted.
    pub fn fences(&self) -> Vec<&str> {
        let fences = self.holds.iter().map(|hold| hold.fence.as_deref());
        fences.flatten().collect()
    }

    /// Returns the number of accepted writes, that is, additions that a process believes it has made.
    pub fn additions(&self) -> i64 {
        let written = |op: &&Op| op.action == Action::Write && !op.refused;
        self.ops.iter().filter(written).count() as i64
    }

    /// Returns the final value of the number, which starts at zero. If several locks protect one number each, returns their sum.
    pub fn number(&self) -> i64 {
        let numbers = self.numbers().into_values();
        numbers.map(|(_, value)| value).fold(0, i64::saturating_add)
    }

    /// Returns the additions to the number of each lock, and its final value.
    pub(super) fn numbers(&self) -> HashMap<&str, (i64, i64)> {
        let written = |op: &&Op| op.action == Action::Write && !op.refused;
        let mut numbers: HashMap<&str, (i64, i64)> = HashMap::new();
        for op in self.ops.iter().filter(written) {
            let number = numbers.entry(&op.key).or_default();
            *number = (number.0 + 1, op.value);
        }
        numbers
    }
}
