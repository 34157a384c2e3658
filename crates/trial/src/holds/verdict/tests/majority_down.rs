//! Verdicts on two of three servers that are dead for a while, in `majority-down`.

use super::*;
use crate::history::Change;

/// A holds the lock, B is refused, and two servers die.
fn down(strategy: &'static str) -> HistoryBuilder {
    HistoryBuilder::of(Scenario::MajorityDown)
        .with(strategy)
        .ttl(2_000)
        .granted("A", KEY, 0.0, 1.0, 1)
        .reads("A", 2.0, 1)
        .tries("B", 10.0)
        .server("first server", 20.0, Change::Killed)
        .server("second server", 22.0, Change::Killed)
}

fn fails(history: HistoryBuilder, who: &str, from: f64, until: f64) -> HistoryBuilder {
    let op = history.events().len() as u64 + 1;
    let failed = What::Failed {
        op,
        definite: false,
        message: "no majority".into(),
    };
    history.asks(who, KEY, from, 0).add(until, who, failed)
}

/// The servers come back, A gives its lock back, and D gets it.
fn back(history: HistoryBuilder, from: f64) -> HistoryBuilder {
    history
        .server("first server", from, Change::Restarted)
        .server("second server", from, Change::Restarted)
        .granted("D", KEY, from + 100.0, from + 101.0, 1)
        .reads("D", from + 102.0, 1)
        .writes("D", from + 103.0, 1, 1)
        .releases("D", from + 104.0, 1, RELEASED)
}

fn refused_meanwhile(strategy: &'static str) -> HistoryBuilder {
    let asked = fails(down(strategy), "B", 30.0, 33.0);
    fails(asked, "C", 2_050.0, 2_060.0).releases("A", 2_400.0, 1, LOST)
}

#[test]
fn whoever_grants_nothing_without_a_majority_and_recovers_is_held() {
    for strategy in ["safe", "watchdog", "fenced"] {
        let verdict = back(refused_meanwhile(strategy), 2_500.0).judged();
        held(&verdict);
        let witness = verdict.witness.join(" / ");
        for words in [
            "the first server and the second server were dead for 2,478.0 ms",
            "B was told of an error after 3.0 ms",
            "D got the lock 1.0 ms after nobody had it",
        ] {
            assert!(witness.contains(words), "{witness}");
        }
    }
}

#[test]
fn without_a_witness_nobody_is_acquitted() {
    // They were back before the lease was over.
    let asked = fails(down("safe"), "B", 30.0, 33.0);
    let short = back(asked.releases("A", 900.0, 1, RELEASED), 1_000.0);
    assert_eq!(missing(&short.judged()), "outage");
    let nobody_asked = back(down("safe").releases("A", 2_400.0, 1, LOST), 2_500.0);
    assert_eq!(missing(&nobody_asked.judged()), "contention");
    let never_back = refused_meanwhile("safe").granted("D", KEY, 2_600.0, 2_601.0, 1);
    assert_eq!(missing(&never_back.judged()), "outage");
}

#[test]
fn a_grant_beside_the_holder_is_broken() {
    let verdict = down("safe")
        .granted("B", KEY, 30.0, 40.0, 2)
        .reads("B", 41.0, 2)
        .server("first server", 2_500.0, Change::Restarted)
        .server("second server", 2_500.0, Change::Restarted)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(
        verdict.because.contains("within A's lease"),
        "{}",
        verdict.because
    );
}

#[test]
fn a_grant_without_a_majority_is_broken_if_the_majority_grants_as_well() {
    let alone = |history: HistoryBuilder| {
        let history = history.releases("A", 2_040.0, 1, LOST);
        history
            .granted("C", KEY, 2_050.0, 2_052.0, 1)
            .reads("C", 2_053.0, 1)
    };
    let both = alone(fails(down("safe"), "B", 30.0, 33.0));
    let both = back(both, 2_500.0).releases("C", 3_000.0, 1, RELEASED);
    let verdict = both
        .server("second server", 2_500.0, Change::Restarted)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(
        verdict.because.contains("within C's lease"),
        "{}",
        verdict.because
    );
    // Nobody met it.
    let alone = alone(fails(down("safe"), "B", 30.0, 33.0)).releases("C", 2_400.0, 1, RELEASED);
    assert_eq!(missing(&back(alone, 2_500.0).judged()), "contention");
}

#[test]
fn a_server_that_forgets_is_another_matter() {
    // Without its data, the second holder accuses the store, and not the lock.
    let forgot = down("safe")
        .server("first server", 300.0, Change::RestartedEmpty)
        .server("second server", 300.0, Change::RestartedEmpty)
        .granted("D", KEY, 400.0, 401.0, 1)
        .reads("D", 402.0, 1)
        .judged();
    assert_ne!(forgot.outcome, Outcome::Broken, "{forgot:?}");
}

#[test]
fn a_lock_that_nobody_can_take_when_the_majority_is_back_is_stuck() {
    let history = refused_meanwhile("safe")
        .server("first server", 2_500.0, Change::Restarted)
        .server("second server", 2_500.0, Change::Restarted);
    let verdict = history
        .clone()
        .waits_in_vain("D", 2_600.0, 9_000.0)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Stuck, "{verdict:?}");
    assert!(verdict.why.unwrap().contains("told of an error"));
    // While the lab stands still, the machine may, too.
    let busy = history
        .asks("D", KEY, 2_600.0, 10_000)
        .stalls(2_700.0, 8_000.0);
    let op = busy.events().len() as u64 - 1;
    assert_eq!(missing(&busy.refuses("D", op, 9_000.0).judged()), "calm");
}

#[test]
fn a_grant_of_another_name_is_not_one_of_a_s_lock() {
    let history = refused_meanwhile("safe")
        .granted("B", OTHER, 2_050.0, 2_052.0, 7)
        .releases_of("B", OTHER, 2_060.0, 7, RELEASED);
    held(&back(history, 2_500.0).judged());
}
