//! Lock trials as HTML pages: settings, description and events of each run.

use super::{Page, PageRun};
use crate::holds::Judged;
use crate::holds::Scenario;
use crate::report::fault;
use crate::text::numbers::count;

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
    PageRun {
        about: fault::of_trial(trial).into(),
        command: trial.reproduce(),
        expected: judged.expected(),
        settings,
        ..PageRun::new(&judged.header, &judged.verdict, &judged.events)
    }
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
