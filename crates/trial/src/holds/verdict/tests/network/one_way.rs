//! Verdicts on a holder whose road to its store is open in one direction only, for longer than its lease.

use super::*;

/// A has read, and one direction is cut; nobody has moved since.
fn cut(scenario: Scenario, strategy: &'static str) -> HistoryBuilder {
    let fault = match scenario {
        Scenario::CutReplies => Fault::RepliesCut,
        _ => Fault::RequestsCut,
    };
    HistoryBuilder::of(scenario)
        .with(strategy)
        .granted("A", KEY, 0.0, 1.0, 1)
        .reads("A", 2.0, 1)
        .fault("A", 4.0, fault)
}

/// B gets the lock at this time, and is done before A writes.
fn overtaken(history: HistoryBuilder, at: f64) -> HistoryBuilder {
    history
        .granted("B", KEY, 5.0, at, 1)
        .reads("B", at + 1.0, 1)
        .writes("B", at + 2.0, 1, 1)
        .releases("B", at + 3.0, 1, RELEASED)
}

fn ends(history: HistoryBuilder) -> Verdict {
    history
        .fault("A", 1060.0, Fault::Reconnected)
        .releases("A", 1070.0, 1, LOST)
        .judged()
}

const BOTH: [Scenario; 2] = [Scenario::CutReplies, Scenario::CutRequests];

#[test]
fn a_late_write_breaks_in_either_direction() {
    for scenario in BOTH {
        let late = overtaken(cut(scenario, "safe").lease_over("A", 1004.0, 1), 1005.0);
        let verdict = ends(late.writes("A", 1050.0, 1, 1));
        assert_eq!(verdict.outcome, Outcome::Broken);
        assert_eq!(
            verdict.next[0].remark,
            "counts its lease from the last renewal that its store confirmed"
        );
    }
}

/// Whoever hears nothing may have released the lock, and still believe in it.
#[test]
fn a_lock_that_is_released_within_the_lease_of_one_who_still_writes_breaks() {
    let early = overtaken(cut(Scenario::CutReplies, "watchdog"), 400.0);
    let verdict = ends(early.writes("A", 410.0, 1, 1));
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(
        verdict.because.contains("within A's lease"),
        "{}",
        verdict.because
    );
}

#[test]
fn who_stops_itself_holds_and_the_verdict_says_whether_the_open_direction_was_used() {
    for (scenario, words) in [
        (Scenario::CutReplies, "A's requests still reached its store"),
        (Scenario::CutRequests, "what its store sent still reached A"),
    ] {
        let over = cut(scenario, "watchdog");
        let used = over.fault("A", 300.0, Fault::PassedOneWay);
        for (history, is_used) in [(cut(scenario, "watchdog"), false), (used, true)] {
            let declined = What::Declined { op: 99, hold: 1 };
            let verdict = ends(overtaken(history, 1005.0).add(1050.0, "A", declined));
            held(&verdict);
            assert_eq!(verdict.witness.iter().any(|said| said == words), is_used);
            let limits = verdict.limits.unwrap();
            assert_eq!(
                limits.contains("a cut like any other"),
                !is_used,
                "{limits}"
            );
        }
    }
}

/// The requests of a lock that is renewed still arrive, so its store may keep it, and B waits until A has released it.
#[test]
fn a_store_that_still_hears_its_holder_keeps_the_lock() {
    let kept = |scenario, strategy, is_heard: bool| {
        let mut history = cut(scenario, strategy).asks("B", KEY, 5.0, 6_000);
        let op = history.events().len() as u64;
        if is_heard {
            history = history.fault("A", 300.0, Fault::PassedOneWay);
        }
        history
            .add(1_050.0, "A", What::Declined { op: 99, hold: 1 })
            .fault("A", 1_060.0, Fault::Reconnected)
            .releases("A", 1_070.0, 1, RELEASED)
            .grants("B", KEY, op, 1_071.0, 1, None)
            .judged()
    };
    let verdict = kept(Scenario::CutReplies, "watchdog", true);
    held(&verdict);
    assert_eq!(
        verdict.because,
        "A kept its lock while it was without replies: B got it only after A had released it."
    );
    assert_eq!(
        missing(&kept(Scenario::CutReplies, "watchdog", false)),
        "overrun"
    );
    assert_eq!(
        missing(&kept(Scenario::CutReplies, "safe", true)),
        "overrun"
    );
    assert_eq!(
        missing(&kept(Scenario::CutRequests, "watchdog", true)),
        "overrun"
    );
}

#[test]
fn a_cut_that_was_not_seen_or_was_too_short_shows_nothing() {
    for scenario in BOTH {
        let short = cut(scenario, "watchdog")
            .fault("A", 900.0, Fault::Reconnected)
            .writes("A", 901.0, 1, 1)
            .releases("A", 902.0, 1, RELEASED)
            .granted("B", KEY, 5.0, 903.0, 1)
            .judged();
        assert_eq!(missing(&short), "cut");
    }
}
