//! Lock trials as HTML pages: settings, description and events of each run.

use super::{Page, PageRun};
use crate::history::Event;
use crate::holds::Judged;
use crate::holds::Scenario;
use crate::report::fault;
use crate::text::numbers::count;

/// How many TTLs of a storm are drawn if nothing in particular is to be shown.
const STORM_TTLS: u64 = 8;

/// Converts a lock trial for a page.
pub fn run_of_trial(judged: &Judged) -> PageRun<'_> {
    let trial = &judged.trial;
    let ms = |number: u64| format!("{} ms", count(number as i64));
    let mut settings = vec![("TTL", ms(trial.ttl_ms))];
    if trial.scenario == Scenario::TtlEdge {
        settings.push(("work", ms(trial.work_ms)));
    }
    settings.push(("processes", count(trial.processes() as i64)));
    settings.push(("store", judged.header.store.clone()));
    let events = shown(judged);
    if let (Some(first), Some(last)) = (events.first(), events.last())
        && events.len() < judged.events.len()
    {
        let [first, last, all] = [first.n, last.n, judged.events.len() as u64]
            .map(|number| count(i64::try_from(number).unwrap_or(i64::MAX)));
        settings.push(("shown", format!("#{first} to #{last} of {all} events")));
    }
    PageRun {
        about: fault::of_trial(trial).into(),
        command: trial.reproduce(),
        expected: judged.expected(),
        settings,
        ..PageRun::new(&judged.header, &judged.verdict, events)
    }
}

/// Returns the events that a page draws: all of them or, of a storm, those around its evidence.
fn shown(judged: &Judged) -> &[Event] {
    if judged.trial.scenario != Scenario::Storm {
        return &judged.events;
    }
    let ttl_ns = judged.trial.ttl_ms.saturating_mul(1_000_000);
    let cited = judged.verdict.evidence.iter().map(|proof| proof.at_ns);
    let (from_ns, until_ns) = match (cited.clone().min(), cited.max()) {
        (Some(first_ns), Some(last_ns)) => (
            first_ns.saturating_sub(ttl_ns.saturating_mul(2)),
            last_ns.saturating_add(ttl_ns),
        ),
        // Nothing happened that would be more interesting than the beginning.
        _ => (0, ttl_ns.saturating_mul(STORM_TTLS)),
    };
    let from = judged.events.partition_point(|event| event.at_ns < from_ns);
    let until = judged
        .events
        .partition_point(|event| event.at_ns <= until_ns);
    judged.events.get(from..until).unwrap_or_default()
}

/// Returns the page of one lock trial.
pub fn page_of_trial(judged: &Judged) -> Page<'_> {
    let trial = &judged.trial;
    Page {
        title: format!("{}: {}", trial.scenario.name(), fault::of_trial(trial)),
        command: judged.trial.reproduce(),
        generated: judged.header.recorded.clone(),
        seed: judged.trial.seed,
        verdict: None,
        runs: vec![run_of_trial(judged)],
        retry: None,
    }
}
