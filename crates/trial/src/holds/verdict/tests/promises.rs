//! What every lock promises is judged in every scenario, and nobody is accused wrongly by it.

use super::*;
use crate::history::Change;
use crate::protocol::Claims;

#[test]
fn two_live_holders_within_a_lease_break_a_lock_in_every_scenario() {
    for scenario in Scenario::ALL {
        let verdict = HistoryBuilder::of(scenario)
            .ttl(2_000)
            .granted("A", KEY, 0.0, 1.0, 1)
            .granted("B", KEY, 5.0, 6.0, 1)
            .fault("A", 306.0, Fault::Killed)
            .releases("B", 310.0, 1, RELEASED)
            .judged();
        assert_eq!(verdict.outcome, Outcome::Broken, "{scenario:?}");
        let because = verdict.because;
        assert!(
            because.starts_with("Two holders at once"),
            "{scenario:?}: {because}"
        );
    }
}

#[test]
fn a_crash_with_two_holders_says_whose_lease_was_running() {
    let verdict = HistoryBuilder::of(Scenario::Crash)
        .ttl(2_000)
        .granted("A", KEY, 0.0, 1.0, 1)
        .granted("B", KEY, 5.0, 6.0, 1)
        .fault("A", 306.0, Fault::Killed)
        .releases("B", 310.0, 1, RELEASED)
        .judged();
    assert_eq!(verdict.because, "Two holders at once, within A's lease.");
    assert_eq!(
        verdict.why.unwrap(),
        "B got the lock within A's lease, which ran for at least 1,994.0 ms more."
    );
    assert_eq!(
        verdict.belief.text.unwrap(),
        "two holders for 300.0 ms: B from 6.0 to 310.0, A from 1.0 to 306.0 ms"
    );
}

#[test]
fn a_lock_that_was_released_and_is_not_granted_is_stuck_in_every_scenario() {
    for scenario in Scenario::ALL {
        let verdict = HistoryBuilder::of(scenario)
            .ttl(2_000)
            .granted("A", KEY, 8.0, 8.6, 1)
            .reads("A", 8.8, 1)
            .writes("A", 3008.5, 1, 1)
            .releases("A", 3008.7, 1, RELEASED)
            .waits_in_vain("B", 20.0, 9100.0)
            .judged();
        assert_eq!(verdict.outcome, Outcome::Stuck, "{scenario:?}");
        assert_eq!(
            verdict.because,
            "Nobody has the lock, and 6,091.0 ms (3 × TTL) later B still waits for it."
        );
        assert_eq!(
            shown(&verdict),
            [
                "#8 A's release is done: nobody has the lock",
                "#10 B still waits, and gives up",
            ]
        );
        assert_eq!(
            verdict.why.unwrap(),
            "A was told that its release is done, and B did not get the lock."
        );
    }
}

#[test]
fn a_lock_that_nobody_ever_had_and_nobody_gets_is_stuck() {
    let verdict = HistoryBuilder::of(Scenario::Deadlock)
        .ttl(3_000)
        .granted("A", KEY, 0.5, 0.9, 1)
        .asks("A", OTHER, 51.0, 9_020)
        .refuses("A", 3, 9071.0)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Stuck);
    assert_eq!(
        verdict.why.unwrap(),
        "No process was ever granted this lock, and A did not get it."
    );
}

#[test]
fn a_lock_that_somebody_may_have_is_not_stuck() {
    let failed = What::Failed {
        op: 1,
        definite: false,
        message: "no answer".into(),
    };
    let unknown = HistoryBuilder::of(Scenario::Deadlock)
        .asks("B", KEY, 0.0, 0)
        .add(1.0, "B", failed)
        .waits_in_vain("A", 2.0, 4000.0);
    assert_eq!(unknown.judged().outcome, Outcome::Inconclusive);
    // The lab let B go on only when its wait was over: B had no time to notice.
    let asleep = HistoryBuilder::of(Scenario::LostWakeup)
        .granted("A", KEY, 0.5, 1.0, 1)
        .asks("B", KEY, 2.0, 3_100)
        .fault("B", 3.0, Fault::Stopped)
        .releases("A", 5.0, 1, RELEASED)
        .fault("B", 3_100.0, Fault::Continued)
        .refuses("B", 3, 3_110.0);
    assert_eq!(asleep.judged().outcome, Outcome::Inconclusive);
    // The lab read the refusal late: B had been told to wait for one TTL only.
    let read_late = HistoryBuilder::of(Scenario::LostWakeup)
        .granted("A", KEY, 0.5, 1.0, 1)
        .asks("B", KEY, 2.0, 1_000)
        .releases("A", 5.0, 1, RELEASED)
        .refuses("B", 3, 3_110.0);
    assert_eq!(read_late.judged().outcome, Outcome::Inconclusive);
}

fn gone(scenario: Scenario) -> HistoryBuilder {
    HistoryBuilder::of(scenario).granted("A", KEY, 0.0, 1.0, 1)
}

#[test]
fn a_lock_that_is_gone_within_its_lease_breaks_the_promise() {
    for scenario in Scenario::ALL {
        let verdict = gone(scenario).releases("A", 100.0, 1, LOST).judged();
        assert_eq!(verdict.outcome, Outcome::Broken, "{scenario:?}");
        assert_eq!(
            verdict.because,
            "A's lock was gone within its lease: 100.3 ms after it was requested, its release found it lost."
        );
        assert_eq!(
            shown(&verdict),
            [
                "#2 A is granted product_A",
                "#4 A's release: no longer the owner"
            ]
        );
        assert_eq!(
            verdict.why.unwrap(),
            "Nobody else was granted it or released it meanwhile: the lock itself lost it."
        );
    }
}

#[test]
fn who_took_the_lock_away_is_named_if_the_events_show_it() {
    let verdict = HistoryBuilder::of(Scenario::DeadlockSorted)
        .granted("B", KEY, 0.0, 1.0, 1)
        .granted("A", KEY, 1099.0, 1100.0, 1)
        .releases("B", 1200.0, 1, ReleaseResult::Unknown)
        .releases("A", 1300.0, 1, LOST)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.why.unwrap(),
        "B's release came while A held the lock, and only that can have freed it."
    );
}

#[test]
fn a_release_that_finds_the_lock_lost_is_excused_by_the_lease_the_store_or_a_word_before() {
    let late = gone(Scenario::DeadlockSorted).releases("A", 1000.0, 1, LOST);
    let told = gone(Scenario::DeadlockSorted)
        .add(50.0, "A", What::Lost { hold: 1 })
        .releases("A", 100.0, 1, LOST);
    let valid = gone(Scenario::DeadlockSorted)
        .valid_for(90.0)
        .releases("A", 100.0, 1, LOST);
    let store = gone(Scenario::Failover)
        .server("primary", 50.0, Change::Killed)
        .releases("A", 100.0, 1, LOST);
    for history in [late, told, valid, store] {
        let verdict = history.judged();
        assert_eq!(
            verdict.outcome,
            Outcome::Inconclusive,
            "{}",
            verdict.because
        );
    }
}

/// The client may have asked again because the answer was slow, when its first request had released the lock.
#[test]
fn a_release_that_is_answered_late_may_be_that_to_a_second_request() {
    let answered = |at: f64, disturbed: fn(HistoryBuilder) -> HistoryBuilder| {
        let history = gone(Scenario::DeadlockSorted);
        let (op, hold) = (history.events().len() as u64 + 1, 1);
        let key: String = KEY.into();
        let release = What::Release {
            op,
            key: key.clone(),
            hold,
        };
        let released = What::Released {
            op,
            key,
            hold,
            outcome: LOST,
        };
        let history = disturbed(history.add(50.0, "A", release));
        history.add(at, "A", released).judged().outcome
    };
    assert_eq!(answered(299.0, |calm| calm), Outcome::Broken);
    assert_eq!(answered(301.0, |slow| slow), Outcome::Inconclusive);
    let stalled = |history: HistoryBuilder| history.stalls(60.0, 70.0);
    assert_eq!(answered(100.0, stalled), Outcome::Inconclusive);
    let stopped = |history: HistoryBuilder| {
        history
            .fault("A", 60.0, Fault::Stopped)
            .fault("A", 70.0, Fault::Continued)
    };
    assert_eq!(answered(100.0, stopped), Outcome::Inconclusive);
}

#[test]
fn a_stall_of_the_lab_does_not_accuse_a_plain_lease() {
    // The lab meant to release A's lock within its lease, and stalled instead.
    let history = HistoryBuilder::of(Scenario::LostWakeup)
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
        .granted("B", KEY, 3.0, 1002.0, 1)
        .reads("B", 1003.0, 1)
        .writes("A", 1200.0, 1, 1)
        .releases("A", 1201.0, 1, LOST);
    assert_eq!(missing(&history.judged()), "calm");
    let crossed = HistoryBuilder::of(Scenario::Deadlock)
        .granted("A", KEY, 0.5, 0.9, 1)
        .granted("B", OTHER, 0.6, 1.0, 1)
        .granted("A", OTHER, 1200.0, 1201.0, 2)
        .reads("A", 1202.0, 1)
        .releases_of("B", OTHER, 1210.0, 1, LOST);
    assert_eq!(missing(&crossed.judged()), "calm", "no deadlock came about");
}

#[test]
fn a_lock_that_comes_long_after_it_was_free_is_not_said_to_have_been_woken() {
    let history = HistoryBuilder::of(Scenario::LostWakeup)
        .granted("A", KEY, 0.5, 1.0, 1)
        .asks("B", KEY, 4.0, 3_100)
        .releases("A", 5.0, 1, RELEASED);
    let late = history.clone().grants("B", KEY, 3, 2_100.0, 1, None);
    let verdict = late.judged();
    assert_eq!(missing(&verdict), "calm");
    assert!(
        verdict
            .because
            .starts_with("B got the lock only 2,094.7 ms after it was free"),
        "{}",
        verdict.because
    );
    held(&history.grants("B", KEY, 3, 1_900.0, 1, None).judged());
}

#[test]
fn a_single_try_that_takes_long_is_reported() {
    let history = HistoryBuilder::of(Scenario::Crash)
        .granted("A", KEY, 0.0, 1.0, 1)
        .asks("B", KEY, 2.0, 0)
        .refuses("B", 3, 1_702.0);
    assert_eq!(
        history.judged().notes,
        ["B was asked not to wait (wait_ms 0), and its answer took 1,700.0 ms"]
    );
    let quick = HistoryBuilder::of(Scenario::Crash).tries("B", 900.0);
    assert!(quick.judged().notes.is_empty());
}

#[test]
fn a_recovery_that_takes_as_long_as_claimed_is_not_stuck() {
    let claims = Claims {
        recovery_ms: Some(10_000),
        ..Claims::PLAIN
    };
    let refused = |until: f64| {
        crash()
            .promising(claims)
            .tries("B", 312.9)
            .waits_in_vain("B", 313.0, until)
            .judged()
    };
    assert_eq!(missing(&refused(6_400.0)), "answers", "it has more time");
    assert_eq!(refused(15_400.0).outcome, Outcome::Stuck);
    let recovered = crash()
        .promising(claims)
        .tries("B", 312.9)
        .granted("B", KEY, 313.0, 9_000.0, 1);
    held(&recovered.judged());
}

#[test]
fn a_purchase_without_stock_that_keeps_its_lock_until_the_ttl_breaks_the_promise() {
    let bought = |at: f64, waited_ms: f64| {
        HistoryBuilder::of(Scenario::ShortStock)
            .add(0.0, "", What::StockSet { units: 0 })
            .buys("A", 0.5, 1.0, PurchaseOutcome::NoStock)
            .add(1.1, "", What::StockSet { units: 1 })
            .buys("B", 1.2, 2.0, PurchaseOutcome::Busy)
            .buys("B", 2.1, at, PurchaseOutcome::Sold)
            .waited(waited_ms)
            .judged()
    };
    let verdict = bought(1003.0, 1000.0);
    assert_eq!(verdict.outcome, Outcome::Broken, "{}", verdict.because);
    assert_eq!(
        shown(&verdict),
        [
            "#3 A gets its turn and finds nothing left",
            "#6 B finds the lock taken",
            "#8 B buys, having waited 1,000.0 ms for the lock",
        ]
    );
    assert_eq!(
        verdict.why.unwrap(),
        "A answered and did not release its lock: B got it 1,002.5 ms after A had asked for it, when the lease of 1,000.0 ms was over."
    );
    assert_eq!(
        missing(&bought(1003.0, 3.0)),
        "calm",
        "the lab may have stalled"
    );
    held(&bought(30.0, 3.0));
}

/// Both take one lock, say how long it is valid, and get the lock when the lease is over. A knows and stops.
fn valid_until(valid_ms: Option<f64>) -> HistoryBuilder {
    let valid = |history: HistoryBuilder| match valid_ms {
        Some(ms) => history.valid_for(ms),
        None => history,
    };
    let history = HistoryBuilder::of(Scenario::Deadlock).ttl(3_000);
    let history = valid(history.granted("A", KEY, 0.5, 0.9, 1));
    valid(history.granted("B", OTHER, 0.6, 1.0, 1))
        .asks("A", OTHER, 51.1, 9_020)
        .asks("B", KEY, 51.2, 9_020)
        .grants("B", KEY, 6, 3002.5, 2, None)
        .grants("A", OTHER, 5, 3002.8, 2, None)
        .add(3003.0, "A", What::Declined { op: 40, hold: 1 })
        .reads("B", 3003.2, 2)
        .writes("B", 3053.0, 2, 1)
        .releases("B", 3053.9, 2, RELEASED)
        .releases_of("A", OTHER, 3053.9, 2, RELEASED)
        .releases_of("B", OTHER, 3053.9, 1, LOST)
}

#[test]
fn belief_ends_with_the_validity_that_was_told() {
    let verdict = valid_until(Some(3_000.0)).judged();
    held(&verdict);
    assert_eq!(
        verdict.because,
        "The lease ended the deadlock after 2,951.3 ms: A lost its lock and knew, B went on."
    );
    assert_eq!(verdict.belief.code, Belief::NoOverlap);
    assert_eq!(valid_until(None).judged().outcome, Outcome::Broken);
}

#[test]
fn a_step_after_the_validity_shows_that_its_process_believes_on() {
    let works_on = HistoryBuilder::of(Scenario::TtlEdge)
        .granted("A", KEY, 0.0, 1.0, 1)
        .valid_for(900.0)
        .granted("B", KEY, 2.0, 1001.0, 1)
        .reads("A", 1100.0, 1)
        .releases("A", 1200.0, 1, LOST)
        .releases("B", 1300.0, 1, RELEASED);
    assert_eq!(works_on.judged().outcome, Outcome::Broken);
    let facts = works_on.facts();
    assert_eq!(facts.holds[0].believed_until_ns, 1_099_800_000);
}

#[test]
fn who_says_that_its_lock_is_lost_before_the_lease_ends_and_stops_holds() {
    let verdict = HistoryBuilder::of(Scenario::TtlEdge)
        .ttl(2_000)
        .granted("A", KEY, 8.0, 8.6, 1)
        .reads("A", 8.8, 1)
        .add(1500.0, "A", What::Lost { hold: 1 })
        .granted("B", KEY, 20.0, 1600.0, 1)
        .reads("B", 1601.0, 1)
        .writes("B", 1602.0, 1, 1)
        .releases("B", 1603.0, 1, RELEASED)
        .add(3009.4, "A", What::Declined { op: 40, hold: 1 })
        .releases("A", 3009.7, 1, LOST)
        .judged();
    held(&verdict);
    assert_eq!(
        verdict.witness,
        [
            "A said at 1,500.0 ms that its lock was lost, 508.0 ms before its lease could end, and did not write; B was granted it at 1,600.0 ms"
        ]
    );
}

#[test]
fn a_lock_that_claims_to_last_and_does_not_is_not_acquitted_for_stopping_in_time() {
    let stops_in_time = |claims: Claims| {
        HistoryBuilder::of(Scenario::TtlEdge)
            .promising(claims)
            .granted("A", KEY, 0.0, 1.0, 1)
            .reads("A", 2.0, 1)
            .add(990.0, "A", What::Lost { hold: 1 })
            .granted("B", KEY, 3.0, 1_010.0, 1)
            .reads("B", 1_011.0, 1)
            .writes("B", 1_012.0, 1, 1)
            .releases("B", 1_013.0, 1, RELEASED)
            .add(3_000.0, "A", What::Declined { op: 40, hold: 1 })
            .releases("A", 3_001.0, 1, LOST)
            .judged()
    };
    held(&stops_in_time(Claims::PLAIN));
    let renewed = Claims {
        keep_alive: true,
        ..Claims::PLAIN
    };
    assert_eq!(missing(&stops_in_time(renewed)), "kept");
    let untimed = Claims {
        untimed: true,
        ..Claims::PLAIN
    };
    assert_eq!(missing(&stops_in_time(untimed)), "kept");
}
