//! Verdicts on locks whose store answers with errors.

use super::*;
use crate::protocol::Claims;

const KEPT_ALIVE: Claims = Claims {
    keep_alive: true,
    ..Claims::PLAIN
};

fn fails(history: HistoryBuilder, at: f64) -> HistoryBuilder {
    let what = What::Failed {
        op: history.events().len() as u64,
        definite: false,
        message: "LOADING".into(),
    };
    history.add(at, "A", what)
}

/// A asks at this time, meets this error, and is told of it.
fn refused(history: HistoryBuilder, at: f64, fault: Fault) -> HistoryBuilder {
    let op = history.events().len() as u64 + 1;
    let failed = What::Failed {
        op,
        definite: false,
        message: "LOADING".into(),
    };
    history
        .asks("A", KEY, at, 0)
        .fault("A", at + 1.0, fault)
        .add(at + 2.0, "A", failed)
}

/// A releases this hold at this time, and meets an error.
fn sends_release(history: HistoryBuilder, at: f64, hold: u64) -> HistoryBuilder {
    let (op, key) = (history.events().len() as u64 + 1, KEY.into());
    history.add(at, "A", What::Release { op, key, hold }).fault(
        "A",
        at + 1.0,
        Fault::AnsweredReadOnly,
    )
}

fn says(history: HistoryBuilder, at: f64, hold: u64, outcome: ReleaseResult) -> HistoryBuilder {
    let (op, key) = (history.events().len() as u64, KEY.into());
    let what = What::Released {
        op,
        key,
        hold,
        outcome,
    };
    history.add(at, "A", what)
}

/// A releases the lock, and B gets it at once: no error yet.
fn control() -> HistoryBuilder {
    HistoryBuilder::of(Scenario::StoreErrors)
        .granted("A", KEY, 0.0, 1.0, 1)
        .releases("A", 5.0, 1, RELEASED)
        .granted("B", KEY, 10.0, 11.0, 1)
        .releases("B", 12.0, 1, RELEASED)
}

/// A takes the lock, and its release at 25 ms meets an error.
fn releasing() -> HistoryBuilder {
    sends_release(control().granted("A", KEY, 20.0, 21.0, 2), 25.0, 2)
}

/// B gets the lock when A's lease is over.
fn waited(history: HistoryBuilder) -> HistoryBuilder {
    history
        .granted("B", KEY, 600.0, 1_020.0, 2)
        .releases("B", 1_021.0, 2, RELEASED)
}

/// A's requests meet errors: for the free lock, and for B's.
fn requesting(history: HistoryBuilder) -> HistoryBuilder {
    let history = refused(history, 1_030.0, Fault::AnsweredLoading);
    let history = history
        .granted("B", KEY, 1_040.0, 1_041.0, 3)
        .releases("B", 1_042.0, 3, RELEASED)
        .granted("B", KEY, 1_050.0, 1_051.0, 4);
    refused(history, 1_060.0, Fault::AnsweredOom).releases("B", 1_070.0, 4, RELEASED)
}

#[test]
fn an_error_that_is_told_holds() {
    let history = requesting(waited(fails(releasing(), 27.0).tries("B", 30.0)));
    let verdict = history.judged();
    held(&verdict);
    assert_eq!(
        verdict.witness,
        [
            "the store answered two requests of A's with an error; A's answers: 2 × error; B had the lock 9.0 ms after that at the latest",
            "the store answered one release of A's with an error: B had the lock 994.0 ms after that at the latest",
        ]
    );
}

#[test]
fn a_release_that_is_false_breaks() {
    let lie = says(releasing(), 27.0, 2, RELEASED)
        .tries("B", 30.0)
        .tries("B", 300.0)
        .tries("B", 560.0);
    let verdict = requesting(waited(lie)).judged();
    assert_eq!(verdict.outcome, Outcome::Broken, "{verdict:#?}");
    assert_eq!(
        verdict.because,
        "The store answered A's release with -READONLY, and A called it released: 532.5 ms later B was still refused."
    );
    let what: Vec<&str> = verdict.evidence.iter().map(|one| &*one.what).collect();
    assert_eq!(what, ["error", "released", "refused"]);
}

#[test]
fn nobody_is_accused_of_a_false_release_without_proof() {
    let at = |history: HistoryBuilder, refusal: f64| {
        requesting(waited(says(history, 27.0, 2, RELEASED).tries("B", refusal))).judged()
    };
    held(&at(releasing(), 520.0));
    assert_eq!(at(releasing(), 560.0).outcome, Outcome::Broken);
    let stalled = says(releasing(), 27.0, 2, RELEASED)
        .stalls(100.0, 350.0)
        .tries("B", 560.0);
    assert_eq!(missing(&requesting(waited(stalled)).judged()), "calm");
    // Somebody got the lock in time, and refuses the other for another reason.
    let freed = says(releasing(), 27.0, 2, RELEASED)
        .granted("B", KEY, 30.0, 31.0, 9)
        .releases("B", 32.0, 9, RELEASED)
        .tries("B", 560.0);
    held(&requesting(waited(freed)).judged());
    // A lock that does not come free at once without an error either.
    let slow = HistoryBuilder::of(Scenario::StoreErrors)
        .granted("A", KEY, 0.0, 1.0, 1)
        .releases("A", 2.0, 1, RELEASED)
        .tries("B", 3.0)
        .granted("A", KEY, 20.0, 21.0, 2);
    held(&at(sends_release(slow, 25.0, 2), 560.0));
    // It says that it does not know.
    let unknown = says(releasing(), 27.0, 2, ReleaseResult::Unknown).tries("B", 560.0);
    held(&requesting(waited(unknown)).judged());
}

/// The store may have released it at the first request.
#[test]
fn a_repeated_release_that_finds_nothing_is_no_loss() {
    let history = says(releasing(), 27.0, 2, LOST);
    held(&requesting(waited(history)).judged());
    let without = control()
        .granted("A", KEY, 20.0, 21.0, 2)
        .releases("A", 25.0, 2, LOST);
    assert_eq!(
        requesting(waited(without)).judged().outcome,
        Outcome::Broken
    );
}

#[test]
fn an_error_that_is_taken_for_a_grant_breaks() {
    let history = control().granted("B", KEY, 20.0, 21.0, 2);
    let op = history.events().len() as u64 + 1;
    let verdict = history
        .asks("A", KEY, 30.0, 0)
        .fault("A", 31.0, Fault::AnsweredOom)
        .grants("A", KEY, op, 32.0, 2, None)
        .releases("A", 40.0, 2, RELEASED)
        .releases("B", 50.0, 2, RELEASED)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.why.unwrap(),
        "The store answered A's request with -OOM while B held the lock. A took that for a grant, or asked again and was let in."
    );
}

#[test]
fn without_errors_in_both_nothing_is_shown() {
    assert_eq!(missing(&waited(control()).judged()), "contention");
    let no_release = control().granted("A", KEY, 20.0, 21.0, 2);
    let no_release = no_release.releases("A", 25.0, 2, RELEASED);
    assert_eq!(missing(&requesting(waited(no_release)).judged()), "error");
    let no_request = waited(fails(releasing(), 27.0)).judged();
    assert_eq!(missing(&no_request), "contention");
    let ended = fails(releasing(), 27.0).granted("B", KEY, 1_050.0, 1_051.0, 4);
    let ended = refused(ended, 1_060.0, Fault::AnsweredOom);
    held(&ended.releases("B", 1_070.0, 4, RELEASED).judged());
}

#[test]
fn what_stays_after_an_error_is_stuck() {
    let history = refused(control(), 20.0, Fault::AnsweredLoading);
    let verdict = history
        .waits_in_vain("B", 30.0, 3_100.0)
        .looks(3_101.0, true, None)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Stuck);
    assert_eq!(
        verdict.because,
        "The store answered A with -LOADING, and 3,070.0 ms (3 × TTL) later nobody can have the lock."
    );
}

/// A's renewals meet errors from 2,000 ms on.
fn renewing() -> HistoryBuilder {
    requesting(waited(fails(releasing(), 27.0)))
        .promising(KEPT_ALIVE)
        .granted("A", KEY, 1_980.0, 1_981.0, 5)
        .reads("A", 1_982.0, 5)
        .fault("A", 2_000.0, Fault::AnsweredLoading)
}

/// B gets the lock, and is done before A is asked to write.
fn overtaken(history: HistoryBuilder) -> HistoryBuilder {
    history
        .granted("B", KEY, 2_900.0, 3_000.0, 5)
        .reads("B", 3_001.0, 5)
        .writes("B", 3_002.0, 5, 1)
        .releases("B", 3_003.0, 5, RELEASED)
}

#[test]
fn an_error_that_is_taken_for_a_renewal_breaks() {
    let verdict = overtaken(renewing())
        .writes("A", 3_100.0, 5, 1)
        .releases("A", 3_110.0, 5, LOST)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(verdict.because.starts_with("A wrote over B's update"));
    assert_eq!(verdict.evidence[0].what, "error");
    let why = verdict.why.unwrap();
    assert!(
        why.starts_with("The store answered every renewal with -LOADING"),
        "{why}"
    );
}

#[test]
fn who_counts_from_the_last_renewal_holds() {
    let declines =
        |history: HistoryBuilder, at: f64| history.add(at, "A", What::Declined { op: 99, hold: 5 });
    let verdict = declines(overtaken(renewing()), 3_100.0).judged();
    held(&verdict);
    assert_eq!(verdict.witness.len(), 3);
    let too_early = overtaken(declines(renewing(), 2_500.0)).judged();
    assert_eq!(missing(&too_early), "overrun");
    let not_met = requesting(waited(fails(releasing(), 27.0))).promising(KEPT_ALIVE);
    assert_eq!(missing(&not_met.judged()), "renewal");
}

/// A plain lease does not claim to last, so what happens after its end shows nothing.
#[test]
fn two_that_meet_after_a_lease_accuse_nobody() {
    let met = requesting(waited(fails(releasing(), 27.0)))
        .granted("B", KEY, 2_000.0, 2_001.0, 5)
        .granted("A", KEY, 3_100.0, 3_101.0, 5)
        .releases("A", 3_110.0, 5, RELEASED)
        .releases("B", 3_120.0, 5, LOST);
    assert_eq!(missing(&met.judged()), "calm");
}

/// Somebody's request may have been carried out although its process was told of an error, or of nothing. What refuses B may be that.
#[test]
fn a_request_whose_outcome_nobody_knows_may_be_what_refuses() {
    let lie = || says(releasing(), 27.0, 2, RELEASED);
    let late_reply = |op, who| {
        let failed = What::Failed {
            op,
            definite: false,
            message: "no reply in time".into(),
        };
        lie().asks(who, KEY, 30.0, 0).add(35.0, who, failed)
    };
    let op = lie().events().len() as u64 + 1;
    for unknown in [
        late_reply(op, "B"),
        late_reply(op, "C"),
        lie().asks("C", KEY, 30.0, 0),
    ] {
        held(&requesting(waited(unknown.tries("B", 560.0))).judged());
    }
    // What was asked later cannot have refused it.
    let later = waited(lie().tries("B", 560.0)).asks("C", KEY, 1_024.0, 0);
    assert_eq!(requesting(later).judged().outcome, Outcome::Broken);
}

#[test]
fn a_lock_comes_free_after_a_release_only_before_its_holder_asks_again() {
    let never = requesting(fails(releasing(), 27.0).tries("B", 30.0));
    assert_eq!(missing(&never.judged()), "answers");
}
