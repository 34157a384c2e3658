//! Verdicts on a holder that is stopped between its read and its write, for longer than its lease.

use super::*;
use crate::protocol::Claims;

/// A has read and is stopped; nobody has moved since.
fn stopped(strategy: &'static str) -> HistoryBuilder {
    HistoryBuilder::of(Scenario::Pause)
        .with(strategy)
        .granted("A", KEY, 0.0, 1.0, 1)
        .reads("A", 2.0, 1)
        .fault("A", 4.0, Fault::Stopped)
}

/// B gets the lock while A is stopped, and is done before A goes on.
fn overtaken(strategy: &'static str) -> HistoryBuilder {
    let history = stopped(strategy).lease_over("A", 1001.0, 1);
    by_b(history).fault("A", 1030.0, Fault::Continued)
}

fn by_b(history: HistoryBuilder) -> HistoryBuilder {
    history
        .granted("B", KEY, 5.0, 1003.0, 1)
        .reads("B", 1004.0, 1)
        .writes("B", 1005.0, 1, 1)
        .releases("B", 1006.0, 1, RELEASED)
}

fn declines(history: HistoryBuilder, at: f64) -> HistoryBuilder {
    history.add(at, "A", What::Declined { op: 99, hold: 1 })
}

#[test]
fn a_write_after_the_pause_over_an_update_of_another_breaks() {
    let verdict = overtaken("safe")
        .writes("A", 1032.0, 1, 1)
        .releases("A", 1033.0, 1, LOST)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "A wrote over B's update, 31.0 ms or more after its lease had ended. One is lost."
    );
    assert_eq!(
        verdict.why.as_deref(),
        Some(
            "A token guards the release, not the work: A is never asked again whether it still holds."
        )
    );
    assert_eq!(
        verdict.next[0].command,
        "fencepost trial pause --lock=watchdog --ttl 1000"
    );
    assert_eq!(
        verdict.damage.code,
        [Damage::LostUpdate, Damage::Interleaved]
    );
}

#[test]
fn a_lock_that_is_kept_alive_is_not_accused_of_ending_its_lease_early() {
    let verdict = overtaken("watchdog")
        .writes("A", 1032.0, 1, 1)
        .releases("A", 1033.0, 1, LOST)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.why.as_deref(),
        Some(
            "A stopped process keeps no lock alive, and A is never asked again whether it still holds."
        )
    );
    assert!(!verdict.because.contains("not kept alive"), "{verdict:?}");
}

#[test]
fn a_session_may_end_by_a_pause_and_a_lock_without_a_lease_may_not() {
    let untimed = Claims {
        untimed: true,
        ..Claims::OWNED
    };
    for (claims, why) in [
        (
            Claims::OF_SESSION,
            "A stopped process keeps no lock alive, ",
        ),
        (untimed, "This lock has no lease that could have ended, "),
    ] {
        let verdict = by_b(stopped("safe").promising(claims))
            .fault("A", 1030.0, Fault::Continued)
            .writes("A", 1032.0, 1, 1)
            .releases("A", 1033.0, 1, LOST)
            .judged();
        assert_eq!(verdict.outcome, Outcome::Broken);
        assert!(verdict.why.unwrap().starts_with(why));
    }
}

#[test]
fn a_late_write_that_the_resource_refuses_holds() {
    let verdict = overtaken("fenced")
        .write_refused("A", 1032.0, 1, 1)
        .releases("A", 1033.0, 1, LOST)
        .judged();
    held(&verdict);
    assert_eq!(
        verdict.witness,
        ["A was stopped for 1,026.0 ms on a lease of 1,000 ms; B got the lock and used the number"]
    );
}

#[test]
fn a_holder_that_knows_after_the_pause_that_it_lost_its_lock_holds() {
    let verdict = declines(overtaken("watchdog"), 1032.0)
        .releases("A", 1033.0, 1, LOST)
        .judged();
    held(&verdict);
    assert_eq!(
        verdict.because,
        "A stopped itself: it wrote nothing after its lock was lost."
    );
    let alone = stopped("watchdog").fault("A", 1030.0, Fault::Continued);
    let alone = by_b(declines(alone, 1032.0).releases("A", 1033.0, 1, LOST));
    assert_eq!(missing(&alone.judged()), "overrun", "B came too late");
    let early = HistoryBuilder::of(Scenario::Pause)
        .with("watchdog")
        .granted("A", KEY, 0.0, 1.0, 1)
        .reads("A", 2.0, 1);
    let early = declines(early, 3.0).fault("A", 4.0, Fault::Stopped);
    let early = by_b(early).fault("A", 1030.0, Fault::Continued);
    assert_eq!(missing(&early.judged()), "answers", "before the pause");
}

#[test]
fn a_lock_without_a_lease_holds_if_the_other_waits_for_its_release() {
    let untimed = Claims {
        untimed: true,
        ..Claims::OWNED
    };
    let waits = |claims: Claims| {
        let granted = 1035.0;
        let history = stopped("safe").promising(claims);
        let op = history.events().len() as u64 + 1;
        history
            .asks("B", KEY, 5.0, 10_000)
            .fault("A", 1030.0, Fault::Continued)
            .writes("A", 1032.0, 1, 1)
            .releases("A", 1033.0, 1, RELEASED)
            .grants("B", KEY, op, granted, 1, None)
            .reads("B", granted + 1.0, 1)
            .writes("B", granted + 2.0, 1, 2)
            .releases("B", granted + 3.0, 1, RELEASED)
            .judged()
    };
    let verdict = waits(untimed);
    held(&verdict);
    assert!(
        verdict
            .because
            .starts_with("A kept its lock while it was paused")
    );
    // A lease was over by then, and B was only slow.
    assert_eq!(missing(&waits(Claims::OWNED)), "overrun");
}

#[test]
fn a_second_holder_within_the_lease_is_not_excused_by_the_pause() {
    let verdict = stopped("fenced")
        .granted("B", KEY, 5.0, 6.0, 1)
        .reads("B", 7.0, 1)
        .fault("A", 1030.0, Fault::Continued)
        .write_refused("A", 1032.0, 1, 1)
        .releases("A", 1033.0, 1, LOST)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(verdict.because, "Two holders at once, within A's lease.");
}

#[test]
fn without_a_witnessed_pause_beyond_the_lease_nothing_is_tested() {
    let alone = |stop: bool, continued: f64| {
        let mut history = HistoryBuilder::of(Scenario::Pause)
            .granted("A", KEY, 0.0, 1.0, 1)
            .reads("A", 2.0, 1);
        if stop {
            history = history.fault("A", 4.0, Fault::Stopped);
        }
        history
            .fault("A", continued, Fault::Continued)
            .writes("A", continued + 1.0, 1, 1)
            .releases("A", continued + 2.0, 1, RELEASED)
            .granted("B", KEY, 5.0, continued + 4.0, 1)
            .judged()
    };
    assert_eq!(missing(&alone(false, 1030.0)), "pause", "not seen to stop");
    assert_eq!(missing(&alone(true, 900.0)), "pause", "too short");
}
