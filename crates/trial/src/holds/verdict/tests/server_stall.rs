//! Verdicts on servers that are stopped for a while, in `server-stall`.

use super::*;
use crate::history::Change;
use crate::protocol::Claims;

const TTL: f64 = 2_000.0;

/// A takes the lock, B is refused, and the server is stopped for less than a lease while B waits.
fn stopped_briefly(history: HistoryBuilder, from: f64, hold: u64) -> HistoryBuilder {
    history
        .granted("A", KEY, from, from + 1.0, hold)
        .reads("A", from + 2.0, hold)
        .tries("B", from + 10.0)
        .server("server", from + 20.0, Change::Stopped)
        .asks("B", KEY, from + 25.0, 7_000)
        .server("server", from + 800.0, Change::Silent)
        .server("server", from + 801.0, Change::Continued)
}

/// Returns the number of the request that B made last.
fn request_of_b(history: &HistoryBuilder) -> u64 {
    let events = history.events().iter().rev();
    let mut asked = events.filter_map(|event| match event.what {
        What::Acquire { op, .. } if event.who.as_deref() == Some("B") => Some(op),
        _ => None,
    });
    asked.next().unwrap()
}

/// A keeps its lock until it releases it; then B gets it.
fn kept(history: HistoryBuilder, from: f64, hold: u64) -> HistoryBuilder {
    let history = stopped_briefly(history, from, hold);
    let op = request_of_b(&history);
    let number = 2 * i64::try_from(hold).unwrap() - 1;
    history
        .writes("A", from + 3_200.0, hold, number)
        .releases("A", from + 3_201.0, hold, RELEASED)
        .grants("B", KEY, op, from + 3_205.0, hold, None)
        .reads("B", from + 3_206.0, hold)
        .writes("B", from + 3_207.0, hold, number + 1)
        .releases("B", from + 3_208.0, hold, RELEASED)
}

/// A's lock is lost after a brief stop: B gets it while A works.
fn lapsed(history: HistoryBuilder, from: f64, hold: u64) -> HistoryBuilder {
    let history = stopped_briefly(history, from, hold);
    let op = request_of_b(&history);
    history
        .grants("B", KEY, op, from + TTL + 10.0, hold, None)
        .releases("B", from + TTL + 20.0, hold, RELEASED)
        .releases("A", from + 3_201.0, hold, LOST)
}

/// The server is stopped for more than a lease while A holds the lock. B and C ask meanwhile.
fn stopped_for_long(history: HistoryBuilder, from: f64) -> HistoryBuilder {
    history
        .granted("A", KEY, from, from + 1.0, 3)
        .reads("A", from + 2.0, 3)
        .tries("B", from + 10.0)
        .server("server", from + 20.0, Change::Stopped)
        .asks("C", KEY, from + 2_050.0, 500)
        .server("server", from + 2_300.0, Change::Silent)
        .server("server", from + 2_301.0, Change::Continued)
}

/// C gets A's lock, and D gets it in the end.
fn taken_again(history: HistoryBuilder, from: f64) -> HistoryBuilder {
    let op = history.events().len() as u64 - 2;
    history
        .grants("C", KEY, op, from + 2_302.0, 1, None)
        .asks("D", KEY, from + 2_303.0, 10_000)
        .reads("C", from + 2_310.0, 1)
        .writes("C", from + 2_320.0, 1, 5)
        .releases("C", from + 2_321.0, 1, RELEASED)
}

fn d_gets_it(history: HistoryBuilder, from: f64, at: f64) -> HistoryBuilder {
    let events = history.events().iter();
    let mut asked = events.filter_map(|event| match event.what {
        What::Acquire { op, .. } if event.who.as_deref() == Some("D") => Some(op),
        _ => None,
    });
    let op = asked.next().unwrap();
    history
        .releases("A", from + 2_400.0, 3, LOST)
        .grants("D", KEY, op, from + at, 1, None)
        .releases("D", from + at + 5.0, 1, RELEASED)
}

fn two_brief_stops(strategy: &'static str) -> HistoryBuilder {
    let history = HistoryBuilder::of(Scenario::ServerStall)
        .with(strategy)
        .ttl(2_000);
    kept(kept(history, 0.0, 1), 4_000.0, 2)
}

const LONG: f64 = 8_000.0;

fn whole(strategy: &'static str) -> HistoryBuilder {
    let history = stopped_for_long(two_brief_stops(strategy), LONG);
    d_gets_it(taken_again(history, LONG), LONG, 2_450.0)
}

#[test]
fn a_lock_that_is_kept_over_short_stops_and_taken_after_a_long_one_is_held() {
    let verdict = whole("watchdog").judged();
    held(&verdict);
    let witness = verdict.witness.join(" / ");
    for words in [
        "stopped two times within the lease, for 781.0 ms at most: A kept its lock",
        "then for 2,281.0 ms",
        "C got the lock 1.0 ms after that",
        "D got the lock 49.7 ms after nobody had it",
    ] {
        assert!(witness.contains(words), "{witness}");
    }
}

#[test]
fn every_part_of_the_witness_is_needed() {
    let history = whole("watchdog");
    let is_needed = |change: Change| {
        let places = history.events().iter().enumerate();
        let places = places.filter(
            |(_, event)| matches!(event.what, What::Server { change: it, .. } if it == change),
        );
        let last = places.map(|(place, _)| place).next_back().unwrap();
        history.without(last).judged()
    };
    for change in [Change::Stopped, Change::Silent, Change::Continued] {
        assert_eq!(missing(&is_needed(change)), "outage", "{change:?}");
    }
    let short = HistoryBuilder::of(Scenario::ServerStall).ttl(2_000);
    let short = d_gets_it(
        taken_again(stopped_for_long(short, LONG), LONG),
        LONG,
        2_450.0,
    );
    assert_eq!(missing(&short.judged()), "outage");
}

#[test]
fn a_lock_that_claims_to_last_and_is_lost_after_both_short_stops_is_broken() {
    let empty = || HistoryBuilder::of(Scenario::ServerStall).ttl(2_000);
    let both = |history: HistoryBuilder| lapsed(lapsed(history, 0.0, 1), 4_000.0, 2);
    let verdict = both(empty().with("watchdog")).judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(
        verdict
            .because
            .starts_with("A lost its lock two times although the server was away")
    );
    assert_eq!(verdict.evidence.len(), 2);
    assert!(
        verdict
            .why
            .unwrap()
            .contains("was away for 781.0 ms, and answered again 1,199.0 ms or more before")
    );
    // A plain lease is over by then.
    let plain = both(empty().with("safe")).judged();
    assert_eq!(plain.outcome, Outcome::Inconclusive, "{plain:?}");
    // Once may be the machine.
    let once = lapsed(kept(empty().with("watchdog"), 0.0, 1), 4_000.0, 2).judged();
    assert_eq!(missing(&once), "calm");
    // And so may be two, if too little of the lease was left for a busy machine.
    let short = both(empty().with("watchdog").ttl(1_700)).judged();
    assert_eq!(missing(&short), "calm");
    // The same if it stalled.
    let busy = lapsed(empty().with("watchdog"), 0.0, 1).stalls(3_300.0, 3_900.0);
    let busy = lapsed(busy, 4_000.0, 2).stalls(5_000.0, 5_600.0).judged();
    assert_ne!(busy.outcome, Outcome::Broken, "{busy:?}");
}

#[test]
fn a_second_holder_within_the_lease_is_broken_although_the_server_was_stopped() {
    let history = stopped_for_long(two_brief_stops("safe"), LONG);
    // B takes its time-out for a grant, half a second after the stop.
    let verdict = history
        .granted("B", KEY, LONG + 25.0, LONG + 525.0, 9)
        .reads("B", LONG + 530.0, 9)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(verdict.because.contains("within A's lease"), "{verdict:?}");
}

#[test]
fn a_late_write_convicts_whoever_claims_to_prevent_it() {
    let late = |strategy| {
        let history = taken_again(stopped_for_long(two_brief_stops(strategy), LONG), LONG);
        d_gets_it(history.writes("A", LONG + 2_390.0, 3, 5), LONG, 2_450.0).judged()
    };
    let verdict = late("watchdog");
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(
        verdict
            .why
            .unwrap()
            .contains("answered nobody for 2,281.0 ms")
    );
    assert_eq!(late("fenced").outcome, Outcome::Broken);
    assert_eq!(missing(&late("safe")), "calm");
}

#[test]
fn a_lock_that_nobody_can_take_afterwards_is_stuck() {
    let history = taken_again(stopped_for_long(two_brief_stops("safe"), LONG), LONG);
    let op = history.events().len() as u64;
    let asked = history.events().iter().rposition(
        |event| matches!(event.what, What::Acquire { .. } if event.who.as_deref() == Some("D")),
    );
    let op = asked.map_or(op, |place| place as u64 + 1);
    let until = |at: f64| {
        let history = history.clone().releases("A", LONG + 2_400.0, 3, LOST);
        history.refuses("D", op, LONG + at)
    };
    let verdict = until(9_000.0).looks(LONG + 9_001.0, true, None).judged();
    assert_eq!(verdict.outcome, Outcome::Stuck, "{verdict:?}");
    assert!(verdict.why.unwrap().contains("nothing there ends it"));
    // Time will free it.
    let soon = until(9_000.0)
        .looks(LONG + 9_001.0, true, Some(700.0))
        .judged();
    assert_eq!(missing(&soon), "calm");
    assert_eq!(missing(&until(5_000.0).judged()), "calm");
}

#[test]
fn a_lock_that_comes_too_late_is_broken_only_if_it_claims_when_it_recovers() {
    let late = |recovery_ms: Option<u64>| {
        let claims = Claims {
            recovery_ms,
            ..Claims::OWNED
        };
        let brief = two_brief_stops("safe").promising(claims);
        let history = taken_again(stopped_for_long(brief, LONG), LONG);
        d_gets_it(history, LONG, 2_400.0 + 3_100.0)
    };
    let verdict = late(Some(2_000)).judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(
        verdict.because.contains("its lease lasts 2,000.0 ms"),
        "{}",
        verdict.because
    );
    let stall = |history: HistoryBuilder| history.stalls(LONG + 3_000.0, LONG + 3_900.0);
    assert_eq!(missing(&stall(late(Some(2_000))).judged()), "calm");
    // Whoever promises no time is not convicted by the lab's clock, as in any other trial.
    let verdict = late(None).judged();
    assert_eq!(missing(&verdict), "calm");
    assert!(
        verdict.because.contains("unless the machine stalled"),
        "{}",
        verdict.because
    );
}

#[test]
fn a_session_that_ends_while_its_server_is_stopped_is_not_blamed() {
    let empty = HistoryBuilder::of(Scenario::ServerStall).ttl(2_000);
    let session = Claims {
        untimed: true,
        recovery_ms: Some(2_000),
        ..Claims::PLAIN
    };
    let empty = empty.promising(session);
    let verdict = lapsed(lapsed(empty, 0.0, 1), 4_000.0, 2).judged();
    assert_ne!(verdict.outcome, Outcome::Broken, "{verdict:?}");
}

#[test]
fn whoever_keeps_its_lease_over_the_outage_delays_nobody() {
    // A's lease is renewed after the stop, and A works on. D gets the lock with A's release, and the answer to that comes after the grant.
    let long = stopped_for_long(two_brief_stops("watchdog"), LONG);
    let c = long.events().len() as u64 - 2;
    let long = long.refuses("C", c, LONG + 2_551.0);
    let d = long.events().len() as u64 + 1;
    let long = long.asks("D", KEY, LONG + 2_560.0, 10_000);
    let (op, hold) = (long.events().len() as u64 + 1, 3);
    let release = What::Release {
        op,
        key: KEY.into(),
        hold,
    };
    let released = What::Released {
        op,
        key: KEY.into(),
        hold,
        outcome: RELEASED,
    };
    let verdict = long
        .add(LONG + 6_000.0, "A", release)
        .grants("D", KEY, d, LONG + 6_002.0, 1, None)
        .add(LONG + 6_004.0, "A", released)
        .releases("D", LONG + 6_010.0, 1, RELEASED)
        .judged();
    assert_ne!(verdict.outcome, Outcome::Broken, "{verdict:?}");
}

/// Soon after a stop, whoever declines may only be unable to rule out a loss.
#[test]
fn a_process_that_declines_long_after_a_brief_stop_has_not_kept_its_lock() {
    let declines = |from: f64, hold: u64, at: f64| {
        move |history: HistoryBuilder| {
            let history = stopped_briefly(history, from, hold);
            let asked = request_of_b(&history);
            history
                .add(from + at, "A", What::Declined { op: 77, hold })
                .releases("A", from + 3_201.0, hold, RELEASED)
                .grants("B", KEY, asked, from + 3_205.0, hold, None)
                .releases("B", from + 3_208.0, hold, RELEASED)
        }
    };
    let twice = |at: f64| {
        let history = HistoryBuilder::of(Scenario::ServerStall)
            .with("watchdog")
            .ttl(2_000);
        let history = declines(4_000.0, 2, at)(declines(0.0, 1, at)(history));
        d_gets_it(
            taken_again(stopped_for_long(history, LONG), LONG),
            LONG,
            2_450.0,
        )
        .judged()
    };
    let late = twice(3_200.0);
    assert_eq!(late.outcome, Outcome::Broken, "{late:#?}");
    assert_eq!(late.evidence[0].what, "declined");
    assert!(late.evidence[0].sentence.contains("2,399.0 ms after"));
    assert_ne!(twice(900.0).outcome, Outcome::Broken);
}

/// A lock of another name, which nobody asks B or C about here.
fn other_lock(history: HistoryBuilder, who: &str, from: f64, hold: u64) -> HistoryBuilder {
    history
        .granted(who, OTHER, from, from + 1.0, hold)
        .releases_of(who, OTHER, from + 5.0, hold, RELEASED)
}

#[test]
fn whoever_gets_a_lock_of_another_name_takes_nothing_from_anybody() {
    // B gets the other lock while A keeps its own, after both brief stops.
    let empty = HistoryBuilder::of(Scenario::ServerStall)
        .with("watchdog")
        .ttl(2_000);
    let both = kept(kept(empty.clone(), 0.0, 1), 4_000.0, 2);
    let both = other_lock(other_lock(both, "C", 2_900.0, 91), "C", 6_900.0, 92);
    let verdict = d_gets_it(
        taken_again(stopped_for_long(both, LONG), LONG),
        LONG,
        2_450.0,
    );
    held(&verdict.judged());
    // What B was refused before the long stop is the other lock.
    let brief = kept(kept(empty, 0.0, 1), 4_000.0, 2);
    let long = brief
        .granted("A", KEY, LONG, LONG + 1.0, 3)
        .reads("A", LONG + 2.0, 3);
    let op = long.events().len() as u64 + 1;
    let long = long
        .asks("B", OTHER, LONG + 9.5, 0)
        .refuses("B", op, LONG + 10.0)
        .server("server", LONG + 20.0, Change::Stopped)
        .asks("C", KEY, LONG + 2_050.0, 500)
        .server("server", LONG + 2_300.0, Change::Silent)
        .server("server", LONG + 2_301.0, Change::Continued);
    let verdict = d_gets_it(taken_again(long, LONG), LONG, 2_450.0).judged();
    assert_eq!(missing(&verdict), "contention");
}

#[test]
fn a_lock_of_another_name_is_not_what_overtook_a() {
    // A writes although its lease was over, and C had only the other lock meanwhile.
    let history = stopped_for_long(two_brief_stops("watchdog"), LONG);
    let c = history.events().len() as u64 - 2;
    let history = history.refuses("C", c, LONG + 2_302.0);
    let d = history.events().len() as u64 + 1;
    let history = other_lock(
        history.asks("D", KEY, LONG + 2_303.0, 10_000),
        "C",
        LONG + 2_310.0,
        91,
    );
    let history = history
        .writes("A", LONG + 2_350.0, 3, 5)
        .releases("A", LONG + 2_400.0, 3, LOST)
        .grants("D", KEY, d, LONG + 2_450.0, 1, None)
        .releases("D", LONG + 2_455.0, 1, RELEASED);
    assert_eq!(missing(&history.judged()), "overrun");
}

#[test]
fn the_witness_names_whoever_got_the_same_lock() {
    let history = stopped_for_long(two_brief_stops("safe"), LONG);
    let c = history.events().len() as u64 - 2;
    let history = other_lock(
        history.refuses("C", c, LONG + 2_302.0),
        "C",
        LONG + 2_310.0,
        91,
    );
    let d = history.events().len() as u64 + 1;
    let history = history
        .asks("D", KEY, LONG + 2_320.0, 10_000)
        .releases("A", LONG + 2_400.0, 3, LOST)
        .grants("D", KEY, d, LONG + 2_450.0, 1, None)
        .releases("D", LONG + 2_455.0, 1, RELEASED);
    let verdict = history.judged();
    held(&verdict);
    let witness = verdict.witness.join(" / ");
    assert!(
        witness.contains("nobody else got the lock before A's release"),
        "{witness}"
    );
}
