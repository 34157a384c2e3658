//! The terminal report of a lock trial: a title, and one lane per process with timed entries.
//!
//! The lanes are derived from the history alone. Related events share a line if they happened within a short time. A line is
//! settled once that time has passed, so it can be printed while the trial is still running.

use std::path::Path;

use fencepost::stores::kinds::{POSTGRES, REDIS};

use crate::history::{Event, Header, StormSettings};
use crate::holds::storm::{Shrunk, Tried};
use crate::holds::{FIRST_LOCK, Judged, NAMES, SECOND_LOCK, Scenario, Trial, storm};
use crate::store::TrialStore;
use crate::story::{Entry, SETTLED_NS, lanes, scenarios};
use crate::text::ink::{Ink, Role};
use crate::text::numbers::{count, decimal, ms, plural};

/// The width that lines are formatted for. On a narrower screen all lanes share one column.
const WIDTH: usize = 100;
/// The column at which the lanes begin.
const INDENT: usize = 13;
/// How many faults of a plan are listed.
const FAULTS_SHOWN: usize = 6;
/// The length beyond which the name of a store stands alone.
const LONG_NAME: usize = 32;
/// The column of the operation number in a layout with two lanes.
const OP_COLUMN: usize = 32;

/// Returns the title with the settings.
pub fn title(trial: &Trial) -> String {
    let work = match trial.scenario {
        Scenario::TtlEdge => format!("   work {} ms", count(trial.work_ms as i64)),
        Scenario::Storm => trial.storm.map(size_of_storm).unwrap_or_default(),
        _ => String::new(),
    };
    let set = |gloss: &str| {
        format!(
            "  lock {}   TTL {} ms{gloss}{work}   store {}   seed {}\n",
            trial.strategy.name,
            count(trial.ttl_ms as i64),
            stage_of(trial),
            trial.seed
        )
    };
    // The gloss helps newcomers, but a long name leaves no room for it.
    let with_gloss = set(gloss(trial));
    let fits = with_gloss.chars().count() <= WIDTH;
    let set = if fits { with_gloss } else { set("") };
    let (command, question) = (trial.scenario.command(), scenarios::question(trial));
    let mut text = format!("{command}   {question}\n{set}");
    if let Some(storm) = trial.storm {
        text.push_str(&faults_of_storm(storm, &trial.store));
    }
    if trial.strategy.claims.fencing && trial.scenario != Scenario::ShortStock {
        text.push_str(
            "  fence = a number that grows with every grant; the resource refuses a lower one\n",
        );
    }
    text
}

/// Returns what the TTL means for this lock, where the trial depends on it and the question does not say it.
fn gloss(trial: &Trial) -> &'static str {
    let claims = trial.strategy.claims;
    match trial.scenario {
        Scenario::TtlEdge
        | Scenario::Failover
        | Scenario::RestartEmpty
        | Scenario::RestartBehind
        | Scenario::ServerClock
        | Scenario::Eviction
        | Scenario::TakenAway
        | Scenario::Deposed => "",
        _ if claims.untimed => " (not used: no lease)",
        _ if claims.keep_alive => " (the lease, renewed)",
        _ => " (the lease, then it is free)",
    }
}

/// Returns words such as "   5 processes, 3 names, 60 s".
fn size_of_storm(storm: StormSettings) -> String {
    format!(
        "   {}, {}, {} s",
        plural(storm.processes, "process", "processes"),
        plural(storm.names, "name", "names"),
        decimal(storm.for_ms as f64 / 1e3)
    )
}

/// Returns the faults of a storm on this store, and why it does not have the others.
fn faults_of_storm(storm: StormSettings, store: &TrialStore) -> String {
    let mut text = format!("  faults {}\n", storm.faults.listed(", "));
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for (kind, why) in storm::lacking(storm.faults, store) {
        match reasons.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, kinds)) => kinds.push(kind.name()),
            None => reasons.push((why, vec![kind.name()])),
        }
    }
    for (why, kinds) in reasons {
        text.push_str(&format!("  without {}: {why}\n", kinds.join(", ")));
    }
    text
}

/// Returns the line about the shortest beginning of a storm that convicts the lock, and where it is saved; empty if there is none.
pub fn shortest(judged: &Judged, path: Option<&Path>, ink: Ink) -> String {
    let Some(shortest) = &judged.shortest else {
        return String::new();
    };
    let [events, all] =
        [shortest.events, judged.events.len()].map(|number| count(number.min(1 << 40) as i64));
    let place = match path {
        Some(path) => format!(": {}", path.display()),
        None => "; --history FILE.jsonl saves both".into(),
    };
    let text = format!("the first {events} of {all} events convict it{place}");
    ink.sentence("shortest", &text)
}

/// Returns the lines about smaller plans of faults: how often each convicted the lock, and the faults of the smallest.
pub fn smaller_plans(shrunk: &Shrunk, ink: Ink) -> String {
    let mut lines: Vec<String> = shrunk.tried.iter().map(Tried::words).collect();
    match shrunk.smallest() {
        Some(smallest) if !smallest.plan.faults.is_empty() => {
            let few = smallest.plan.faults.iter().take(FAULTS_SHOWN);
            let faults: Vec<String> = few.map(|planned| planned.words()).collect();
            let more = smallest.plan.faults.len().saturating_sub(FAULTS_SHOWN);
            let more = if more > 0 {
                format!(", and {more} more")
            } else {
                String::new()
            };
            lines.push(format!("the smallest: {}{more}", faults.join(", ")));
        }
        Some(_) => lines.push("it needs no fault".into()),
        None if shrunk.is_complete => lines.push("the same faults do not convict it again".into()),
        None => {}
    }
    if !shrunk.is_complete {
        lines.push("the search ended before everything was tried".into());
    }
    let mut label = "smaller";
    let lines = lines
        .iter()
        .map(|line| ink.sentence(std::mem::take(&mut label), line));
    lines.collect()
}

/// Returns the line about a storm that was run several times.
pub fn convictions(convicted: usize, runs: u64, ink: Ink) -> String {
    let text = format!("convicted in {convicted} of {runs} runs; this is the first of the worst");
    ink.sentence("runs", &text)
}

/// Describes where the trial takes place, in a few words.
fn stage_of(trial: &Trial) -> String {
    match trial.scenario {
        // A long name leaves no room for more.
        _ if trial.store.is_private() && trial.store.name().len() > LONG_NAME => {
            trial.store.name().to_owned()
        }
        Scenario::Failover if trial.store.is_private() && trial.store.is(&REDIS) => {
            "redis (a primary, a replica)".into()
        }
        Scenario::Failover if trial.store.is_private() && trial.store.is(&POSTGRES) => {
            format!("{} (a primary, a standby)", trial.store.name())
        }
        _ => trial.store.title(),
    }
}

/// The lanes of a trial, printed line by line as they settle.
#[derive(Debug, Clone)]
pub struct Lanes {
    ink: Ink,
    printed: usize,
}

impl Lanes {
    /// Creates lanes of which nothing has been printed yet.
    pub fn new(ink: Ink) -> Self {
        Self { ink, printed: 0 }
    }

    /// Returns the lines that have settled by `now_ns` and were not returned before.
    pub fn settled(&mut self, header: &Header, events: &[Event], now_ns: u64) -> String {
        let until_ns = now_ns.saturating_sub(SETTLED_NS);
        self.rest(header, events, until_ns)
    }

    /// Returns the remaining lines of a finished trial.
    pub fn finish(&mut self, header: &Header, events: &[Event]) -> String {
        self.rest(header, events, u64::MAX)
    }

    fn rest(&mut self, header: &Header, events: &[Event], until_ns: u64) -> String {
        // Some trials have too many processes and events for lanes.
        let scripted = Scenario::find(&header.scenario).filter(|all| !all.is_long());
        let Some(scenario) = scripted else {
            return String::new();
        };
        let lines = lanes(header, scenario, events);
        let settled = lines.iter().take_while(|line| line.at_ns <= until_ns);
        let settled: Vec<&Entry> = settled.skip(self.printed).collect();
        let mut text = String::new();
        if self.printed == 0 && !settled.is_empty() {
            text.push_str(&self.heading(scenario));
        }
        self.printed += settled.len();
        for line in settled {
            text.push_str(&self.line(line, scenario.processes()));
        }
        text
    }

    fn width(&self, lanes: usize) -> usize {
        if lanes == 2 {
            44
        } else {
            (WIDTH - INDENT) / lanes
        }
    }

    fn heading(&self, scenario: Scenario) -> String {
        let lanes = scenario.processes();
        let orders = match scenario {
            Scenario::Deadlock => [(FIRST_LOCK, SECOND_LOCK, ""), (SECOND_LOCK, FIRST_LOCK, "")],
            Scenario::DeadlockSorted => [
                (FIRST_LOCK, SECOND_LOCK, ""),
                (FIRST_LOCK, SECOND_LOCK, " (sorted)"),
            ],
            _ => [("", "", ""); 2],
        };
        let heads = NAMES[..lanes].iter().enumerate().map(|(index, name)| {
            match orders.get(index).filter(|(first, ..)| !first.is_empty()) {
                Some((first, then, note)) => format!("{name}: {first}, then {then}{note}"),
                None => (*name).to_owned(),
            }
        });
        let mut text = format!("{:>11}  ", "at ms");
        if self.ink.columns < WIDTH {
            text.push_str(&heads.collect::<Vec<_>>().join(" · "));
        } else {
            let width = self.width(lanes);
            for head in heads {
                text.push_str(&format!("{head:<width$}"));
            }
        }
        format!("{}\n", self.ink.paint(Role::Label, text.trim_end()))
    }

    fn line(&self, line: &Entry, lanes: usize) -> String {
        let Some(lane) = line.lane else {
            let time = if line.is_server_event() {
                ms(line.at_ns)
            } else {
                String::new()
            };
            let text = format!("{time:>11}  ── {} ──", line.text);
            return format!("{}\n", self.ink.paint(Role::Label, text));
        };
        let time = format!("{:>11}  ", ms(line.at_ns));
        let paint = |text: &str| match line.role {
            Some(role) => self.ink.paint(role, text),
            None => text.to_owned(),
        };
        let op = line.op.map(|op| format!("op {op}")).unwrap_or_default();
        let label = |op: &str| self.ink.paint(Role::Label, op);
        let (place, gap) = if self.ink.columns < WIDTH {
            (format!("{}  ", NAMES[lane]), 2)
        } else {
            let column = if lanes == 2 { OP_COLUMN } else { 23 };
            let gap = column.saturating_sub(line.text.chars().count()).max(2);
            (" ".repeat(lane * self.width(lanes)), gap)
        };
        let text = paint(&line.text);
        let row = match op.as_str() {
            "" => format!("{time}{place}{text}"),
            op => format!("{time}{place}{text}{:gap$}{}", "", label(op)),
        };
        format!("{}\n", row.trim_end())
    }
}

#[cfg(test)]
mod tests;
