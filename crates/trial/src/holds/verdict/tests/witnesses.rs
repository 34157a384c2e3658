//! Tests that HELD needs its evidence: without an event that the verdict rests on, the same history is no longer HELD. Each test lists the
//! events that may be missing: a request whose answer is recorded, A's read, and what B does once it has the lock.

use super::*;
use crate::history::Change;

/// Leaves out each event in turn. Only without the events at `irrelevant` the verdict may still be HELD.
fn needs_all_but(irrelevant: &[usize], history: &HistoryBuilder) {
    held(&history.judged());
    let events = history.events().iter().enumerate();
    let stays_held = events.filter(|(place, _)| {
        let verdict = history.without(*place).judged();
        verdict.outcome == Outcome::Held
    });
    let stays_held: Vec<_> = stays_held.collect();
    let places: Vec<usize> = stays_held.iter().map(|(place, _)| *place).collect();
    assert_eq!(places, irrelevant, "{stays_held:#?}");
}

#[test]
fn a_recovery_needs_the_kill_the_refusal_and_the_grant() {
    let history = crash()
        .tries("B", 312.9)
        .granted("B", KEY, 313.0, 2014.6, 1);
    needs_all_but(&[0, 5], &history);
}

#[test]
fn a_late_release_needs_whoever_tries_after_it() {
    let history = HistoryBuilder::of(Scenario::StaleRelease)
        .granted("A", KEY, 0.0, 1.0, 1)
        .fault("A", 4.0, Fault::Stopped)
        .granted("B", KEY, 5.0, 1003.0, 1)
        .fault("A", 1030.0, Fault::Continued)
        .releases("A", 1031.0, 1, LOST)
        .tries("C", 1033.0)
        .releases("B", 1036.0, 1, RELEASED);
    needs_all_but(&[0, 3, 6, 10, 11], &history);
}

#[test]
fn work_beyond_the_lease_that_is_declined_needs_the_other_holder() {
    let history = HistoryBuilder::of(Scenario::TtlEdge)
        .with("safe")
        .granted("A", KEY, 0.0, 1.0, 1)
        .reads("A", 2.0, 1)
        .granted("B", KEY, 5.0, 1003.0, 1)
        .add(3000.0, "A", What::Declined { op: 99, hold: 1 })
        .releases("B", 3001.0, 1, RELEASED);
    needs_all_but(&[0, 2, 3, 4, 7, 8], &history);
}

#[test]
fn a_pause_that_is_noticed_needs_the_pause_and_the_other_holder() {
    let history = HistoryBuilder::of(Scenario::Pause)
        .with("watchdog")
        .granted("A", KEY, 0.0, 1.0, 1)
        .reads("A", 2.0, 1)
        .fault("A", 4.0, Fault::Stopped)
        .granted("B", KEY, 5.0, 1003.0, 1)
        .fault("A", 1030.0, Fault::Continued)
        .add(1031.0, "A", What::Declined { op: 99, hold: 1 })
        .releases("B", 1036.0, 1, RELEASED);
    needs_all_but(&[0, 2, 3, 5, 9, 10], &history);
}

#[test]
fn a_store_that_forgets_needs_the_failure_and_the_other_holder() {
    let history = HistoryBuilder::of(Scenario::RestartEmpty)
        .with("watchdog")
        .ttl(10_000)
        .granted("A", KEY, 0.0, 1.0, 1)
        .reads("A", 2.0, 1)
        .server("server", 50.0, Change::Killed)
        .server("server", 100.0, Change::RestartedEmpty)
        .granted("B", KEY, 110.0, 111.0, 1)
        .add(160.0, "A", What::Declined { op: 99, hold: 1 })
        .releases("B", 170.0, 1, RELEASED);
    needs_all_but(&[0, 2, 3, 6, 9, 10], &history);
}
