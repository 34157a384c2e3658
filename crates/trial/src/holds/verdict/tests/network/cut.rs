//! Verdicts on a holder that is cut off from its store for longer than its lease.

use super::*;
use crate::protocol::Claims;
use crate::strategy;

/// A has read and is cut off; nobody has moved since.
fn cut_off(strategy: &'static str) -> HistoryBuilder {
    HistoryBuilder::of(Scenario::Cut)
        .with(strategy)
        .granted("A", KEY, 0.0, 1.0, 1)
        .reads("A", 2.0, 1)
        .fault("A", 4.0, Fault::CutOff)
}

/// B gets the lock while A is cut off, and is done before A writes.
fn overtaken(strategy: &'static str) -> HistoryBuilder {
    cut_off(strategy)
        .lease_over("A", 1004.0, 1)
        .granted("B", KEY, 5.0, 1005.0, 1)
        .reads("B", 1006.0, 1)
        .writes("B", 1007.0, 1, 1)
        .releases("B", 1008.0, 1, RELEASED)
}

fn ends(history: HistoryBuilder) -> Verdict {
    history
        .fault("A", 1060.0, Fault::Reconnected)
        .releases("A", 1070.0, 1, LOST)
        .judged()
}

#[test]
fn a_write_of_one_who_is_cut_off_over_an_update_of_another_breaks() {
    let verdict = ends(overtaken("safe").writes("A", 1050.0, 1, 1));
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "A wrote over B's update, 46.0 ms or more after its lease had ended. One is lost."
    );
    let next: Vec<&str> = verdict.next.iter().map(|next| next.remark).collect();
    assert_eq!(next[0], "knows by its own clock that its lease is over");
}

#[test]
fn who_cannot_reach_the_store_is_not_accused_of_not_renewing() {
    for claims in [
        strategy::find("watchdog").unwrap().claims,
        Claims::OF_SESSION,
    ] {
        let history = overtaken("safe").promising(claims);
        let verdict = ends(history.writes("A", 1050.0, 1, 1));
        assert_eq!(verdict.outcome, Outcome::Broken);
        assert_eq!(
            verdict.why.unwrap(),
            "A process that cannot reach the store cannot renew its lock, and A is never asked again whether it still holds."
        );
        assert!(!verdict.because.contains("not kept alive"));
    }
}

#[test]
fn who_stops_by_its_own_clock_holds_and_so_does_who_is_refused() {
    let declined = What::Declined { op: 99, hold: 1 };
    let verdict = ends(overtaken("watchdog").add(1050.0, "A", declined));
    held(&verdict);
    assert_eq!(
        verdict.witness,
        [
            "A was cut off from its store for 1,056.0 ms on a lease of 1,000 ms; B got the lock meanwhile; then A knew that its lock was lost, \
             and did not write"
        ]
    );
    let verdict = ends(overtaken("fenced").write_refused("A", 1050.0, 1, 1));
    held(&verdict);
    assert_eq!(
        verdict.witness,
        [
            "A was cut off from its store for 1,056.0 ms on a lease of 1,000 ms; B got the lock and used the number"
        ]
    );
}

/// A lock of a session, whose server does not notice the cut, lasts as long as its holder.
#[test]
fn who_keeps_its_lock_through_a_cut_holds() {
    let verdict = cut_off("safe")
        .promising(Claims::OF_SESSION)
        .writes("A", 1050.0, 1, 1)
        .fault("A", 1060.0, Fault::Reconnected)
        .releases("A", 1070.0, 1, RELEASED)
        .granted("B", KEY, 1000.0, 1071.0, 1)
        .judged();
    held(&verdict);
    assert_eq!(
        verdict.because,
        "A kept its lock while it was cut off: B got it only after A had released it."
    );
}

#[test]
fn a_cut_that_was_not_seen_or_was_too_short_shows_nothing() {
    let alone = |is_seen: bool, until: f64| {
        let mut history = HistoryBuilder::of(Scenario::Cut)
            .granted("A", KEY, 0.0, 1.0, 1)
            .reads("A", 2.0, 1);
        if is_seen {
            history = history.fault("A", 4.0, Fault::CutOff);
            history = history.fault("A", until, Fault::Reconnected);
        }
        history
            .writes("A", until + 1.0, 1, 1)
            .releases("A", until + 2.0, 1, RELEASED)
            .granted("B", KEY, 5.0, until + 3.0, 1)
            .judged()
    };
    assert_eq!(missing(&alone(false, 1060.0)), "cut");
    assert_eq!(missing(&alone(true, 900.0)), "cut");
    assert_eq!(missing(&alone(true, 1060.0)), "overrun", "B came too late");
}
