//! Verdicts on two processes that take two locks, in opposite order or in the same one.

use super::*;

#[test]
fn a_deadlock_that_the_ttl_ends_is_a_violation() {
    let history = let_in("safe")
        .writes("A", 3053.4, 1, 1)
        .writes("B", 3053.6, 2, 1);
    let verdict = let_go(history);
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "Two holders at once: the TTL ended both leases, and both processes got both locks. One update is lost."
    );
    assert_eq!(
        shown(&verdict),
        [
            "#6 wait cycle: A waits for B, B waits for A, until 3,002.5 ms",
            "#7 B is granted product_A; A, granted it at 0.9, held on to 3,053.9",
            "#10 A reads 0, B reads 0, A writes 1, B writes 1: the two holds interleave",
        ]
    );
    assert_eq!(
        verdict.belief.text.unwrap(),
        "two holders of product_A for 51.4 ms, of product_B for 51.1 ms"
    );
}

#[test]
fn under_fences_the_late_one_is_refused_and_that_is_harmless() {
    let history = let_in("fenced")
        .write_refused("A", 3053.4, 1, 1)
        .writes("B", 3053.6, 2, 1);
    let verdict = let_go(history);
    held(&verdict);
    assert_eq!(verdict.belief.code, Belief::Overlap);
    assert_eq!(verdict.damage.code, []);
}

#[test]
fn two_who_were_let_in_and_did_not_meet_show_nothing() {
    let history = embrace("fenced")
        .grants("B", KEY, 6, 3052.5, 2, None)
        .grants("A", OTHER, 5, 3053.0, 2, None);
    assert_eq!(missing(&let_go(history.looks(3053.5, true, None))), "clash");
}

#[test]
fn a_deadlock_that_nothing_ends_is_stuck() {
    let verdict = embrace("watchdog")
        .refuses("B", 6, 9071.5)
        .refuses("A", 5, 9071.9)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Stuck);
    assert_eq!(
        verdict.because,
        "Both wait for each other, and 9,020.3 ms (3 × TTL) later neither has made progress."
    );
    let nothing = HistoryBuilder::of(Scenario::Deadlock).granted("A", KEY, 0.0, 1.0, 1);
    assert_eq!(missing(&nothing.judged()), "cycle");
}

fn sorted(a_lets_go: f64, b_gets_it: f64) -> Verdict {
    HistoryBuilder::of(Scenario::DeadlockSorted)
        .granted("A", KEY, 0.0, 0.9, 1)
        .asks("B", KEY, 1.0, 3_020)
        .granted("A", OTHER, 50.0, 51.0, 2)
        .reads("A", 51.2, 1)
        .writes("A", 101.6, 1, 1)
        .releases_of("A", OTHER, 101.7, 2, RELEASED)
        .releases("A", a_lets_go, 1, RELEASED)
        .grants("B", KEY, 3, b_gets_it, 1, None)
        .granted("B", OTHER, 2000.0, 2000.5, 2)
        .reads("B", 2001.0, 1)
        .writes("B", 2002.0, 1, 2)
        .releases("B", 2003.0, 1, RELEASED)
        .judged()
}

#[test]
fn in_the_same_order_both_finish() {
    let verdict = sorted(102.0, 103.4);
    held(&verdict);
    assert_eq!(
        verdict.witness,
        ["B met product_A taken and waited 102.4 ms for it"]
    );
    assert_eq!(sorted(102.0, 99.0).outcome, Outcome::Broken);
    let one_wrote = HistoryBuilder::of(Scenario::DeadlockSorted)
        .granted("A", KEY, 0.0, 0.9, 1)
        .asks("B", KEY, 1.0, 3_020)
        .reads("A", 2.0, 1)
        .writes("A", 3.0, 1, 1)
        .releases("A", 4.0, 1, RELEASED)
        .grants("B", KEY, 3, 5.0, 1, None);
    assert_eq!(missing(&one_wrote.judged()), "answers");
    assert_eq!(
        missing(&sorted(1500.0, 1400.0)),
        "calm",
        "the lease was over: a busy machine"
    );
}
