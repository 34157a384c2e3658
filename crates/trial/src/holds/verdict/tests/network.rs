//! Verdicts on locks whose store answers late, or whose answers are lost.

mod cut;
mod dead_connection;
mod failed_renewal;
mod lost_release;
mod many_leases;
mod one_way;
mod store_errors;
mod vanish;

use super::*;
use crate::protocol::Claims;

/// The replies to A are slow; A asks at 10 ms and learns of its grant at this time.
fn slowed(strategy: &'static str, learned: f64) -> HistoryBuilder {
    let history = HistoryBuilder::of(Scenario::SlowReplies)
        .with(strategy)
        .granted("A", OTHER, 0.0, 1.0, 1)
        .releases_of("A", OTHER, 2.0, 1, RELEASED)
        .fault("A", 5.0, Fault::Slowed);
    let op = history.events().len() as u64 + 1;
    history
        .asks("A", KEY, 10.0, 0)
        .fault("A", learned - 2.0, Fault::ReplyArrives)
        .grants("A", KEY, op, learned, 2, None)
        .reads("A", learned + 1.0, 2)
}

fn declines(history: HistoryBuilder, at: f64) -> HistoryBuilder {
    history.add(at, "A", What::Declined { op: 99, hold: 2 })
}

fn by_b(history: HistoryBuilder) -> HistoryBuilder {
    history
        .granted("B", KEY, 20.0, 1011.0, 1)
        .reads("B", 1012.0, 1)
        .writes("B", 1013.0, 1, 1)
        .releases("B", 1014.0, 1, RELEASED)
}

#[test]
fn a_lease_that_is_counted_from_its_reply_breaks() {
    let verdict = by_b(slowed("safe", 610.0))
        .writes("A", 1050.0, 2, 1)
        .releases("A", 1060.0, 2, LOST)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(verdict.because, "A wrote over B's update. One is lost.");
    assert_eq!(
        verdict.why.unwrap(),
        "A lease runs from its request: A learned of its grant 600.0 ms after it had asked, on a lease of 1,000 ms, and A wrote \
         1,040.0 ms after it had asked."
    );
}

#[test]
fn a_lock_that_claims_to_renew_is_not_accused_of_not_renewing_over_a_slow_network() {
    let verdict = by_b(slowed("watchdog", 610.0))
        .writes("A", 1050.0, 2, 1)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(
        verdict
            .why
            .unwrap()
            .starts_with("A lease runs from its request")
    );
    assert!(!verdict.because.contains("not kept alive"));
}

#[test]
fn who_counts_from_the_request_holds_and_so_does_who_is_refused() {
    let verdict = declines(by_b(slowed("watchdog", 610.0)), 1050.0).judged();
    held(&verdict);
    assert_eq!(
        verdict.witness,
        [
            "A learned of its grant 600.0 ms after it had asked, on a lease of 1,000 ms; B got the lock; then A knew that its lock was lost, \
             and did not write",
            "counted from the reply, its lease would have run for 558.0 ms more at least",
        ]
    );
    let fenced = HistoryBuilder::of(Scenario::SlowReplies)
        .with("fenced")
        .fault("A", 5.0, Fault::Slowed)
        .granted("A", KEY, 10.0, 610.0, 1)
        .reads("A", 611.0, 1);
    held(&by_b(fenced).write_refused("A", 1050.0, 1, 1).judged());
}

#[test]
fn a_grant_that_came_in_time_shows_nothing() {
    let in_time = declines(by_b(slowed("watchdog", 400.0)), 1050.0);
    assert_eq!(missing(&in_time.judged()), "delay");
    let refused = HistoryBuilder::of(Scenario::SlowReplies)
        .granted("A", OTHER, 0.0, 1.0, 1)
        .releases_of("A", OTHER, 2.0, 1, RELEASED)
        .fault("A", 5.0, Fault::Slowed)
        .tries("A", 700.0);
    assert_eq!(missing(&by_b(refused).judged()), "grant");
}

/// On a busy machine, whoever counts from the reply declines as well, and whoever declines may be alone.
#[test]
fn who_declines_shows_something_only_while_a_wrong_lock_would_have_written() {
    let wrong_as_well = declines(by_b(slowed("watchdog", 610.0)), 1609.0);
    assert_eq!(missing(&wrong_as_well.judged()), "calm");
    let just_in_time = declines(by_b(slowed("watchdog", 610.0)), 1607.0);
    held(&just_in_time.judged());
    let before_b = by_b(declines(slowed("watchdog", 610.0), 1005.0));
    assert_eq!(missing(&before_b.judged()), "overrun");
    // It said so before, but it was asked to write when B had come in.
    let said = slowed("watchdog", 610.0).add(1005.0, "A", What::Lost { hold: 2 });
    held(&declines(by_b(said), 1050.0).judged());
}

/// B came late, so a lease that was over did no damage.
#[test]
fn who_writes_after_its_lease_while_nobody_came_in_shows_nothing() {
    let alone = |claims: Claims, wrote: f64| {
        let history = slowed("safe", 610.0).promising(claims);
        let op = history.events().len() as u64 + 1;
        history
            .asks("B", KEY, 620.0, 10_000)
            .writes("A", wrote, 2, 1)
            .releases("A", wrote + 1.0, 2, RELEASED)
            .grants("B", KEY, op, wrote + 3.0, 1, None)
            .judged()
    };
    let renewed = Claims {
        keep_alive: true,
        ..Claims::OWNED
    };
    assert_eq!(missing(&alone(Claims::OWNED, 1050.0)), "overrun");
    assert_eq!(missing(&alone(Claims::OWNED, 2500.0)), "overrun");
    assert_eq!(missing(&alone(renewed, 1050.0)), "overrun", "too soon");
    held(&alone(renewed, 2050.0));
    held(&alone(Claims::OF_SESSION, 1050.0));
}

/// A asks at this time; the reply is lost, and A is told of an error.
fn loses(history: HistoryBuilder, at: f64) -> HistoryBuilder {
    let op = history.events().len() as u64 + 1;
    let failed = What::Failed {
        op,
        definite: false,
        message: "unexpected end of file".into(),
    };
    history
        .asks("A", KEY, at, 0)
        .fault("A", at + 1.0, Fault::ReplyLost)
        .add(at + 2.0, "A", failed)
}

fn lost_reply() -> HistoryBuilder {
    loses(HistoryBuilder::of(Scenario::LostReply), 10.0)
}

#[test]
fn an_error_after_which_the_lock_comes_free_holds() {
    let history = lost_reply()
        .granted("B", KEY, 20.0, 1011.0, 1)
        .releases("B", 1012.0, 1, RELEASED)
        .granted("B", KEY, 1020.0, 1021.0, 2);
    let verdict = loses(history, 1030.0)
        .releases("B", 1040.0, 2, RELEASED)
        .judged();
    held(&verdict);
    assert_eq!(
        verdict.witness,
        [
            "a reply to A was lost, and its connection cut, in two requests: A's answers: 2 × error",
            "B had the lock 999.0 ms after A's answer at the latest",
        ]
    );
}

#[test]
fn an_error_that_is_taken_for_a_grant_breaks() {
    let history = HistoryBuilder::of(Scenario::LostReply).granted("B", KEY, 10.0, 11.0, 1);
    let op = history.events().len() as u64 + 1;
    let verdict = history
        .asks("A", KEY, 20.0, 0)
        .fault("A", 21.0, Fault::ReplyLost)
        .grants("A", KEY, op, 22.0, 1, None)
        .releases("A", 30.0, 1, RELEASED)
        .releases("B", 40.0, 1, RELEASED)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.why.unwrap(),
        "The reply to A's request was lost while B held the lock. A took that for a grant, or asked again and was let in."
    );
    assert_eq!(verdict.evidence[0].what, "reply_lost");
}

/// Nothing was in danger while nobody certainly had the lock.
#[test]
fn a_lost_reply_shows_something_only_beside_a_certain_hold() {
    let alone = lost_reply()
        .granted("B", KEY, 20.0, 1011.0, 1)
        .releases("B", 1012.0, 1, RELEASED);
    assert_eq!(missing(&alone.judged()), "contention");
    let beside = |asked: f64, lost: f64| {
        let history = lost_reply().granted("B", KEY, 20.0, 1011.0, 1);
        let history = history.releases("B", 1012.0, 1, RELEASED);
        let history = history.granted("B", KEY, asked, 1021.0, 2);
        loses(history, lost)
            .releases("B", 2100.0, 2, RELEASED)
            .judged()
    };
    held(&beside(1020.0, 2017.0));
    assert_eq!(missing(&beside(1020.0, 2019.0)), "contention", "over");
    assert_eq!(missing(&beside(1020.0, 1021.0)), "contention", "too early");
}

/// A grant beside B's that no lost reply explains is another fault, and has another reason.
#[test]
fn two_holders_without_a_lost_reply_are_not_explained_by_one() {
    let verdict = loses(
        HistoryBuilder::of(Scenario::LostReply)
            .granted("B", KEY, 10.0, 11.0, 1)
            .granted("A", KEY, 20.0, 21.0, 1)
            .releases("A", 30.0, 1, RELEASED),
        40.0,
    )
    .releases("B", 50.0, 1, RELEASED)
    .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(
        verdict
            .why
            .unwrap()
            .starts_with("A got the lock within B's lease")
    );
}

#[test]
fn a_lock_that_stays_taken_after_a_lost_reply_is_stuck() {
    let waits = || lost_reply().waits_in_vain("B", 20.0, 3_100.0);
    let verdict = waits().looks(3_101.0, true, None).judged();
    assert_eq!(verdict.outcome, Outcome::Stuck);
    assert_eq!(
        verdict.because,
        "A reply to A was lost, and 3,080.0 ms (3 × TTL) later nobody can have the lock."
    );
    assert_eq!(
        verdict.why.unwrap(),
        "The store has carried A's request out, A does not know it, and nothing there ends it."
    );
    // Where the store says that time ends it, or the lab stalled, nobody is accused.
    let with_ttl = waits().looks(3_101.0, true, Some(200.0)).judged();
    assert_eq!(with_ttl.outcome, Outcome::Inconclusive);
    let stalled = lost_reply()
        .stalls(100.0, 1_300.0)
        .waits_in_vain("B", 20.0, 3_100.0)
        .judged();
    assert_eq!(missing(&stalled), "calm");
    let too_short = lost_reply().waits_in_vain("B", 20.0, 2_900.0).judged();
    assert_eq!(too_short.outcome, Outcome::Inconclusive);
}

#[test]
fn a_failure_without_a_lost_reply_leaves_the_lock_to_whoever_failed() {
    let op = 1;
    let failed = What::Failed {
        op,
        definite: false,
        message: "out of coffee".into(),
    };
    let verdict = HistoryBuilder::of(Scenario::LostReply)
        .asks("A", KEY, 10.0, 0)
        .add(12.0, "A", failed)
        .waits_in_vain("B", 20.0, 3_100.0)
        .looks(3_101.0, true, None)
        .judged();
    assert_eq!(missing(&verdict), "loss");
}
