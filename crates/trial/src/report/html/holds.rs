//! Lock trials on a page.

use super::{Page, PageRun};
use crate::holds::Scenario;
use crate::report::holds::Tried;
use crate::report::numbers::count;

/// What happens, in a few words.
fn about(scenario: Scenario) -> &'static str {
    match scenario {
        Scenario::Crash => "the holder is killed",
        Scenario::TtlEdge => "the work outlasts the lease",
        Scenario::Deadlock => "two locks in opposite order",
        Scenario::Sorted => "two locks in the same order",
        Scenario::StaleRelease => "paused, then a late release",
        Scenario::ShortStock => "nothing left to sell",
    }
}

/// A lock trial, ready for a page.
pub fn run_of_trial(tried: &Tried) -> PageRun<'_> {
    let trial = &tried.trial;
    let in_ms = |number: u64| format!("{} ms", count(number as i64));
    let mut settings = vec![("TTL", in_ms(trial.ttl_ms))];
    if trial.scenario == Scenario::TtlEdge {
        settings.push(("work", in_ms(trial.work_ms)));
    }
    settings.push(("store", tried.header.store.clone()));
    PageRun {
        about: about(trial.scenario).into(),
        command: trial.reproduce(),
        expected: tried.expected(),
        settings,
        claims: trial.strategy.claims,
        ..PageRun::new(&tried.header, &tried.verdict, &tried.events)
    }
}

/// A page about one lock trial.
pub fn page_of_trial(tried: &Tried) -> Page<'_> {
    let trial = &tried.trial;
    Page {
        title: format!("{}: {}", trial.scenario.command(), about(trial.scenario)),
        command: trial.reproduce(),
        generated: tried.header.recorded.clone(),
        seed: trial.seed,
        runs: vec![run_of_trial(tried)],
        retry: None,
    }
}
