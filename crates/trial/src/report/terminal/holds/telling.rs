//! What each process did, in a few words, from the history.

use super::claims;
use crate::history::{Event, Fault, Header, What};
use crate::holds::facts::Facts;
use crate::holds::verdict::waits_told;
use crate::holds::{NAMES, Scenario};
use crate::protocol::{Action, Claims, Outcome, ReleaseWord};
use crate::text::ink::Role;
use crate::text::numbers::{count, ms, plural, shorten};

mod leases;

/// What happens within this time may stand on one line.
pub const SETTLED_NS: u64 = 25_000_000;

/// A line of the lanes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// When it began.
    pub at_ns: u64,
    /// Whose lane; none: it concerns all.
    pub lane: Option<usize>,
    /// What happened.
    pub text: String,
    /// The operation on the number, if it was one.
    pub op: Option<u64>,
    /// What it means.
    pub role: Option<Role>,
    kind: Kind,
}

/// What a line can be continued with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Grant,
    Write,
    Release,
    Refusal,
    Server,
    Other,
}

impl Line {
    /// Whether it concerns all and yet happened at one moment.
    pub(super) fn is_turn(&self) -> bool {
        self.kind == Kind::Server
    }
}

/// Every line of a trial, in the order of time.
pub fn tell(header: &Header, scenario: Scenario, events: &[Event]) -> Vec<Line> {
    let mut teller = Teller {
        scenario,
        ttl_ns: header.ttl_ms.saturating_mul(1_000_000),
        claims: claims(header),
        fenced: claims(header).fencing,
        events,
        facts: Facts::of(events),
        lines: Vec::new(),
        told_over: Vec::new(),
    };
    for (index, event) in events.iter().enumerate() {
        teller.event(index, event);
    }
    teller.cycles();
    teller
        .lines
        .sort_by_key(|line| (line.at_ns, line.lane.is_some()));
    teller.lines
}

struct Teller<'a> {
    scenario: Scenario,
    ttl_ns: u64,
    claims: Claims,
    fenced: bool,
    events: &'a [Event],
    facts: Facts,
    lines: Vec<Line>,
    /// The holds whose leases were told to be over.
    told_over: Vec<(usize, u64)>,
}

impl Teller<'_> {
    fn has_two_locks(&self) -> bool {
        matches!(self.scenario, Scenario::Deadlock | Scenario::Sorted)
    }

    fn event(&mut self, index: usize, event: &Event) {
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
            What::Register { .. } => self.step(lane, index, event),
            What::LeaseOver { hold, .. } => self.lease_over(lane, at, *hold),
            What::Release { op, key, .. } => self.release(lane, at, *op, key),
            What::Released { op, outcome, .. } => self.released(lane, at, *op, *outcome),
            What::Declined { .. } => {
                self.add(lane, at, "declines: its lock is lost", Kind::Other);
            }
            What::Lost { .. } => self.add(lane, at, "learns that its lock is lost", Kind::Other),
            What::Reached { op, step, of, what } => {
                let in_release =
                    |event: &Event| matches!(&event.what, What::Release { op: of, .. } if of == op);
                let place = match self.events.iter().any(in_release) {
                    true => "release, step",
                    false => "step",
                };
                self.add(
                    lane,
                    at,
                    format!("{place} {step} of {of}: {what}"),
                    Kind::Other,
                );
            }
            What::Fault { fault } => self.fault(lane, event, *fault),
            What::Purchase { op, .. } => self.purchase(lane, at, *op),
            What::Purchased { purchase, op } => self.purchased(lane, at, *op, purchase.outcome),
            What::Failed { message, .. } => {
                self.add(lane, at, format!("? {message}"), Kind::Other);
                self.colour(Role::Unsure);
            }
            _ => {}
        }
    }

    fn add(&mut self, lane: usize, at_ns: u64, text: impl Into<String>, kind: Kind) {
        self.lines.push(Line {
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

    /// The last line of this lane, if it is of this kind and a moment old at most.
    fn last(&mut self, lane: usize, at_ns: u64, kind: Kind) -> Option<&mut Line> {
        let last = self
            .lines
            .iter_mut()
            .rev()
            .find(|line| line.lane == Some(lane))?;
        let fits = last.kind == kind && at_ns.saturating_sub(last.at_ns) <= SETTLED_NS;
        fits.then_some(last)
    }

    fn of_the_lab(&mut self, event: &Event) {
        let (text, kind) = match &event.what {
            What::StockSet { units: units @ 1.. } => {
                let came = plural(*units as usize, "unit comes in", "units come in");
                (came, Kind::Other)
            }
            What::Server { server, change } => {
                let without = self.facts.is_without_lock(server);
                (change.told(server, without), Kind::Server)
            }
            _ => return,
        };
        self.for_all(event.at_ns, text, kind);
    }

    fn for_all(&mut self, at_ns: u64, text: String, kind: Kind) {
        self.lines.push(Line {
            at_ns,
            lane: None,
            text,
            op: None,
            role: None,
            kind,
        });
    }

    /// When the wait with this number was asked and answered.
    fn span(&self, op: u64) -> Option<(u64, Option<u64>)> {
        let wait = self.facts.waits.iter().find(|wait| wait.op == op)?;
        Some((wait.asked.at_ns, wait.answer.map(|(mark, _)| mark.at_ns)))
    }

    fn was_long(&self, op: u64) -> bool {
        let span = self.span(op);
        span.is_some_and(|(asked, answered)| {
            answered.is_none_or(|answered| answered - asked > SETTLED_NS)
        })
    }

    /// Whether this request is told step by step: the first step was reached within a moment.
    fn is_stepwise(&self, op: u64, at: u64) -> bool {
        self.events.iter().any(|event| {
            let reached = matches!(event.what, What::Reached { op: of, .. } if of == op);
            reached && event.at_ns - at <= SETTLED_NS
        })
    }

    fn wait(&mut self, lane: usize, at: u64, op: u64, key: &str) {
        if !self.was_long(op) || self.is_stepwise(op, at) {
            return;
        }
        if let Some(line) = self.last(lane, at, Kind::Refusal) {
            line.text.push_str("; then waits");
            return;
        }
        let text = if self.has_two_locks() {
            format!("waits for {key}")
        } else {
            "waits".to_owned()
        };
        self.add(lane, at, text, Kind::Other);
    }

    fn grant(&mut self, lane: usize, event: &Event, op: u64, key: &str, fence: Option<&str>) {
        let mut text = "granted".to_owned();
        if self.has_two_locks() {
            text.push_str(&format!(" {key}"));
        }
        if let Some(fence) = fence.filter(|_| self.fenced) {
            text.push_str(&format!(", fence {}", shorten(fence, &self.facts.fences())));
        }
        if self.has_two_locks() && self.was_long(op) {
            let before = self.facts.holds.iter().find(|held| {
                held.key == key
                    && held.granted.event < event.n
                    && held.who != NAMES[lane]
                    && held.believed_until_ns > event.at_ns
            });
            let waited = self.span(op).map(|(asked, _)| ms(event.at_ns - asked));
            match before {
                // With its fence the line is long enough.
                Some(_) if self.fenced => {}
                Some(held) => text.push_str(&format!(": {}'s lease ran out", held.who)),
                None => text.push_str(&format!(" after {} ms", waited.unwrap_or_default())),
            }
        }
        self.leases_over_before(lane, event, key);
        self.add(lane, event.at_ns, text, Kind::Grant);
    }

    fn refusal(&mut self, lane: usize, at: u64, op: u64) {
        let wait = self.facts.waits.iter().find(|wait| wait.op == op);
        let text = match wait {
            Some(wait) if wait.wait_ms > 0 => match self.scenario {
                Scenario::Crash => "gives up: 3 × TTL since the kill".to_owned(),
                Scenario::Deadlock | Scenario::Sorted => {
                    format!("gives up waiting for {}: 3 × TTL", wait.key)
                }
                _ => format!("gives up after {} ms", ms(at - wait.asked.at_ns)),
            },
            _ => "tries once: refused".to_owned(),
        };
        self.add(lane, at, text, Kind::Refusal);
    }

    fn step(&mut self, lane: usize, index: usize, event: &Event) {
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
        let verb = match action {
            Action::Read => "read",
            Action::Write => "write",
        };
        if *refused {
            let (fence, highest) = (fence.as_deref(), highest.as_deref());
            let (fence, highest) = (fence.unwrap_or("none"), highest.unwrap_or("none"));
            let sign = if fence == highest { "=" } else { "<" };
            let among = self.facts.fences();
            let (fence, highest) = (shorten(fence, &among), shorten(highest, &among));
            let text = format!("– {verb} refused: {fence} {sign} {highest}");
            self.add(lane, event.at_ns, text, Kind::Write);
        } else if *action == Action::Read {
            self.read(lane, event.at_ns, *value, *serial);
            return;
        } else if self.writes_over(index, event) {
            let text = format!("✗ writes {} over it", count(*value));
            self.add(lane, event.at_ns, text, Kind::Write);
            self.colour(Role::Bad);
        } else {
            self.add(
                lane,
                event.at_ns,
                format!("writes {}", count(*value)),
                Kind::Write,
            );
        }
        if let Some(line) = self.lines.last_mut() {
            line.op = Some(*serial);
        }
    }

    fn read(&mut self, lane: usize, at: u64, value: i64, serial: u64) {
        let is_crash = self.scenario == Scenario::Crash;
        let works = self.scenario == Scenario::TtlEdge && lane == 0 && !self.fenced;
        let fenced_pair = self.fenced && self.has_two_locks();
        if let Some(line) = self.last(lane, at, Kind::Grant).filter(|_| !fenced_pair) {
            if is_crash {
                line.text.push_str(", starts to work");
                return;
            }
            // Where leases ran out the line is long enough.
            if !line.text.ends_with("ran out") {
                line.text.push_str(&format!("; reads {}", count(value)));
                if works {
                    line.text.push_str("; works");
                }
                line.op = Some(serial);
                line.kind = Kind::Other;
                return;
            }
        }
        self.add(lane, at, format!("reads {}", count(value)), Kind::Other);
        if let Some(line) = self.lines.last_mut() {
            line.op = Some(serial);
        }
    }

    /// Whether this write is computed from a reading that somebody else has written over since.
    fn writes_over(&self, index: usize, event: &Event) -> bool {
        if self.has_two_locks() {
            return false;
        }
        let mut foreign = false;
        for earlier in self.events[..index].iter().rev() {
            let What::Register {
                action,
                refused: false,
                ..
            } = &earlier.what
            else {
                continue;
            };
            match (earlier.who == event.who, action) {
                (true, Action::Read) => return foreign,
                (false, Action::Write) => foreign = true,
                _ => {}
            }
        }
        false
    }

    /// What the lock said about this release, if it did so within a moment.
    fn prompt_word(&self, op: u64, asked_ns: u64) -> Option<ReleaseWord> {
        self.events.iter().find_map(|event| match &event.what {
            What::Released {
                op: of, outcome, ..
            } if *of == op && event.at_ns - asked_ns <= SETTLED_NS => Some(*outcome),
            _ => None,
        })
    }

    fn release(&mut self, lane: usize, at: u64, op: u64, key: &str) {
        let lost = self.prompt_word(op, at) == Some(ReleaseWord::AlreadyLost);
        let two = self.has_two_locks();
        if lost && !two || self.is_stepwise(op, at) {
            // Told with the answer, or step by step.
            return;
        }
        if let Some(line) = self.last(lane, at, Kind::Release).filter(|_| two) {
            let more = if lost {
                format!("; {key} is no longer its own")
            } else if line.text.ends_with("releases") {
                " both".to_owned()
            } else {
                String::new()
            };
            line.text.push_str(&more);
            return;
        }
        let own = if lost {
            format!("; {key} is no longer its own")
        } else {
            String::new()
        };
        let in_one = self.scenario != Scenario::Deadlock;
        if let Some(line) = self.last(lane, at, Kind::Write).filter(|_| in_one) {
            line.text.push_str(", releases");
            line.kind = Kind::Release;
            return;
        }
        self.add(lane, at, format!("releases{own}"), Kind::Release);
    }

    fn released(&mut self, lane: usize, at: u64, op: u64, outcome: ReleaseWord) {
        let asked = self.events.iter().find_map(|event| match &event.what {
            What::Release { op: of, .. } if *of == op => Some(event.at_ns),
            _ => None,
        });
        let prompt = asked.is_some_and(|asked| at - asked <= SETTLED_NS);
        if outcome == ReleaseWord::AlreadyLost && !(prompt && self.has_two_locks()) {
            self.add(lane, at, "release: no longer the owner", Kind::Other);
        } else if !prompt {
            self.add(lane, at, "its release is done", Kind::Other);
        }
    }

    fn fault(&mut self, lane: usize, event: &Event, fault: Fault) {
        let who = NAMES[lane];
        let (text, role) = match fault {
            Fault::Killed => {
                let reached = self.facts.reached.iter().find(|(_, whom, ..)| whom == who);
                let before = reached.map_or_else(String::new, |(_, _, step, _)| {
                    format!(", before step {}", step + 1)
                });
                (format!("✗ SIGKILL{before}"), Some(Role::Bad))
            }
            Fault::Stopped => ("SIGSTOP: paused".to_owned(), None),
            Fault::Continued => ("SIGCONT: goes on".to_owned(), None),
        };
        self.add(lane, event.at_ns, text, Kind::Other);
        if let (Some(role), Some(line)) = (role, self.lines.last_mut()) {
            line.role = Some(role);
        }
    }

    fn buy_span(&self, op: u64) -> Option<(u64, Option<u64>)> {
        let asked = self.events.iter().find_map(|event| match event.what {
            What::Purchase { op: of, .. } if of == op => Some(event.at_ns),
            _ => None,
        })?;
        let answered = self.events.iter().find_map(|event| match event.what {
            What::Purchased { op: of, .. } if of == op => Some(event.at_ns),
            _ => None,
        });
        Some((asked, answered))
    }

    fn purchase(&mut self, lane: usize, at: u64, op: u64) {
        let long = self
            .buy_span(op)
            .is_some_and(|(asked, answered)| answered.is_none_or(|at| at - asked > SETTLED_NS));
        if !long {
            return;
        }
        match self.last(lane, at, Kind::Refusal) {
            Some(line) => line.text.push_str("; then waits"),
            None => self.add(lane, at, "waits to buy", Kind::Other),
        }
    }

    fn purchased(&mut self, lane: usize, at: u64, op: u64, outcome: Outcome) {
        let long = self
            .buy_span(op)
            .is_some_and(|(asked, _)| at - asked > SETTLED_NS);
        match outcome {
            Outcome::Busy if long => self.add(lane, at, "gives up: 3 × TTL", Kind::Refusal),
            Outcome::Busy => self.add(lane, at, "tries once: busy", Kind::Refusal),
            Outcome::Sold => self.add(lane, at, "buys: sold", Kind::Other),
            Outcome::NoStock => self.add(lane, at, "buys: no stock", Kind::Other),
            Outcome::Unknown => self.add(lane, at, "buys: cannot tell", Kind::Other),
        }
    }

    /// Wait cycles, told when they have ended.
    fn cycles(&mut self) {
        for cycle in self.facts.cycles() {
            let Some(until) = cycle.until else { continue };
            let (waits, lasted) = (waits_told(&cycle), ms(cycle.lasted_ns));
            let text = format!("wait cycle: {waits}, for {lasted} ms");
            self.for_all(until.at_ns, text, Kind::Other);
        }
    }
}
