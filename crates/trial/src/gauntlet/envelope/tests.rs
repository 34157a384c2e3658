//! Tests of the search for the edge.

use super::*;
use crate::history::{History, What};
use crate::holds::by_hand::{HistoryBuilder, KEY};
use crate::protocol::{Claims, ReleaseResult};
use crate::strategy;
use crate::verdict::Verdict;

fn search() -> Search {
    Search::new(&Trial::new(
        Scenario::Pause,
        strategy::find("safe").unwrap(),
        7,
    ))
}

/// Searches the edge of a lock that breaks at this length, and shows nothing in some runs.
fn search_for(breaks_at_ms: u64, shows_nothing: impl Fn(usize) -> bool) -> Search {
    let mut search = search();
    while let Some(asked_ms) = search.next_ms() {
        assert!(search.probes.len() < 50, "{search:?}");
        let seen = match asked_ms {
            _ if shows_nothing(search.probes.len()) => EdgeSeen::Nothing,
            asked_ms if asked_ms < breaks_at_ms => EdgeSeen::Held,
            _ => EdgeSeen::Broke,
        };
        search.probes.push(Probe {
            asked_ms,
            lasted_ns: Some(asked_ms * 1_000_000),
            seen,
        });
    }
    search
}

#[test]
fn the_edge_is_found_wherever_it_is() {
    for edge_ms in [60, 120, 333, 499, 500, 501, 700, 749] {
        let search = search_for(edge_ms, |_| false);
        let (held, broke) = (search.held().unwrap(), search.broke().unwrap());
        assert!(held.asked_ms < edge_ms && edge_ms <= broke.asked_ms);
        assert!(broke.asked_ms - held.asked_ms <= 5, "{search:?}");
        assert!(search.probes.len() <= 10, "{search:?}");
    }
}

#[test]
fn a_fault_that_lasted_longer_than_it_should_does_not_move_the_edge() {
    let probe = |asked_ms, lasted_ms: u64, seen| Probe {
        asked_ms,
        lasted_ns: Some(lasted_ms * 1_000_000),
        seen,
    };
    let mut search = search();
    search.probes = vec![
        probe(550, 550, EdgeSeen::Broke),
        probe(497, 497, EdgeSeen::Held),
        probe(501, 940, EdgeSeen::Broke),
        probe(499, 555, EdgeSeen::Held),
    ];
    assert_eq!(
        search.in_words(),
        "held up to a pause of 497.0 ms, broke at 550.0 ms (TTL 500.0 ms), 4 runs"
    );
}

#[test]
fn a_lock_that_withstands_everything_is_tried_once_with_the_longest_fault() {
    let search = search_for(u64::MAX, |_| false);
    assert_eq!(
        search.in_words(),
        "held up to a pause of 750.0 ms, the longest that was tried (TTL 500.0 ms), 1 run"
    );
}

#[test]
fn a_lock_that_withstands_nothing_is_told_so() {
    let search = search_for(0, |_| false);
    assert_eq!(
        search.in_words(),
        "broke at a pause of 50.0 ms, the shortest that was tried (TTL 500.0 ms), 2 runs"
    );
}

#[test]
fn runs_that_show_nothing_are_repeated_and_counted() {
    let search = search_for(500, |run| run % 2 == 1);
    assert!(search.in_words().starts_with("held up to a pause of "));
    assert!(search.in_words().contains(" ms, broke at "));
    assert!(search.in_words().ends_with("showed nothing"), "{search:?}");
    assert!(!search.gave_up());
    let hopeless = search_for(500, |run| run >= 2);
    assert!(hopeless.gave_up());
    assert_eq!(
        hopeless.in_words(),
        "held up to a pause of 50.0 ms, broke at 750.0 ms; then the search ended, because nothing was seen (TTL 500.0 ms), 5 runs, of which 3 showed nothing"
    );
}

fn probe(history: &HistoryBuilder, scenario: Scenario, asked_ms: u64) -> Probe {
    let trial = Trial::new(scenario, strategy::find("safe").unwrap(), 7);
    let history = History {
        header: history.header(),
        events: history.events().to_vec(),
    };
    Probe::of(&Judged::of(&trial, history), asked_ms)
}

/// A is stopped for 700 ms of its lease of a second, writes and releases; B comes before that, or after it.
fn paused(b_comes_at: f64) -> HistoryBuilder {
    HistoryBuilder::of(Scenario::Pause)
        .granted("A", KEY, 0.0, 1.0, 1)
        .reads("A", 2.0, 1)
        .fault("A", 3.0, Fault::Stopped)
        .fault("A", 703.0, Fault::Continued)
        .granted("B", KEY, 500.0, b_comes_at, 1)
        .writes("A", 1_010.0, 1, 1)
        .releases("A", 1_020.0, 1, ReleaseResult::Released)
}

#[test]
fn a_run_in_doubt_shows_nothing() {
    let calm = probe(&paused(1_030.0), Scenario::Pause, 700);
    assert_eq!(calm.seen, EdgeSeen::Held);
    // Something went wrong after the lease, and the lab may have been the reason.
    let claims = Claims {
        keep_alive: true,
        ..Claims::PLAIN
    };
    let stalled = HistoryBuilder::of(Scenario::TtlEdge)
        .promising(claims)
        .granted("A", KEY, 0.0, 1.0, 1)
        .reads("A", 2.0, 1)
        .stalls(10.0, 1_100.0)
        .granted("B", KEY, 500.0, 1_200.0, 1)
        .writes("A", 3_000.0, 1, 1)
        .releases("A", 3_010.0, 1, ReleaseResult::AlreadyLost);
    let stalled = probe(&stalled, Scenario::TtlEdge, 3_000);
    assert_eq!(stalled.seen, EdgeSeen::Nothing);
}

/// The same run as if it had lacked something else.
fn seen_without(what: Lack) -> EdgeSeen {
    let trial = Trial::new(Scenario::Pause, strategy::find("safe").unwrap(), 7);
    let calm = paused(1_030.0);
    let history = History {
        header: calm.header(),
        events: calm.events().to_vec(),
    };
    let mut judged = Judged::of(&trial, history);
    judged.verdict = Verdict::inconclusive("", what, "");
    Probe::of(&judged, 700).seen
}

#[test]
fn only_what_a_fault_lacks_that_was_too_short_shows_that_a_lock_held() {
    for what in [
        Lack::Overrun,
        Lack::Contention,
        Lack::Pause,
        Lack::Cut,
        Lack::Delay,
        Lack::Grant,
    ] {
        assert_eq!(seen_without(what), EdgeSeen::Held, "{what:?}");
    }
    for what in [
        Lack::Answers,
        Lack::Awake,
        Lack::Calm,
        Lack::Clock,
        Lack::Kept,
        Lack::Ready,
        Lack::Scenario,
        Lack::Traffic,
    ] {
        assert_eq!(seen_without(what), EdgeSeen::Nothing, "{what:?}");
    }
}

#[test]
fn a_lock_that_goes_around_the_proxy_shows_nothing() {
    let around = HistoryBuilder::of(Scenario::SlowReplies)
        .fault("A", 0.5, Fault::Slowed)
        .granted("A", KEY, 1.0, 2.2, 1)
        .reads("A", 3.0, 1)
        .writes("A", 4.0, 1, 1)
        .releases("A", 5.0, 1, ReleaseResult::Released)
        .granted("B", KEY, 6.0, 7.0, 1);
    // A grant that was to be learned after a second was there after 1.2 ms.
    assert_eq!(
        probe(&around, Scenario::SlowReplies, 1_000).seen,
        EdgeSeen::Nothing
    );
    assert_eq!(
        probe(&around, Scenario::SlowReplies, 2).seen,
        EdgeSeen::Held
    );
    let unseen = around.add(2.1, "A", What::Unseen { hold: 1 });
    assert_eq!(
        probe(&unseen, Scenario::SlowReplies, 2).seen,
        EdgeSeen::Nothing
    );
}

#[test]
fn a_run_without_the_fault_shows_nothing() {
    let trial = Trial::new(Scenario::Pause, strategy::find("safe").unwrap(), 7);
    let history = History {
        header: trial.header(),
        events: Vec::new(),
    };
    let probe = Probe::of(&Judged::of(&trial, history), 480);
    assert_eq!(probe, Probe::without_result(480));
}
