//! Verdicts on a lock that the lab takes away at the store: is its holder told, in time, and for good?

use super::*;
use crate::history::Change;
use crate::protocol::Claims;

/// A lock that is renewed and claims to tell a loss within a second. With the slack, that is two seconds.
const TELLS: Claims = Claims {
    keep_alive: true,
    tells_loss_ms: Some(1_000),
    ..Claims::OWNED
};

/// A holds the lock, and B is refused. Then the store loses it, and B gets it and writes.
fn robbed(claims: Claims) -> HistoryBuilder {
    HistoryBuilder::of(Scenario::TakenAway)
        .promising(claims)
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
        .tries("B", 5.0)
        .server("store", 10.0, Change::TakenAway)
        .looks_on("store", 12.0, false)
        .granted("B", KEY, 13.0, 14.0, 1)
        .reads("B", 15.0, 1)
        .writes("B", 40.0, 1, 1)
}

fn says_lost(history: HistoryBuilder, at: f64) -> HistoryBuilder {
    history.add(at, "A", What::Lost { hold: 1 })
}

fn declines(history: HistoryBuilder, at: f64) -> HistoryBuilder {
    let (op, hold) = (77, 1);
    history.add(at, "A", What::Declined { op, hold })
}

#[test]
fn whoever_claims_nothing_and_writes_over_the_other_one_is_broken() {
    let verdict = robbed(Claims::OWNED).writes("A", 41.0, 1, 1).judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "Two holders at once: the store had no locks any more. One update is lost."
    );
    assert!(
        verdict
            .why
            .unwrap()
            .contains("so B got it while A still worked")
    );
}

#[test]
fn whoever_says_so_in_time_is_acquitted() {
    held(&says_lost(robbed(TELLS), 900.0).judged());
    held(&says_lost(robbed(TELLS), 2_000.0).judged());
    // It is asked only when its time is over.
    held(&declines(robbed(TELLS), 2_100.0).judged());
    let twice = declines(declines(robbed(TELLS), 2_100.0), 3_200.0);
    held(&twice.judged());
}

#[test]
fn whoever_says_so_too_late_breaks_its_promise() {
    let verdict = says_lost(robbed(TELLS), 2_100.0).judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "A's lock was taken away, and B got it. A was told only 2,086.0 ms later; it claims to tell a loss within 1,000 ms."
    );
    assert_eq!(
        shown(&verdict),
        [
            "#7 the store has no locks any more: the lab has taken them away",
            "#10 B is granted product_A, which A had",
            "#15 A says that its lock is lost"
        ]
    );
}

#[test]
fn whoever_never_says_so_breaks_its_promise_also_behind_a_fence() {
    let verdict = robbed(TELLS).writes("A", 2_100.0, 1, 1).judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(verdict.because.contains("A was not told: 2,086.0 ms later"));
    assert_eq!(verdict.evidence.len(), 3);
    let fenced = Claims {
        fencing: true,
        ..TELLS
    };
    let behind = HistoryBuilder::of(Scenario::TakenAway)
        .promising(fenced)
        .fenced("A", KEY, 1.0, "1.0")
        .tries("B", 5.0)
        .server("store", 10.0, Change::TakenAway)
        .fenced("B", KEY, 14.0, "2.0")
        .write_refused("A", 2_100.0, 1, 1);
    let verdict = behind.judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(verdict.because.contains("A was not told"), "{verdict:?}");
}

#[test]
fn a_loss_is_final() {
    let back = says_lost(robbed(TELLS), 500.0).writes("A", 2_100.0, 1, 1);
    let verdict = back.judged();
    assert_eq!(
        (verdict.outcome, verdict.because.as_str()),
        (
            Outcome::Broken,
            "A said that its lock was lost, and used the number again 1,600.0 ms later."
        )
    );
    let later = declines(robbed(TELLS), 2_100.0).writes("A", 3_200.0, 1, 1);
    assert_eq!(later.judged().outcome, Outcome::Broken);
}

#[test]
fn fences_must_still_grow() {
    let fenced = Claims {
        fencing: true,
        ..Claims::OWNED
    };
    let restarted = HistoryBuilder::of(Scenario::TakenAway)
        .promising(fenced)
        .fenced("A", KEY, 1.0, "7")
        .tries("B", 5.0)
        .server("store", 10.0, Change::TakenAway)
        .fenced("B", KEY, 14.0, "1")
        .judged();
    assert_eq!(restarted.outcome, Outcome::Broken);
    assert!(restarted.because.contains("Fences do not grow"));
}

#[test]
fn nobody_is_accused_if_the_lab_stood_still_or_the_lease_may_have_ended() {
    let stalled = robbed(TELLS)
        .stalls(300.0, 900.0)
        .add(2_100.0, "A", What::Lost { hold: 1 })
        .judged();
    assert_eq!(missing(&stalled), "calm");
    // Its lease was over when B got the lock: nobody needed to take it away.
    let ended = HistoryBuilder::of(Scenario::TakenAway)
        .promising(Claims {
            keep_alive: false,
            ..TELLS
        })
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
        .tries("B", 5.0)
        .server("store", 10.0, Change::TakenAway)
        .granted("B", KEY, 13.0, 1_014.0, 1)
        .add(3_500.0, "A", What::Lost { hold: 1 })
        .judged();
    assert_ne!(ended.outcome, Outcome::Broken, "{ended:?}");
}

#[test]
fn without_a_witness_nobody_is_acquitted() {
    let nothing = HistoryBuilder::of(Scenario::TakenAway)
        .promising(TELLS)
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
        .tries("B", 5.0)
        .writes("A", 41.0, 1, 1)
        .releases("A", 42.0, 1, RELEASED)
        .granted("B", KEY, 43.0, 44.0, 1)
        .judged();
    assert_eq!(missing(&nothing), "loss");
    let spared = HistoryBuilder::of(Scenario::TakenAway)
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
        .tries("B", 5.0)
        .server("store", 10.0, Change::TakenAway)
        .asks("B", KEY, 13.0, 3_000)
        .writes("A", 41.0, 1, 1)
        .releases("A", 42.0, 1, RELEASED)
        .grants("B", KEY, 7, 44.0, 1, None)
        .judged();
    assert_eq!(missing(&spared), "loss");
}
