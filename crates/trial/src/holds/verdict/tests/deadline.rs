//! Waits that time out, and long ones: what is left of them, and what they use up.

use super::*;

/// A gives the lock to C at `at` + 400 ms; it arrives this much later. B may give up meanwhile.
fn hand_over(
    history: HistoryBuilder,
    hold: u64,
    at: f64,
    gives_up: bool,
    took: f64,
) -> HistoryBuilder {
    let mut history = history.granted("A", KEY, at, at + 1.0, hold);
    if gives_up {
        let op = history.events().len() as u64 + 1;
        history = history
            .asks("B", KEY, at + 10.0, 300)
            .refuses("B", op, at + 311.0);
    }
    let op = history.events().len() as u64 + 1;
    history
        .asks("C", KEY, at + 20.0, 8_000)
        .releases("A", at + 400.0, hold, RELEASED)
        .grants("C", KEY, op, at + 400.0 + took, hold, None)
        .releases("C", at + 410.0 + took, hold, RELEASED)
}

fn rounds(took: [f64; 3]) -> HistoryBuilder {
    let history = HistoryBuilder::of(Scenario::Deadline).ttl(2_000);
    let [first, usual, again] = took;
    let history = hand_over(history, 1, 0.0, true, first);
    let history = hand_over(history, 2, 3_000.0, false, usual);
    hand_over(history, 3, 6_000.0, true, again)
}

/// B waits behind A and has the lock from 10,410 ms on, and C is answered at this time.
fn long_wait(history: HistoryBuilder, answered: f64, is_granted: bool) -> HistoryBuilder {
    let history = history.granted("A", KEY, 9_000.0, 9_001.0, 4);
    let asked = history.events().len() as u64 + 1;
    let history = history
        .asks("B", KEY, 9_010.0, 8_000)
        .releases("A", 10_400.0, 4, RELEASED)
        .grants("B", KEY, asked, 10_410.0, 1, None);
    let op = history.events().len() as u64 + 1;
    let history = history.asks("C", KEY, 10_420.0, 1_000);
    let history = if is_granted {
        history.grants("C", KEY, op, answered, 4, None)
    } else {
        history.refuses("C", op, answered)
    };
    history
        .reads("B", 11_500.0, 1)
        .releases("B", 11_510.0, 1, RELEASED)
}

#[test]
fn who_gives_up_leaves_nothing_behind() {
    let verdict = long_wait(rounds([5.0, 6.0, 7.0]), 11_420.0, false).judged();
    held(&verdict);
    assert_eq!(
        verdict.measured,
        ["from release to grant: 5.0 and 7.0 ms after B had given up, 6.0 ms otherwise"]
    );
    assert_eq!(
        verdict.witness[1],
        "B waited 1,400.0 ms on leases of 2,000.0 ms, and 1,010.0 ms after its grant others were still refused"
    );
    let without = rounds([5.0, 6.0, 7.0]).judged();
    assert_eq!(missing(&without), "waits");
}

#[test]
fn who_gives_up_and_holds_up_the_next_convicts_if_it_happens_twice() {
    let verdict = rounds([1_900.0, 6.0, 1_850.0]).judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "B gave up, and C had to wait for it all the same."
    );
    assert_eq!(
        shown(&verdict),
        [
            "#4 B gives up after 300 ms",
            "#8 C is granted the lock 1,900.0 ms after A's release",
            "#22 B gives up after 300 ms",
            "#26 C is granted the lock 1,850.0 ms after A's release"
        ]
    );
    assert_eq!(
        verdict.why.unwrap(),
        "Nobody had the lock for 1,900.0 ms and 1,850.0 ms although C waited. It came within 6.0 ms when nobody had given up: \
         something of B was left."
    );
    // Once may be the machine, a machine that is always slow accuses nobody, and neither does a lab that stalled.
    for took in [
        [1_900.0, 6.0, 7.0],
        [1_900.0, 1_200.0, 1_850.0],
        [900.0, 6.0, 900.0],
    ] {
        let verdict = rounds(took).judged();
        assert_eq!(verdict.outcome, Outcome::Inconclusive, "{took:?}");
    }
    let stalled = rounds([1_900.0, 6.0, 1_850.0]).stalls(500.0, 1_500.0);
    assert_eq!(stalled.judged().outcome, Outcome::Inconclusive);
}

#[test]
fn a_wait_that_uses_up_the_lease_convicts() {
    let verdict = long_wait(rounds([5.0, 6.0, 7.0]), 11_011.0, true).judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "B waited 1,400.0 ms for the lock and had it for 601.0 ms: then C got it, too."
    );
    assert_eq!(
        verdict.why.unwrap(),
        "B cannot have had the lock before A's release, and C got the lock 611.0 ms after that, on a lease of 2,000.0 ms: the \
         lease had begun while B waited."
    );
}

/// B waits for most of a lease and gets the lock; then it knows that its lease is over.
fn over_at_once(history: HistoryBuilder, declines_at: f64) -> HistoryBuilder {
    let history = history.granted("A", KEY, 9_000.0, 9_001.0, 4);
    let asked = history.events().len() as u64 + 1;
    let history = history
        .asks("B", KEY, 9_010.0, 8_000)
        .releases("A", 10_400.0, 4, RELEASED)
        .grants("B", KEY, asked, 10_410.0, 1, None);
    let op = history.events().len() as u64 + 1;
    history
        .asks("C", KEY, 10_420.0, 1_000)
        .refuses("C", op, 11_420.0)
        .add(declines_at, "B", What::Declined { op: 99, hold: 1 })
}

#[test]
fn a_grant_that_is_over_when_its_wait_is_convicts() {
    let usual = || rounds([5.0, 6.0, 7.0]);
    let verdict = over_at_once(usual(), 11_430.0).judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "B waited 1,400.0 ms for the lock, and 1,020.0 ms after it got it, it says that its lock is lost."
    );
    assert_eq!(
        verdict.why.unwrap(),
        "B cannot have had the lock before A's release, 1,030.0 ms earlier, on a lease of 2,000.0 ms: it counts its lease from an earlier \
         time, such as the start of its wait, so that a long wait uses it up."
    );
    // The whole lease may be nearly over by then, or B had a reason.
    let late = over_at_once(usual(), 12_000.0).judged();
    held(&late);
    let stalled = over_at_once(usual(), 11_430.0).stalls(11_000.0, 11_300.0);
    assert_ne!(stalled.judged().outcome, Outcome::Broken);
    let failed = over_at_once(usual().add(8_900.0, "B", failure()), 11_430.0).judged();
    assert_ne!(failed.outcome, Outcome::Broken);
    // It had said so.
    let as_told = over_at_once(usual(), 11_430.0).valid_for(2_400.0);
    assert_ne!(as_told.judged().outcome, Outcome::Broken);
}

fn failure() -> What {
    What::Failed {
        op: 900,
        definite: false,
        message: "no answer".into(),
    }
}

#[test]
fn a_holder_whose_lease_may_have_ended_says_nothing_about_the_next_lease() {
    // A released the lock so late that B may have had it for a while.
    let late = HistoryBuilder::of(Scenario::Deadline)
        .ttl(2_000)
        .granted("A", KEY, 0.0, 1.0, 1)
        .asks("B", KEY, 10.0, 8_000)
        .releases("A", 2_100.0, 1, RELEASED)
        .grants("B", KEY, 3, 2_110.0, 1, None)
        .granted("C", KEY, 2_120.0, 4_050.0, 1)
        .reads("B", 4_060.0, 1)
        .judged();
    assert_eq!(late.outcome, Outcome::Inconclusive, "{late:#?}");
}

#[test]
fn a_late_refusal_is_noted() {
    let history = HistoryBuilder::of(Scenario::Deadline)
        .ttl(2_000)
        .granted("A", KEY, 0.0, 1.0, 1)
        .asks("B", KEY, 10.0, 300);
    let verdict = history.refuses("B", 3, 1_500.0).judged();
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert_eq!(
        verdict.notes,
        ["B was to wait 300 ms, and its answer took 1,490.0 ms"]
    );
}
