//! Verdicts on processes whose clocks were wrong: the time of day, and the clock that stands still while a machine is suspended.

use super::*;
use crate::protocol::Claims;

/// One round: A holds the lock from `at` on; B tries 10 ms later, and is granted the lock or not. Rounds begin at 10, 100, 200 and 300 ms.
fn round(history: HistoryBuilder, at: f64, hold: u64, let_in: bool) -> HistoryBuilder {
    let value = (at / 100.0) as i64 + 1;
    let history = history
        .granted("A", KEY, at - 0.5, at, hold)
        .reads("A", at + 1.0, hold);
    let history = if let_in {
        history
            .granted("B", KEY, at + 9.5, at + 10.0, hold)
            .reads("B", at + 11.0, hold)
            .writes("B", at + 12.0, hold, value)
    } else {
        history.tries("B", at + 10.0)
    };
    history
        .writes("A", at + 20.0, hold, value)
        .releases("A", at + 21.0, hold, RELEASED)
}

/// The round in which every clock is right.
fn right(let_in: bool) -> HistoryBuilder {
    round(HistoryBuilder::of(Scenario::ClientClock), 10.0, 1, let_in)
}

/// A round in which the clock of `who` is wrong. `read` says whether it asked for the time.
fn wrong(
    history: HistoryBuilder,
    at: f64,
    (who, fault): (&str, Fault),
    read: bool,
    let_in: bool,
) -> HistoryBuilder {
    let mut history = history.fault(who, at - 5.0, fault);
    if read {
        history = history.fault(who, at - 4.0, Fault::ClockRead);
    }
    round(history, at, at as u64, let_in).fault(who, at + 30.0, Fault::ClockRight)
}

const BEHIND: (&str, Fault) = ("A", Fault::ClockBehind);
const AHEAD: (&str, Fault) = ("B", Fault::ClockAhead);
const FAST: (&str, Fault) = ("B", Fault::ClockFast);

fn all(reads: [bool; 3]) -> HistoryBuilder {
    let history = wrong(right(false), 100.0, BEHIND, reads[0], false);
    let history = wrong(history, 200.0, AHEAD, reads[1], false);
    wrong(history, 300.0, FAST, reads[2], false)
}

#[test]
fn whoever_does_not_count_by_the_time_of_day_is_acquitted() {
    let verdict = all([true; 3]).judged();
    held(&verdict);
    assert_eq!(
        verdict.witness,
        [
            "B was kept out while A's time of day was an hour behind; while B's time of day was an hour ahead; while B's time of day ran a thousand times as fast"
        ]
    );
    // A program that it starts may be the one that does the work.
    let limits = verdict.limits.unwrap();
    assert!(
        limits.contains("a program that the process starts"),
        "{limits}"
    );
}

#[test]
fn a_program_that_never_asks_for_the_time_was_not_tried() {
    for unread in 0..3 {
        let mut reads = [true; 3];
        reads[unread] = false;
        let verdict = all(reads).judged();
        assert_eq!(missing(&verdict), "clock");
        let who = if unread == 0 { "A" } else { "B" };
        assert!(
            verdict
                .because
                .starts_with(&format!("Not tried: {who} did not ask"))
        );
    }
    // Without any wrong clock, nothing was tested.
    assert_eq!(missing(&right(false).judged()), "contention");
}

#[test]
fn whoever_is_let_in_by_a_wrong_clock_convicts_the_lock_and_the_clock_is_named() {
    for (spell, words) in [
        (BEHIND, "A's time of day was an hour behind"),
        (AHEAD, "B's time of day was an hour ahead"),
        (FAST, "B's time of day ran a thousand times as fast"),
    ] {
        let verdict = wrong(right(false), 100.0, spell, true, true).judged();
        assert_eq!(verdict.outcome, Outcome::Broken);
        assert_eq!(
            verdict.because,
            format!("Two holders at once: {words}. One update is lost.")
        );
        let why = verdict.why.unwrap();
        assert!(
            why.contains("refused when every clock was right") && why.contains(words),
            "{why}"
        );
        assert_eq!(verdict.evidence[0].what, "clock");
    }
}

#[test]
fn the_clock_is_no_reason_if_b_is_let_in_anyway() {
    let verdict = right(true).judged();
    assert_eq!(
        verdict.because,
        "Two holders at once, within A's lease. One update is lost."
    );
    let verdict = wrong(right(true), 100.0, AHEAD, true, true).judged();
    assert!(verdict.why.unwrap().contains("within A's lease"));
}

#[test]
fn beyond_a_plain_lease_nobody_is_accused() {
    let late = right(false)
        .granted("A", KEY, 99.5, 100.0, 2)
        .reads("A", 101.0, 2)
        .fault("B", 1_200.0, Fault::ClockAhead)
        .fault("B", 1_201.0, Fault::ClockRead)
        .granted("B", KEY, 1_202.0, 1_203.0, 2)
        .reads("B", 1_204.0, 2)
        .writes("B", 1_205.0, 2, 2)
        .writes("A", 1_206.0, 2, 2);
    assert_eq!(missing(&late.judged()), "calm");
    // Whoever claims to renew its lease is accused, unless the lab stalled.
    let renewed = Claims {
        keep_alive: true,
        ..Claims::PLAIN
    };
    let once = late.clone().promising(renewed).judged();
    assert_eq!(missing(&once), "calm", "once may be the machine");
    let twice = late
        .granted("A", KEY, 2_000.0, 2_001.0, 3)
        .granted("B", KEY, 2_010.0, 3_100.0, 3)
        .reads("B", 3_101.0, 3)
        .releases("A", 4_000.0, 3, LOST);
    let accused = twice.clone().promising(renewed).judged();
    assert_eq!(accused.outcome, Outcome::Broken);
    let stalled = twice.stalls(150.0, 1_210.0).promising(renewed).judged();
    assert_eq!(stalled.outcome, Outcome::Inconclusive);
}

/// A is suspended beyond its lease of a second; B gets the lock and writes.
fn suspended(strategy: &'static str, shown: bool) -> HistoryBuilder {
    let history = HistoryBuilder::of(Scenario::Suspend)
        .with(strategy)
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
        .fault("A", 5.0, Fault::Stopped)
        .granted("B", KEY, 6.0, 1_010.0, 1)
        .reads("B", 1_011.0, 1)
        .writes("B", 1_012.0, 1, 1)
        .releases("B", 1_013.0, 1, RELEASED)
        .fault("A", 1_099.0, Fault::Suspended)
        .fault("A", 1_100.0, Fault::Continued);
    if shown {
        history.fault("A", 1_101.0, Fault::ClockRead)
    } else {
        history
    }
}

#[test]
fn belief_must_end_when_a_suspended_machine_wakes() {
    let late = suspended("safe", true)
        .lease_over("A", 1_002.0, 1)
        .writes("A", 1_105.0, 1, 1);
    let verdict = late.judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(verdict.notes[0].starts_with("CLOCK_MONOTONIC did not advance for A meanwhile"));
    let declined = What::Declined { op: 90, hold: 1 };
    let woke = suspended("watchdog", true)
        .add(1_105.0, "A", declined.clone())
        .judged();
    held(&woke);
    let limits = woke.limits.as_deref().unwrap();
    assert!(
        limits.contains("a program that the process starts"),
        "{limits}"
    );
    assert!(woke.witness[0].starts_with("A was suspended for 1,095.0 ms on a lease of 1,000 ms"));
    let refused = suspended("fenced", true)
        .write_refused("A", 1_105.0, 1, 1)
        .judged();
    held(&refused);
    // Whoever never asked for the time was not shown a suspended machine.
    let unseen = suspended("watchdog", false)
        .add(1_105.0, "A", declined)
        .judged();
    assert_eq!(missing(&unseen), "clock");
}

/// In the long round, no clock can be told from a lock that does not renew its lease at all.
#[test]
fn a_lease_that_was_not_renewed_is_not_blamed_on_the_clock() {
    let renewed = Claims {
        keep_alive: true,
        ..Claims::PLAIN
    };
    let long = |history: HistoryBuilder, at: f64| {
        let hold = at as u64;
        history
            .granted("A", KEY, at, at + 1.0, hold)
            .reads("A", at + 2.0, hold)
            .fault("A", at + 3.0, Fault::ClockBehind)
            .fault("A", at + 4.0, Fault::ClockRead)
            .granted("B", KEY, at + 5.0, at + 1_050.0, hold)
            .reads("B", at + 1_051.0, hold)
            .releases("B", at + 1_060.0, hold, RELEASED)
            .releases("A", at + 2_300.0, hold, LOST)
            .fault("A", at + 2_301.0, Fault::ClockRight)
    };
    let once = long(all([true; 3]).promising(renewed), 400.0);
    let verdict = long(once, 3_000.0).judged();
    assert_eq!(
        verdict.because,
        "Two holders at once: A's lease was not kept alive."
    );
    assert_eq!(
        verdict.why.unwrap(),
        "B got the lock 1,049.0 ms after A's grant: the lease was not kept alive, as the lock claims."
    );
    assert_eq!(
        verdict.notes,
        [
            "A's time of day was an hour behind meanwhile; this run does not show whether that is the reason"
        ]
    );
}
