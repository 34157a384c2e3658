//! Sessions that are older than the request for their lock, and what they missed before it.

use super::*;

/// Holds of A and B, of a session in ZooKeeper, B's beyond a TTL of A's request. The lab stalled before A asked, or did not.
pub(super) fn met_later(scenario: Scenario, stalled: bool) -> HistoryBuilder {
    let history = of_session(scenario).at_store("zk");
    let history = if stalled {
        history.stalls(1_200.0, 1_700.0)
    } else {
        history
    };
    history
        .granted("A", KEY, 2_000.0, 2_001.0, 1)
        .reads("A", 2_002.0, 1)
        .granted("B", KEY, 2_003.0, 3_100.0, 1)
        .reads("B", 3_101.0, 1)
        .writes("B", 3_102.0, 1, 1)
        .writes("A", 3_103.0, 1, 1)
}

/// The lab stalled shortly before A asked, so A's session, which is older, may end soon after that.
#[test]
fn a_session_that_missed_something_before_the_request_may_end_during_long_work() {
    let verdict = met_later(Scenario::TtlEdge, false).judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    let verdict = met_later(Scenario::TtlEdge, true).judged();
    assert_eq!(missing(&verdict), "calm");
}

#[test]
fn a_session_that_missed_something_before_the_request_may_end_while_a_clock_is_wrong() {
    let verdict = met_later(Scenario::ClientClock, false).judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    let verdict = met_later(Scenario::ClientClock, true).judged();
    assert_eq!(missing(&verdict), "calm");
}

#[test]
fn a_session_that_missed_something_before_the_request_may_end_in_a_storm() {
    // Twice: once may be the machine anyway.
    let met = |history: HistoryBuilder, [one, other]: [&str; 2], at: f64| {
        history
            .granted(one, KEY, at, at + 1.0, 1)
            .granted(other, KEY, at + 1_100.0, at + 1_101.0, 1)
            .releases(other, at + 1_150.0, 1, RELEASED)
            .releases(one, at + 1_200.0, 1, RELEASED)
    };
    let twice = |history: HistoryBuilder| {
        let once = met(history, ["A", "B"], 2_000.0);
        met(once, ["C", "D"], 6_000.0).judged().outcome
    };
    let storm = || of_session(Scenario::Storm).at_store("zk");
    assert_eq!(twice(storm()), Outcome::Broken);
    assert_ne!(twice(storm().stalls(1_200.0, 1_700.0)), Outcome::Broken);
    let stopped = storm()
        .fault("A", 1_200.0, Fault::Stopped)
        .fault("A", 1_700.0, Fault::Continued);
    assert_ne!(twice(stopped), Outcome::Broken);
    // A file hears nothing of its processes, and misses nothing.
    let of_file = of_session(Scenario::Storm).stalls(1_200.0, 1_700.0);
    assert_eq!(twice(of_file), Outcome::Broken);
}

/// B's session may be older than its request, too.
#[test]
fn a_session_of_whoever_came_after_the_pause_may_end_while_the_lab_stands_still() {
    let let_in = |stalled: bool| {
        let history = of_session(Scenario::StaleRelease)
            .at_store("zk")
            .granted("A", KEY, 0.0, 1.0, 1)
            .fault("A", 4.0, Fault::Stopped)
            .granted("B", KEY, 5.0, 1_005.0, 1)
            .reads("B", 1_006.0, 1)
            .fault("A", 1_030.0, Fault::Continued)
            .releases("A", 1_031.0, 1, LOST);
        let history = if stalled {
            history.stalls(1_100.0, 1_800.0)
        } else {
            history
        };
        history
            .granted("C", KEY, 1_899.0, 1_900.0, 1)
            .reads("C", 1_901.0, 1)
            .releases("B", 1_910.0, 1, RELEASED)
            .judged()
    };
    assert_eq!(let_in(false).outcome, Outcome::Broken);
    assert_eq!(missing(&let_in(true)), "calm");
}

/// Behind a session, a wait may come to its end together with that session, and not because it used up a lease.
#[test]
fn a_session_that_ends_while_the_lab_stands_still_is_not_used_up_by_a_wait() {
    let let_in = |stalled: bool| {
        let history = of_session(Scenario::Deadline)
            .at_store("zk")
            .granted("A", KEY, 2_000.0, 2_001.0, 1)
            .asks("B", KEY, 2_010.0, 8_000)
            .releases("A", 2_800.0, 1, RELEASED)
            .grants("B", KEY, 3, 2_810.0, 1, None);
        let history = if stalled {
            history.stalls(2_900.0, 3_200.0)
        } else {
            history
        };
        history
            .granted("C", KEY, 3_300.0, 3_301.0, 1)
            .releases("B", 3_400.0, 1, RELEASED)
            .judged()
    };
    assert_eq!(let_in(false).outcome, Outcome::Broken);
    assert_eq!(missing(&let_in(true)), "calm");
}
