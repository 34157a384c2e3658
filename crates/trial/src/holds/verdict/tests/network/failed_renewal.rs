//! Verdicts on a lock that claims to renew its lease, when one renewal fails.

use super::*;
use crate::protocol::Claims;

const KEPT_ALIVE: Claims = Claims {
    keep_alive: true,
    ..Claims::PLAIN
};

/// A renewal fails at 500 ms, on a lease of two seconds.
fn failed(fault: Fault) -> HistoryBuilder {
    HistoryBuilder::of(Scenario::FailedRenewal)
        .promising(KEPT_ALIVE)
        .ttl(2_000)
        .granted("A", KEY, 0.0, 1.0, 1)
        .fault("A", 500.0, fault)
}

/// B takes a lock of its own, which takes this long.
fn beside(history: HistoryBuilder, took: f64) -> HistoryBuilder {
    history
        .granted("B", OTHER, 600.0, 600.0 + took, 1)
        .releases_of("B", OTHER, 1_200.0, 1, RELEASED)
}

#[test]
fn whoever_renews_again_holds() {
    for (fault, begins) in [
        (Fault::ReplyLost, "the reply to a request of A's was lost"),
        (Fault::AnsweredReadOnly, "a renewal of A's met -READONLY"),
    ] {
        let verdict = beside(failed(fault), 1.0)
            .tries("B", 4_000.0)
            .releases("A", 5_000.0, 1, RELEASED)
            .judged();
        held(&verdict);
        assert!(verdict.witness[0].starts_with(begins), "{verdict:#?}");
    }
}

#[test]
fn whoever_loses_its_lock_with_one_renewal_breaks() {
    let told = |history: HistoryBuilder| history.add(2_100.0, "A", What::Lost { hold: 1 });
    let taken = |history: HistoryBuilder| history.granted("B", KEY, 2_100.0, 2_101.0, 2);
    for lost in [told as fn(_) -> _, taken] {
        let calm = lost(beside(failed(Fault::ReplyLost), 1.0));
        let verdict = calm.releases("A", 5_000.0, 1, LOST).judged();
        assert_eq!(verdict.outcome, Outcome::Broken, "{verdict:#?}");
        assert_eq!(verdict.evidence[0].what, "reply_lost");
        let stalled = failed(Fault::ReplyLost).stalls(900.0, 1_300.0);
        for excused in [
            beside(stalled, 1.0),
            beside(failed(Fault::ReplyLost), 501.0),
            beside(failed(Fault::ReplyLost), 1.0).ttl(1_900),
        ] {
            let verdict = lost(excused).releases("A", 5_000.0, 1, LOST).judged();
            assert_eq!(missing(&verdict), "calm");
        }
    }
}

#[test]
fn without_a_failed_renewal_or_a_late_refusal_nothing_is_shown() {
    let early = beside(failed(Fault::ReplyLost), 1.0).tries("B", 2_400.0);
    let early = early.releases("A", 5_000.0, 1, RELEASED).judged();
    assert_eq!(early.outcome, Outcome::Inconclusive);
    let none = HistoryBuilder::of(Scenario::FailedRenewal)
        .promising(KEPT_ALIVE)
        .ttl(2_000)
        .granted("A", KEY, 0.0, 1.0, 1)
        .tries("B", 4_000.0)
        .releases("A", 5_000.0, 1, RELEASED);
    assert_eq!(missing(&none.judged()), "renewal");
    let plain = beside(failed(Fault::ReplyLost), 1.0).promising(Claims::PLAIN);
    assert_eq!(missing(&plain.judged()), "claim");
}

/// An error shows that the lease was not extended, so what was left when it came must have been enough.
#[test]
fn whoever_renews_late_had_no_time_for_another() {
    let lost = |at: f64| {
        let history = HistoryBuilder::of(Scenario::FailedRenewal)
            .promising(KEPT_ALIVE)
            .ttl(2_000)
            .granted("A", KEY, 0.0, 1.0, 1);
        let history = beside(history, 1.0).fault("A", at, Fault::AnsweredLoading);
        let history = history.granted("B", KEY, 2_100.0, 2_101.0, 2);
        history.releases("A", 5_000.0, 1, LOST).judged()
    };
    assert_eq!(lost(800.0).outcome, Outcome::Broken);
    assert_eq!(missing(&lost(1_300.0)), "time");
}

/// The first hold is kept over a failed renewal. Nothing happens to the second one, and B gets its lock all the same.
#[test]
fn whoever_stops_renewing_without_a_fault_is_not_acquitted_by_an_earlier_hold() {
    let kept = beside(failed(Fault::ReplyLost), 1.0)
        .tries("B", 4_000.0)
        .releases("A", 5_000.0, 1, RELEASED)
        .granted("A", KEY, 6_000.0, 6_001.0, 2);
    let taken = |history: HistoryBuilder| {
        let history = history.granted("B", KEY, 8_100.0, 8_101.0, 2);
        history.releases("A", 9_000.0, 2, LOST).judged()
    };
    let verdict = taken(kept.clone());
    assert_eq!(verdict.outcome, Outcome::Broken, "{verdict:#?}");
    assert_eq!(
        verdict.because,
        "A lost a lock that it claims to renew, and nothing had disturbed it."
    );
    assert_eq!(
        missing(&taken(kept.clone().stalls(6_500.0, 6_900.0))),
        "calm"
    );
    let told = kept.add(8_100.0, "A", What::Lost { hold: 2 });
    assert_eq!(
        missing(&told.releases("A", 9_000.0, 2, RELEASED).judged()),
        "loss"
    );
}
