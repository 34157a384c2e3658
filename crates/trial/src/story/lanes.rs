//! Lanes: what each process did, as short entries in one column per process.
//!
//! Related events share an entry if they happened within [`SETTLED_NS`].

use std::collections::HashSet;

use super::phrases::{self, Phrase, RefusedFences};
use crate::history::{Event, Fault, Header, What};
use crate::holds::{NAMES, Scenario};
use crate::protocol::{Action, Claims, PurchaseOutcome};
use crate::strategy;
use crate::text::ink::Role;
use crate::text::numbers::{ShortFences, count, decimal, ms};

mod context;
mod locks;

use context::Context;

/// Events within this time may share a line.
pub(crate) const SETTLED_NS: u64 = 25_000_000;

/// How long an entry may become by what continues it. The number of an operation stands behind it, within a line of 100 columns.
const LANE_WIDTH: usize = 36;

/// An entry in the lanes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// When it began.
    pub at_ns: u64,
    /// The lane of a process; `None` if the entry concerns all processes.
    pub lane: Option<usize>,
    /// What happened.
    pub text: String,
    /// The number of the operation on the register, if it was one.
    pub op: Option<u64>,
    /// The role that decides its colour.
    pub role: Option<Role>,
    kind: Continuation,
}

/// The kind of event that can continue an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Continuation {
    Grant,
    Write,
    Release,
    Refusal,
    Server,
    Other,
}

impl Entry {
    /// Returns whether the entry concerns all processes and happened at one moment.
    pub(crate) fn is_server_event(&self) -> bool {
        self.kind == Continuation::Server
    }
}

/// Returns every entry of a lock trial, ordered by time.
pub(crate) fn lanes(header: &Header, scenario: Scenario, events: &[Event]) -> Vec<Entry> {
    let mut story = LaneStory {
        scenario,
        ttl_ns: header.ttl_ms.saturating_mul(1_000_000),
        claims: strategy::claims_of(header),
        context: Context::of(events),
        fences: ShortFences::among(&granted_fences(events)),
        lines: Vec::new(),
        shown_over: HashSet::new(),
    };
    for event in events {
        story.event(event);
        story.context.remember(event);
    }
    story.cycles();
    story
        .lines
        .sort_by_key(|line| (line.at_ns, line.lane.is_some()));
    story.lines
}

/// Returns every fence that was granted.
fn granted_fences(events: &[Event]) -> Vec<&str> {
    let fences = events.iter().filter_map(|event| match &event.what {
        What::Acquired { fence, .. } => fence.as_deref(),
        _ => None,
    });
    fences.collect()
}

struct LaneStory<'a> {
    scenario: Scenario,
    ttl_ns: u64,
    claims: Claims,
    context: Context,
    fences: ShortFences<'a>,
    lines: Vec<Entry>,
    /// The holds whose expired leases already have an entry.
    shown_over: HashSet<(usize, u64)>,
}

impl LaneStory<'_> {
    fn event(&mut self, event: &Event) {
        let lane = event
            .who
            .as_deref()
            .and_then(|who| NAMES.iter().position(|name| *name == who));
        let Some(lane) = lane else {
            return self.of_the_lab(event);
        };
        let at = event.at_ns;
        match &event.what {
            What::Acquire { op, key, wait_ms } if *wait_ms > 0 => self.wait(lane, at, *op, key),
            What::Acquired { op, key, fence, .. } => {
                self.grant(lane, event, *op, key, fence.as_deref());
            }
            What::Refused { op, .. } => self.refusal(lane, at, *op),
            What::Register { .. } => self.step(lane, event),
            What::LeaseOver { hold, .. } => self.lease_over(lane, at, *hold),
            What::Release { op, key, .. } => self.release(lane, at, *op, key),
            What::Released { op, outcome, .. } => self.released(lane, at, *op, *outcome),
            What::Declined { .. } => {
                self.say(lane, at, phrases::declined(NAMES[lane]));
            }
            What::Lost { .. } => self.say(lane, at, phrases::lost(NAMES[lane])),
            What::Reached { op, step, of, what } => {
                let in_release = self.context.release(*op).is_some();
                let name = NAMES[lane];
                self.say(
                    lane,
                    at,
                    phrases::reached(name, *step, *of, what, in_release),
                );
            }
            What::Fault { fault } => self.fault(lane, event, *fault),
            What::Purchase { op, .. } => self.purchase(lane, at, *op),
            What::Purchased { purchase, op } => self.purchased(lane, at, *op, purchase.outcome),
            What::Failed { message, .. } => {
                self.say(lane, at, phrases::failed(NAMES[lane], message));
                self.colour(Role::Unsure);
            }
            _ => {}
        }
    }

    /// Adds an entry that cannot be continued.
    fn say(&mut self, lane: usize, at_ns: u64, phrase: Phrase) {
        self.add(lane, at_ns, phrase.brief, Continuation::Other);
    }

    fn add(&mut self, lane: usize, at_ns: u64, text: impl Into<String>, kind: Continuation) {
        self.lines.push(Entry {
            at_ns,
            lane: Some(lane),
            text: text.into(),
            op: None,
            role: None,
            kind,
        });
    }

    fn colour(&mut self, role: Role) {
        if let Some(line) = self.lines.last_mut() {
            line.role = Some(role);
        }
    }

    /// Returns the last entry of this lane if it is of this kind and recent enough.
    fn last(&mut self, lane: usize, at_ns: u64, kind: Continuation) -> Option<&mut Entry> {
        let last = self
            .lines
            .iter_mut()
            .rev()
            .find(|line| line.lane == Some(lane))?;
        let fits = last.kind == kind && at_ns.saturating_sub(last.at_ns) <= SETTLED_NS;
        fits.then_some(last)
    }

    fn for_all(&mut self, at_ns: u64, text: String, kind: Continuation) {
        self.lines.push(Entry {
            at_ns,
            lane: None,
            text,
            op: None,
            role: None,
            kind,
        });
    }

    fn of_the_lab(&mut self, event: &Event) {
        let (text, kind) = match &event.what {
            What::StockSet { units: units @ 1.. } => {
                (phrases::stock_set(*units).brief, Continuation::Other)
            }
            What::Stalled { for_ms } => (
                phrases::stalled(&decimal(*for_ms)).brief,
                Continuation::Other,
            ),
            What::Slept { for_ms } => {
                (phrases::slept(&decimal(*for_ms)).brief, Continuation::Other)
            }
            What::Server { server, change } => {
                let without = self.context.facts.is_without_lock(server);
                (change.describe(server, without), Continuation::Server)
            }
            _ => return,
        };
        self.for_all(event.at_ns, text, kind);
    }

    fn step(&mut self, lane: usize, event: &Event) {
        let What::Register {
            serial,
            action,
            value,
            fence,
            highest,
            refused,
            ..
        } = &event.what
        else {
            return;
        };
        let name = NAMES[lane];
        let writes_over = !self.has_two_locks() && self.context.is_overwritten(name);
        if *refused {
            let fences = RefusedFences {
                own: fence.as_deref(),
                highest: highest.as_deref(),
                among: self.fences,
            };
            let text = phrases::step_refused(name, *action, fences, *serial).brief;
            self.add(lane, event.at_ns, text, Continuation::Write);
        } else if *action == Action::Read {
            self.read(lane, event.at_ns, *value, *serial);
            return;
        } else if writes_over {
            let text = format!("✗ writes {} over it", count(*value));
            self.add(lane, event.at_ns, text, Continuation::Write);
            self.colour(Role::Bad);
        } else {
            let text = phrases::step(name, *action, *value, *serial).brief;
            self.add(lane, event.at_ns, text, Continuation::Write);
        }
        if let Some(line) = self.lines.last_mut() {
            line.op = Some(*serial);
        }
    }

    fn read(&mut self, lane: usize, at: u64, value: i64, serial: u64) {
        let is_crash = self.scenario == Scenario::Crash;
        let works = self.scenario == Scenario::TtlEdge && lane == 0 && !self.claims.fencing;
        let fenced_pair = self.claims.fencing && self.has_two_locks();
        if let Some(line) = self
            .last(lane, at, Continuation::Grant)
            .filter(|_| !fenced_pair)
        {
            if is_crash {
                line.text.push_str(", starts to work");
                return;
            }
            let mut read = format!("; reads {}", count(value));
            if works {
                read.push_str("; works");
            }
            let has_room = line.text.chars().count() + read.len() <= LANE_WIDTH;
            // With its expired leases, the line is long enough.
            if has_room && !line.text.ends_with("ran out") {
                line.text.push_str(&read);
                line.op = Some(serial);
                line.kind = Continuation::Other;
                return;
            }
        }
        self.say(
            lane,
            at,
            phrases::step(NAMES[lane], Action::Read, value, serial),
        );
        if let Some(line) = self.lines.last_mut() {
            line.op = Some(serial);
        }
    }

    fn purchase(&mut self, lane: usize, at: u64, op: u64) {
        let purchase = self.context.purchase(op);
        let long = purchase
            .is_some_and(|(asked, answered)| answered.is_none_or(|at| at - asked > SETTLED_NS));
        if !long {
            return;
        }
        match self.last(lane, at, Continuation::Refusal) {
            Some(line) => line.text.push_str("; then waits"),
            None => self.say(lane, at, phrases::asked_to_buy(NAMES[lane])),
        }
    }

    fn purchased(&mut self, lane: usize, at: u64, op: u64, outcome: PurchaseOutcome) {
        let purchase = self.context.purchase(op);
        let long = purchase.is_some_and(|(asked, _)| at - asked > SETTLED_NS);
        let kind = match outcome {
            PurchaseOutcome::Busy => Continuation::Refusal,
            _ => Continuation::Other,
        };
        let text = phrases::bought(NAMES[lane], outcome, long, false).brief;
        self.add(lane, at, text, kind);
    }

    fn fault(&mut self, lane: usize, event: &Event, fault: Fault) {
        let who = NAMES[lane];
        let mut halted = self.context.facts.halted.iter();
        let halted = halted.find(|halted| halted.who == who);
        let step = halted.map(|halted| halted.step);
        self.say(lane, event.at_ns, phrases::fault(who, fault, step));
        if fault == Fault::Killed {
            self.colour(Role::Bad);
        }
    }

    /// Adds wait cycles once they have ended.
    fn cycles(&mut self) {
        for cycle in self.context.facts.cycles().to_vec() {
            let Some(until) = cycle.until else { continue };
            let (waits, lasted) = (cycle.waits(), ms(cycle.lasted_ns));
            let text = format!("wait cycle: {waits}, for {lasted} ms");
            self.for_all(until.at_ns, text, Continuation::Other);
        }
    }

    /// Returns the name of a lock, if there are several.
    fn named<'k>(&self, key: &'k str) -> Option<&'k str> {
        self.has_two_locks().then_some(key)
    }

    fn has_two_locks(&self) -> bool {
        matches!(self.scenario, Scenario::Deadlock | Scenario::DeadlockSorted)
    }
}
