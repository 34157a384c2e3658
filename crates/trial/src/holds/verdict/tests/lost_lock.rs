//! Verdicts on a server that misbehaves and lives on, in `server-clock`, `clock-back` and `eviction`: its clock jumps, or it evicts the lock.

use super::*;
use crate::history::Change;

/// A holds the lock, and B is refused. Then the server ends A's lease; `seen` says whether the lab saw that the lock is gone.
fn lost(strategy: &'static str, change: Change, seen: bool) -> HistoryBuilder {
    let scenario = match change {
        Change::Evicted => Scenario::Eviction,
        _ => Scenario::ServerClock,
    };
    let history = HistoryBuilder::of(scenario)
        .with(strategy)
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
        .tries("B", 5.0)
        .server("server", 10.0, change);
    if seen {
        history.looks_on("server", 12.0, false)
    } else {
        history
    }
}

/// B gets the lock and writes.
fn b_writes(history: HistoryBuilder) -> HistoryBuilder {
    history
        .granted("B", KEY, 13.0, 14.0, 1)
        .reads("B", 15.0, 1)
        .writes("B", 40.0, 1, 1)
}

/// Then A writes, and both release.
fn both_write(history: HistoryBuilder) -> HistoryBuilder {
    b_writes(history)
        .writes("A", 41.0, 1, 1)
        .releases("A", 42.0, 1, LOST)
        .releases("B", 90.0, 1, RELEASED)
}

#[test]
fn a_clock_that_jumps_forward_lets_a_second_one_in() {
    for strategy in ["safe", "watchdog"] {
        let verdict = both_write(lost(strategy, Change::ClockAhead, true)).judged();
        assert_eq!(verdict.outcome, Outcome::Broken, "{strategy}");
        assert_eq!(
            verdict.because,
            "Two holders at once: the server had set its clock forward. One update is lost."
        );
        assert_eq!(
            shown(&verdict)[0],
            "#7 the server is an hour ahead: its clock has jumped forward"
        );
        assert!(verdict.why.unwrap().contains("time of day"));
        assert!(verdict.next[0].command.contains("--lock=fenced"));
    }
}

#[test]
fn the_reason_claims_no_more_than_was_seen() {
    let evicted = both_write(lost("safe", Change::Evicted, true)).judged();
    assert!(evicted.why.unwrap().contains("evicts a held lock"));
    // The lab does not know where an external lock keeps its records.
    let unseen = both_write(lost("safe", Change::Evicted, false)).judged();
    assert_eq!(
        unseen.why.as_deref(),
        Some("B was refused before the server had evicted its keys, and got the lock after it.")
    );
    // Two holders before the server did anything have another reason.
    let early = HistoryBuilder::of(Scenario::ServerClock)
        .granted("A", KEY, 0.5, 1.0, 1)
        .granted("B", KEY, 2.0, 3.0, 1)
        .reads("B", 4.0, 1)
        .server("server", 10.0, Change::ClockAhead)
        .looks_on("server", 12.0, false)
        .judged();
    assert_eq!(early.outcome, Outcome::Broken);
    assert_eq!(
        early.because,
        "Two holders at once, and no server had done anything yet."
    );
    assert!(early.why.unwrap().contains("within A's lease"));
}

#[test]
fn a_fence_makes_it_harmless_and_whoever_learns_of_it_and_stops_is_not_accused() {
    for change in [Change::ClockAhead, Change::Evicted] {
        let refused = b_writes(lost("fenced", change, true)).write_refused("A", 41.0, 1, 1);
        held(&refused.judged());
        let accepted = both_write(lost("fenced", change, true)).judged();
        assert_eq!(accepted.outcome, Outcome::Broken);
        let stopped =
            b_writes(lost("watchdog", change, true)).add(41.0, "A", What::Lost { hold: 1 });
        let stopped = stopped.judged();
        held(&stopped);
        assert!(stopped.belief.text.unwrap().contains("at most 27.0 ms"));
    }
}

#[test]
fn without_a_witness_nobody_is_acquitted() {
    let nothing = HistoryBuilder::of(Scenario::ServerClock)
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
        .tries("B", 5.0)
        .writes("A", 41.0, 1, 1)
        .releases("A", 42.0, 1, RELEASED)
        .granted("B", KEY, 43.0, 44.0, 1)
        .judged();
    assert_eq!(missing(&nothing), "loss");
    let kept = |change| {
        lost("safe", change, false)
            .asks("B", KEY, 13.0, 3_000)
            .writes("A", 41.0, 1, 1)
            .releases("A", 42.0, 1, RELEASED)
            .grants("B", KEY, 8, 44.0, 1, None)
            .judged()
    };
    // The lock did not end with the clock; but a lock that an eviction spares was not there.
    held(&kept(Change::ClockAhead));
    assert_eq!(missing(&kept(Change::Evicted)), "loss");
}

#[test]
fn an_overlap_after_the_lease_accuses_nobody() {
    let verdict = lost("safe", Change::ClockAhead, true)
        .granted("B", KEY, 1_600.0, 1_601.0, 1)
        .reads("B", 1_602.0, 1)
        .writes("B", 1_603.0, 1, 1)
        .writes("A", 1_604.0, 1, 1)
        .judged();
    assert_eq!(missing(&verdict), "calm");
}

/// The clock jumps back while A holds the lock, and A dies.
fn back() -> HistoryBuilder {
    HistoryBuilder::of(Scenario::ClockBack)
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
        .tries("B", 5.0)
        .server("server", 10.0, Change::ClockBehind)
        .looks_on("server", 11.0, true)
        .fault("A", 60.0, Fault::Killed)
}

fn left(history: HistoryBuilder, at: f64, ttl_left_ms: f64) -> HistoryBuilder {
    let what = What::StoreRead {
        key: KEY.into(),
        taken: true,
        ttl_left_ms: Some(ttl_left_ms),
        server: Some("server".into()),
    };
    history.add(at, "", what)
}

#[test]
fn a_clock_that_jumps_back_keeps_a_dead_holders_lock() {
    let verdict = left(
        back().waits_in_vain("B", 61.0, 3_100.0),
        3_101.0,
        3_597_500.0,
    )
    .judged();
    assert_eq!(verdict.outcome, Outcome::Stuck);
    assert_eq!(
        shown(&verdict)[..2],
        [
            "#7 the server is an hour behind: its clock has jumped back",
            "#9 A is killed (signal 9) while holding"
        ]
    );
    assert_eq!(
        verdict.why.as_deref(),
        Some(
            "The server ends a lease by its time of day: since that jumped back, a lease of 1,000.0 ms has 3,597,500.0 ms left."
        )
    );
    assert!(verdict.next.is_empty(), "no other lock would help");
}

#[test]
fn a_lease_that_has_little_left_is_not_stuck_and_one_that_ends_in_time_is_held() {
    let waits = |left_ms| left(back().waits_in_vain("B", 61.0, 3_100.0), 3_101.0, left_ms).judged();
    assert_eq!(waits(900.0).outcome, Outcome::Inconclusive);
    let free = back().granted("B", KEY, 61.0, 1_050.0, 1).judged();
    held(&free);
    assert!(free.witness[0].contains("clock jumped back 9.0 ms after A's grant"));
    // The lease was over when the clock jumped, so nothing was tested.
    let late = HistoryBuilder::of(Scenario::ClockBack)
        .granted("A", KEY, 0.5, 1.0, 1)
        .tries("B", 5.0)
        .server("server", 1_200.0, Change::ClockBehind)
        .fault("A", 1_260.0, Fault::Killed)
        .granted("B", KEY, 1_261.0, 1_262.0, 1)
        .judged();
    assert_eq!(missing(&late), "hold");
    let unseen = HistoryBuilder::of(Scenario::ClockBack)
        .granted("A", KEY, 0.5, 1.0, 1)
        .fault("A", 60.0, Fault::Killed)
        .granted("B", KEY, 61.0, 1_050.0, 1)
        .judged();
    assert_eq!(missing(&unseen), "clock");
}
