//! Lock trials as HTML pages: settings, description and events of each run.

use super::{Page, PageRun};
use crate::holds::Judged;
use crate::holds::{Scenario, Trial};
use crate::text::numbers::count;

fn about(trial: &Trial) -> &'static str {
    match trial.scenario {
        Scenario::Crash => "the holder is killed",
        Scenario::TtlEdge => "work beyond the lease",
        Scenario::Deadlock => "two locks, opposite order",
        Scenario::Sorted => "two locks, same order",
        Scenario::StaleRelease => "a late release",
        Scenario::ShortStock => "nothing left to sell",
        Scenario::Pause => "paused between read and write",
        Scenario::Failover if !trial.store.keeps_stock() => {
            "the leader dies, the others elect a new one"
        }
        Scenario::Failover => "a replica takes over without the lock",
        Scenario::RestartEmpty if !trial.store.keeps_stock() => {
            "one of three servers comes back empty"
        }
        Scenario::RestartEmpty => "the server comes back empty",
        Scenario::LostWakeup => "given back just before somebody waits",
    }
}

/// Converts a lock trial for a page.
pub fn run_of_trial(judged: &Judged) -> PageRun<'_> {
    let trial = &judged.trial;
    let ms = |number: u64| format!("{} ms", count(number as i64));
    let mut settings = vec![("TTL", ms(trial.ttl_ms))];
    if trial.scenario == Scenario::TtlEdge {
        settings.push(("work", ms(trial.work_ms)));
    }
    settings.push(("processes", count(trial.scenario.processes() as i64)));
    settings.push(("store", judged.header.store.clone()));
    PageRun {
        about: about(trial).into(),
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
        title: format!("{}: {}", trial.scenario.name(), about(trial)),
        command: judged.trial.reproduce(),
        generated: judged.header.recorded.clone(),
        seed: judged.trial.seed,
        verdict: None,
        runs: vec![run_of_trial(judged)],
        retry: None,
    }
}
