//! Verdicts on a lock that is released just before another process waits for it.

use super::*;
use crate::history::Event;

/// A releases the lock at 5 ms, while B wants it.
fn given_back() -> HistoryBuilder {
    HistoryBuilder::of(Scenario::LostWakeup)
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
        .writes("A", 3.0, 1, 1)
        .asks("B", KEY, 4.0, 3_100)
        .releases("A", 5.0, 1, RELEASED)
}

/// Returns the number of B's request.
fn request(history: &HistoryBuilder) -> u64 {
    let asked = history.events().iter().rev();
    let op = |event: &Event| match &event.what {
        What::Acquire { op, .. } => Some(*op),
        _ => None,
    };
    asked.clone().find_map(op).unwrap()
}

#[test]
fn who_is_woken_has_the_lock() {
    let history = given_back();
    let op = request(&history);
    let verdict = history.grants("B", KEY, op, 8.0, 1, None).judged();
    held(&verdict);
    assert_eq!(
        verdict.because,
        "B was woken: it got the lock that A released."
    );
    assert!(
        verdict.witness[0].contains("came in 3.0 ms later"),
        "{verdict:?}"
    );
}

#[test]
fn who_sleeps_on_although_nobody_has_the_lock_is_stuck() {
    let refused = |at_ms: f64| {
        let history = given_back().with("late-watch");
        let op = request(&history);
        let key = KEY.into();
        history.add(at_ms, "B", What::Refused { op, key }).judged()
    };
    let verdict = refused(3_010.0);
    assert_eq!(verdict.outcome, Outcome::Stuck);
    assert_eq!(
        verdict.because,
        "Nobody has the lock, and 3,004.7 ms (3 × TTL) later B still waits for it."
    );
    assert_eq!(missing(&refused(2_900.0)), "answers", "not forever yet");
}

#[test]
fn who_comes_later_was_not_put_to_the_test() {
    let verdict = HistoryBuilder::of(Scenario::LostWakeup)
        .granted("A", KEY, 0.5, 1.0, 1)
        .releases("A", 5.0, 1, RELEASED)
        .granted("B", KEY, 9.0, 10.0, 1)
        .judged();
    assert_eq!(missing(&verdict), "contention");
}

#[test]
fn who_is_let_in_too_early_breaks_it() {
    let verdict = given_back_late().judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
}

fn given_back_late() -> HistoryBuilder {
    HistoryBuilder::of(Scenario::LostWakeup)
        .granted("A", KEY, 0.5, 1.0, 1)
        .granted("B", KEY, 2.0, 3.0, 1)
        .releases("A", 5.0, 1, RELEASED)
}
