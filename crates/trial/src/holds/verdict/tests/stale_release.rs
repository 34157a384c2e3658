//! Verdicts on a release that comes after the end of the lease.

use super::*;

fn stale(strategy: &'static str) -> HistoryBuilder {
    HistoryBuilder::of(Scenario::StaleRelease)
        .with(strategy)
        .granted("A", KEY, 0.0, 1.0, 1)
        .reads("A", 2.0, 1)
        .writes("A", 3.0, 1, 1)
        .fault("A", 4.0, Fault::Stopped)
        .lease_over("A", 1001.0, 1)
        .granted("B", KEY, 5.0, 1003.0, 1)
        .reads("B", 1004.0, 1)
        .fault("A", 1030.0, Fault::Continued)
}

#[test]
fn a_late_release_that_changes_nothing_holds() {
    let verdict = stale("safe")
        .releases("A", 1031.0, 1, LOST)
        .tries("C", 1033.0)
        .writes("B", 1035.0, 1, 2)
        .releases("B", 1036.0, 1, RELEASED)
        .judged();
    held(&verdict);
    assert!(
        verdict
            .belief
            .text
            .unwrap()
            .starts_with("A and B both believed that they held it")
    );
}

#[test]
fn a_late_release_that_gives_anothers_lock_away_breaks() {
    let let_in = |at: f64| {
        stale("blind-delete")
            .releases("A", 1031.0, 1, ReleaseResult::Unknown)
            .granted("C", KEY, at - 1.0, at, 1)
            .reads("C", at + 1.0, 1)
            .writes("C", at + 2.0, 1, 2)
            .releases("C", at + 3.0, 1, RELEASED)
            .writes("B", at + 5.0, 1, 2)
            .releases("B", at + 6.0, 1, RELEASED)
            .judged()
    };
    let verdict = let_in(1033.0);
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "A's late release gave B's lock away: C got the lock, too. One update is lost."
    );
    assert_eq!(
        verdict.why.unwrap(),
        "The release deletes the lock that is there, without asking whose it is."
    );
    assert_eq!(verdict.evidence.len(), 3);
    assert_eq!(
        missing(&let_in(2100.0)),
        "calm",
        "B's own lease may have been over"
    );
}

#[test]
fn a_lock_that_is_granted_twice_within_the_lease_is_not_excused_by_the_pause() {
    let verdict = HistoryBuilder::of(Scenario::StaleRelease)
        .granted("A", KEY, 0.0, 1.0, 1)
        .fault("A", 4.0, Fault::Stopped)
        .granted("B", KEY, 5.0, 6.0, 1)
        .fault("A", 1030.0, Fault::Continued)
        .releases("A", 1031.0, 1, LOST)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(verdict.because, "Two holders at once, within A's lease.");
}

#[test]
fn a_late_release_is_shown_harmless_only_while_the_other_holds_the_lock() {
    let unanswered = stale("safe").tries("C", 1033.0).looks(1040.0, true, None);
    assert_eq!(
        missing(&unanswered.judged()),
        "answers",
        "A has not released"
    );
    let busy = |strategy, refused: f64| {
        let history = stale(strategy).releases("A", 1031.0, 1, LOST);
        let history = history.tries("C", refused).writes("B", 2035.0, 1, 2);
        history.releases("B", 2036.0, 1, RELEASED).judged()
    };
    held(&busy("safe", 1999.0));
    assert_eq!(missing(&busy("safe", 2001.0)), "overrun", "B's own lease");
    held(&busy("watchdog", 2001.0));
    let gone = stale("safe")
        .writes("B", 1030.5, 1, 2)
        .releases("B", 1030.6, 1, RELEASED)
        .releases("A", 1031.0, 1, LOST)
        .tries("C", 1033.0)
        .judged();
    assert_eq!(missing(&gone), "overrun", "B has released it before C came");
}

#[test]
fn without_a_pause_or_an_overrun_a_late_release_is_not_tested() {
    let unpaused = HistoryBuilder::of(Scenario::StaleRelease).granted("A", KEY, 0.0, 1.0, 1);
    assert_eq!(missing(&unpaused.judged()), "pause");
    let alone = HistoryBuilder::of(Scenario::StaleRelease)
        .granted("A", KEY, 0.0, 1.0, 1)
        .fault("A", 4.0, Fault::Stopped)
        .fault("A", 1030.0, Fault::Continued);
    assert_eq!(missing(&alone.judged()), "overrun");
}

/// A trial that came to its end is not said to have stopped on the way.
#[test]
fn what_is_missing_is_an_answer_only_if_a_request_failed() {
    let unseen = stale("safe").tries("C", 1033.0);
    let verdict = unseen.clone().judged();
    assert_eq!(missing(&verdict), "answers");
    assert!(
        verdict
            .because
            .ends_with("the events that would acquit the lock were not seen."),
        "{}",
        verdict.because
    );
    let failed = What::Failed {
        op: 99,
        definite: true,
        message: "no answer".into(),
    };
    let verdict = unseen.add(1034.0, "A", failed).judged();
    assert!(
        verdict
            .because
            .ends_with("the trial did not come to its end."),
        "{}",
        verdict.because
    );
    assert_eq!(verdict.notes, ["A: no answer"]);
}
