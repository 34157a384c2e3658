//! Waiters whose holder dies: what an acquittal needs, and what is stuck.

use super::*;

const WAIT_MS: u64 = 9_000;

/// A history in which A holds the lock and others wait for it. The requests are numbered from 1.
fn waiting() -> HistoryBuilder {
    let history = HistoryBuilder::of(Scenario::Waiters)
        .asks("A", KEY, 0.0, 0)
        .grants("A", KEY, 1, 1.0, 1, None)
        .reads("A", 2.0, 1);
    let waiters = ["B", "C", "D", "E"]
        .into_iter()
        .zip([10.0, 20.0, 30.0, 40.0]);
    waiters.fold(history, |history, (who, at)| {
        history.asks(who, KEY, at, WAIT_MS)
    })
}

/// The numbers of the requests of B, C, D and E.
const OPS: [u64; 4] = [5, 6, 7, 8];

/// C dies while it waits, then A while it holds the lock, and then B, which has taken over.
fn deaths() -> HistoryBuilder {
    waiting()
        .fault("C", 50.0, Fault::Killed)
        .fault("A", 51.0, Fault::Killed)
        .grants("B", KEY, OPS[0], 1_001.0, 1, None)
        .fault("B", 1_002.0, Fault::Killed)
}

fn served(history: HistoryBuilder, who: &str, op: u64, at: f64) -> HistoryBuilder {
    history
        .grants(who, KEY, op, at, 1, None)
        .reads(who, at + 1.0, 1)
        .releases(who, at + 2.0, 1, RELEASED)
}

#[test]
fn everybody_who_lives_is_served() {
    let all = served(deaths(), "D", OPS[2], 2_003.0);
    let joined = all.events().len() as u64 + 1;
    let without_new = served(all.clone(), "E", OPS[3], 2_010.0).judged();
    assert_eq!(missing(&without_new), "waiters");
    assert!(without_new.because.contains("nobody joined"));
    let all = served(all.asks("F", KEY, 2_006.0, WAIT_MS), "F", joined, 2_008.0);
    let not_served = all.judged();
    assert_eq!(
        not_served.because,
        "Nothing broke, and nothing was shown: E was not served."
    );
    let verdict = served(all, "E", OPS[3], 2_020.0).judged();
    held(&verdict);
    assert_eq!(
        verdict.witness,
        [
            "one that waited died of signal 9, then the holder while 3 waited, then B while 2 waited; somebody joined after that"
        ]
    );
    assert_eq!(
        verdict.measured,
        [
            "B took over 950.0 ms after the first kill, and the next process 1,001.0 ms after the second",
            "served in the order B, D, F, E; asked in the order B, D, E, F"
        ]
    );
}

#[test]
fn nothing_is_shown_without_each_death() {
    let released = waiting().releases("A", 900.0, 1, RELEASED);
    let nobody = served(released, "B", OPS[0], 1_003.0).judged();
    assert!(
        nobody.because.contains("nobody was killed while it waited"),
        "{nobody:#?}"
    );
    let no_successor = waiting()
        .fault("C", 50.0, Fault::Killed)
        .fault("A", 51.0, Fault::Killed);
    let no_successor = served(no_successor, "B", OPS[0], 1_003.0).judged();
    assert!(
        no_successor
            .because
            .contains("nobody took over and was killed")
    );
}

#[test]
fn whoever_waits_in_vain_after_the_second_death_is_stuck() {
    let history = deaths()
        .refuses("D", OPS[2], 9_030.0)
        .refuses("E", OPS[3], 9_040.0);
    let verdict = history.judged();
    assert_eq!(verdict.outcome, Outcome::Stuck, "{verdict:#?}");
    assert_eq!(
        shown(&verdict),
        [
            "#12 B is killed (signal 9) while holding",
            "#13 D is still refused"
        ]
    );
    let still_leased = history.looks(9_050.0, true, Some(90.0)).judged();
    assert_eq!(still_leased.outcome, Outcome::Inconclusive);
}

#[test]
fn two_who_take_over_at_once_are_convicted() {
    let both = waiting()
        .fault("C", 50.0, Fault::Killed)
        .fault("A", 51.0, Fault::Killed)
        .grants("D", KEY, OPS[2], 1_001.0, 1, None)
        .asks("F", KEY, 1_002.0, WAIT_MS);
    let op = both.events().len() as u64;
    let verdict = both
        .grants("F", KEY, op, 1_003.0, 1, None)
        .reads("D", 1_020.0, 1)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(verdict.because, "Two holders at once, within D's lease.");
}
