//! Tests the beats of handwritten histories.

use super::*;
use crate::history::Fault;
use crate::holds::Scenario;
use crate::holds::by_hand::{HistoryBuilder, KEY};

fn texts_of(history: &HistoryBuilder) -> Vec<String> {
    beats(&history.judged(), history.events())
        .into_iter()
        .map(|beat| beat.text)
        .collect()
}

#[test]
fn a_late_release_is_told_with_its_answer_and_with_whom_it_did_not_let_in() {
    let history = HistoryBuilder::of(Scenario::StaleRelease)
        .ttl(500)
        .granted("A", KEY, 0.1, 0.3, 1)
        .reads("A", 0.4, 1)
        .writes("A", 0.5, 1, 1)
        .fault("A", 0.6, Fault::Stopped)
        .asks("B", KEY, 0.7, 2_000)
        .lease_over("A", 500.3, 1)
        .grants("B", KEY, 4, 502.0, 1, None)
        .reads("B", 502.2, 1)
        .fault("A", 520.7, Fault::Continued)
        .releases("A", 520.9, 1, ReleaseResult::AlreadyLost)
        .tries("C", 521.6)
        .writes("B", 521.7, 1, 2)
        .releases("B", 521.8, 1, ReleaseResult::Released)
        .looks(522.0, false, None);
    let story = texts_of(&history);
    assert!(story.len() <= BEATS_MAX, "{story:#?}");
    for beat in [
        "A releases the lock, which is no longer its own.",
        "C is refused the lock.",
        "B writes 2 (op 4).",
    ] {
        assert!(story.iter().any(|text| text == beat), "{beat} {story:#?}");
    }
}

#[test]
fn who_is_asked_later_is_not_said_to_be_asked_at_first() {
    let history = HistoryBuilder::of(Scenario::ShortStock)
        .with("late-expiry")
        .ttl(500)
        .buys("A", 0.1, 0.3, PurchaseOutcome::NoStock)
        .buys("B", 0.5, 0.6, PurchaseOutcome::Busy)
        .buys("B", 0.7, 1_521.0, PurchaseOutcome::Busy)
        .looks(1_521.5, true, None);
    let story = texts_of(&history).join(" ");
    assert!(story.contains("A is asked to buy."), "{story}");
    assert!(story.contains("B is asked to buy."), "{story}");
    assert!(!story.contains("goes away"), "{story}");
}

#[test]
fn one_attempt_is_not_told_as_a_wait() {
    let history = HistoryBuilder::of(Scenario::Crash)
        .with("naive")
        .ttl(500)
        .asks("A", KEY, 0.1, 0)
        .fault("A", 30.0, Fault::Killed)
        .waits_in_vain("B", 30.5, 1_550.0);
    let story = texts_of(&history);
    assert!(
        story.contains(&"A asks for the lock.".to_owned()),
        "{story:#?}"
    );
}
