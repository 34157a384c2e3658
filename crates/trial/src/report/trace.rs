//! Exports runs in the Chrome trace event format, for Perfetto and the tracing page of a browser.
//!
//! Each run is a process of the trace, and each subject is a group of tracks: one for what happens to it, and one per lock it
//! asks for. Waits, holds and purchases are spans; faults, expired leases and steps on the number are instants.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::html::{Page, PageRun};
use crate::history::{Event, Fault, What};
use crate::protocol::PurchaseOutcome;
use crate::story::label;

impl Page<'_> {
    /// Returns the whole page as one trace.
    pub fn trace(&self) -> Value {
        let events: Vec<Value> = self
            .runs
            .iter()
            .enumerate()
            .flat_map(|(index, run)| Tracer::trace(index + 1, run))
            .collect();
        json!({
            "traceEvents": events,
            "displayTimeUnit": "ms",
            "otherData": {
                "version": format!("fencepost {}", env!("CARGO_PKG_VERSION")),
                "title": self.title,
                "seed": self.seed,
                "command": self.command,
                "recorded": self.generated,
            },
        })
    }
}

/// A span that has begun but not ended.
struct Open {
    track: usize,
    name: String,
    from_ns: u64,
    args: Value,
}

/// Builds the trace of one run.
struct Tracer<'a> {
    run: usize,
    tracks: HashMap<(&'a str, Option<&'a str>), usize>,
    waits: HashMap<u64, Open>,
    holds: HashMap<(&'a str, u64), Open>,
    pauses: HashMap<&'a str, Open>,
    out: Vec<Value>,
}

/// The name of the lab's own track.
const LAB: &str = "the lab";

impl<'a> Tracer<'a> {
    fn trace(run: usize, page_run: &'a PageRun<'_>) -> Vec<Value> {
        let mut tracer = Tracer {
            run,
            tracks: HashMap::new(),
            waits: HashMap::new(),
            holds: HashMap::new(),
            pauses: HashMap::new(),
            out: Vec::new(),
        };
        let name = format!(
            "{}, {}: {}",
            page_run.header.strategy, page_run.scenario, page_run.verdict.outcome
        );
        tracer.label("process_name", 0, json!({ "name": name }));
        tracer.label("process_sort_index", 0, json!({ "sort_index": run }));
        for event in page_run.events {
            tracer.take(event);
        }
        let end_ns = page_run.events.last().map_or(0, |event| event.at_ns);
        tracer.finish(end_ns);
        tracer.out
    }

    fn label(&mut self, name: &str, track: usize, args: Value) {
        self.out
            .push(json!({ "ph": "M", "name": name, "pid": self.run, "tid": track, "args": args }));
    }

    fn track(&mut self, who: &'a str, key: Option<&'a str>) -> usize {
        if let Some(track) = self.tracks.get(&(who, key)) {
            return *track;
        }
        let track = self.tracks.len() + 1;
        self.tracks.insert((who, key), track);
        let name = key.map_or_else(|| who.to_owned(), |key| format!("{who}: {key}"));
        self.label("thread_name", track, json!({ "name": name }));
        track
    }

    fn span(&mut self, open: Open, to_ns: u64, ended: &str) {
        let Open {
            track,
            name,
            from_ns,
            mut args,
        } = open;
        args["ended"] = ended.into();
        self.out.push(json!({
            "ph": "X", "name": name, "cat": "fencepost", "pid": self.run, "tid": track,
            "ts": us(from_ns), "dur": us(to_ns.saturating_sub(from_ns)), "args": args,
        }));
    }

    fn instant(&mut self, event: &Event, track: usize, name: &str) {
        let args = serde_json::to_value(event).unwrap_or_default();
        self.out.push(json!({
            "ph": "i", "s": "t", "name": name, "cat": "fencepost", "pid": self.run, "tid": track,
            "ts": us(event.at_ns), "args": args,
        }));
    }

    fn take(&mut self, event: &'a Event) {
        let who = event.who.as_deref().unwrap_or(LAB);
        match &event.what {
            What::Acquire { op, key, wait_ms } => {
                let track = self.track(who, Some(key));
                let args = json!({ "event": event.n, "wait_ms": wait_ms });
                self.begin_wait(*op, track, format!("waits for {key}"), event.at_ns, args);
            }
            What::Acquired {
                op,
                key,
                hold,
                fence,
                contended,
                ..
            } => {
                self.end_wait(*op, event.at_ns, "granted");
                let track = self.track(who, Some(key));
                let args = json!({ "event": event.n, "fence": fence, "contended": contended });
                let open = Open {
                    track,
                    name: format!("holds {key}"),
                    from_ns: event.at_ns,
                    args,
                };
                self.holds.insert((who, *hold), open);
            }
            What::Refused { op, .. } => self.end_wait(*op, event.at_ns, "refused"),
            What::Release { hold, .. } => self.end_hold(who, *hold, event.at_ns, "release sent"),
            What::Lost { hold } => self.end_hold(who, *hold, event.at_ns, "lost"),
            What::LeaseOver { key, .. } => {
                let track = self.track(who, Some(key));
                self.instant(event, track, "lease over by now");
            }
            What::Purchase { op, .. } => {
                let track = self.track(who, None);
                let args = json!({ "event": event.n });
                self.begin_wait(*op, track, "buys".into(), event.at_ns, args);
            }
            What::Purchased { op, purchase } => self.purchased(event, *op, purchase),
            What::Failed { op, message, .. } => {
                if let Some(mut open) = self.waits.remove(op) {
                    open.args["message"] = message.as_str().into();
                    self.span(open, event.at_ns, "failed");
                }
            }
            What::Fault { fault } => self.fault(event, who, *fault),
            _ => {
                let track = self.track(who, None);
                self.instant(event, track, &label(&event.what));
            }
        }
    }

    fn begin_wait(&mut self, op: u64, track: usize, name: String, from_ns: u64, args: Value) {
        self.waits.insert(
            op,
            Open {
                track,
                name,
                from_ns,
                args,
            },
        );
    }

    fn end_wait(&mut self, op: u64, at_ns: u64, ended: &str) {
        if let Some(open) = self.waits.remove(&op) {
            self.span(open, at_ns, ended);
        }
    }

    fn end_hold(&mut self, who: &'a str, hold: u64, at_ns: u64, ended: &str) {
        if let Some(open) = self.holds.remove(&(who, hold)) {
            self.span(open, at_ns, ended);
        }
    }

    /// Adds a purchase as a span with two parts: the wait, as the subject reported it, and the work.
    fn purchased(&mut self, event: &Event, op: u64, purchase: &crate::protocol::Purchase) {
        let Some(mut open) = self.waits.remove(&op) else {
            return;
        };
        let outcome = match purchase.outcome {
            PurchaseOutcome::Sold => "sold",
            PurchaseOutcome::NoStock => "no stock",
            PurchaseOutcome::Busy => "lock taken",
            PurchaseOutcome::Unknown => "unknown",
        };
        let waited_ns = (purchase.waited_ms * 1e6).max(0.0) as u64;
        let worked_from = (open.from_ns + waited_ns).min(event.at_ns);
        let (track, from_ns) = (open.track, open.from_ns);
        let part = |name: &str, from_ns| Open {
            track,
            name: name.into(),
            from_ns,
            args: json!({}),
        };
        open.name = format!("buys: {outcome}");
        open.args = json!({ "event": event.n, "before": purchase.before, "after": purchase.after, "fence": purchase.fence });
        self.span(open, event.at_ns, "answered");
        if purchase.outcome == PurchaseOutcome::Busy {
            self.span(part("waits", from_ns), event.at_ns, "lock taken");
            return;
        }
        if worked_from > from_ns {
            self.span(part("waits", from_ns), worked_from, "granted");
        }
        self.span(part("works", worked_from), event.at_ns, outcome);
    }

    fn fault(&mut self, event: &Event, who: &'a str, fault: Fault) {
        let track = self.track(who, None);
        match fault {
            Fault::Stopped
            | Fault::CutOff
            | Fault::RepliesCut
            | Fault::RequestsCut
            | Fault::Slowed
            | Fault::Distant => {
                let name = match fault {
                    Fault::Stopped => "stopped",
                    Fault::CutOff => "cut off",
                    Fault::RepliesCut => "without replies",
                    Fault::RequestsCut => "unheard",
                    Fault::Distant => "far away",
                    _ => "slow replies",
                };
                let open = Open {
                    track,
                    name: name.into(),
                    from_ns: event.at_ns,
                    args: json!({ "event": event.n }),
                };
                self.pauses.insert(who, open);
            }
            Fault::Continued => {
                if let Some(open) = self.pauses.remove(who) {
                    self.span(open, event.at_ns, "continued");
                }
            }
            Fault::Reconnected => {
                if let Some(open) = self.pauses.remove(who) {
                    self.span(open, event.at_ns, "reconnected");
                }
            }
            Fault::Killed => self.end_all_of(who, event.at_ns),
            Fault::PassedOneWay
            | Fault::ReplyLost
            | Fault::AnsweredOom
            | Fault::AnsweredReadOnly
            | Fault::AnsweredLoading
            | Fault::AnsweredUpstream
            | Fault::ConnectionsDead
            | Fault::Vanished
            | Fault::ReplyArrives
            | Fault::ReplyHeld
            | Fault::ReplyDelivered
            | Fault::WriteHeld
            | Fault::OverReleased
            | Fault::SamePid
            | Fault::ClockAhead
            | Fault::ClockBehind
            | Fault::ClockFast
            | Fault::ClockRight
            | Fault::ClockRead
            | Fault::Suspended => {}
        }
        let name = match fault {
            Fault::Killed => "SIGKILL",
            Fault::Stopped => "SIGSTOP",
            Fault::Continued => "SIGCONT",
            Fault::CutOff => "cut off",
            Fault::RepliesCut => "replies cut",
            Fault::RequestsCut => "requests cut",
            Fault::PassedOneWay => "passed one way",
            Fault::Reconnected => "reconnected",
            Fault::Slowed => "slow replies",
            Fault::Distant => "far away",
            Fault::ConnectionsDead => "connections dead",
            Fault::Vanished => "vanished",
            Fault::ReplyLost => "reply lost",
            Fault::AnsweredOom => "-OOM",
            Fault::AnsweredReadOnly => "-READONLY",
            Fault::AnsweredLoading => "-LOADING",
            Fault::AnsweredUpstream => "-upstream failure",
            Fault::ClockAhead => "clock ahead",
            Fault::ClockBehind => "clock behind",
            Fault::ClockFast => "clock fast",
            Fault::ClockRight => "clock right",
            Fault::ClockRead => "clock read",
            Fault::Suspended => "suspended",
            Fault::ReplyArrives => "late reply",
            Fault::ReplyHeld => "reply held",
            Fault::ReplyDelivered => "reply delivered",
            Fault::WriteHeld => "write delayed",
            Fault::OverReleased => "released again",
            Fault::SamePid => "same process id",
        };
        self.instant(event, track, name);
    }

    fn end_all_of(&mut self, who: &'a str, at_ns: u64) {
        let mine: Vec<usize> = self
            .tracks
            .iter()
            .filter(|((owner, _), _)| *owner == who)
            .map(|(_, track)| *track)
            .collect();
        self.close(at_ns, "killed", |open| mine.contains(&open.track));
    }

    fn finish(&mut self, end_ns: u64) {
        self.close(end_ns, "still open at the end", |_| true);
    }

    fn close(&mut self, at_ns: u64, ended: &str, which: impl Fn(&Open) -> bool) {
        let waits = self
            .waits
            .extract_if(|_, open| which(open))
            .map(|(_, open)| open);
        let holds = self
            .holds
            .extract_if(|_, open| which(open))
            .map(|(_, open)| open);
        let pauses = self
            .pauses
            .extract_if(|_, open| which(open))
            .map(|(_, open)| open);
        let mut closed: Vec<Open> = waits.chain(holds).chain(pauses).collect();
        closed.sort_by_key(|open| (open.from_ns, open.track));
        for open in closed {
            self.span(open, at_ns, ended);
        }
    }
}

/// Converts nanoseconds to microseconds, the unit of the format.
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}
