//! Verdicts on locks whose replies to a release, or to a renewal, are lost.

use super::*;
use crate::protocol::Claims;

const KEPT_ALIVE: Claims = Claims {
    keep_alive: true,
    ..Claims::PLAIN
};

/// A releases the lock, and B gets it at once. Then A takes it again.
fn taken_again() -> HistoryBuilder {
    HistoryBuilder::of(Scenario::LostRelease)
        .granted("A", KEY, 0.0, 1.0, 1)
        .releases("A", 5.0, 1, RELEASED)
        .granted("B", KEY, 10.0, 11.0, 1)
        .releases("B", 12.0, 1, RELEASED)
        .granted("A", KEY, 20.0, 21.0, 2)
}

fn sends_release(history: HistoryBuilder, at: f64) -> HistoryBuilder {
    let (op, key, hold) = (history.events().len() as u64 + 1, KEY.into(), 2);
    history.add(at, "A", What::Release { op, key, hold })
}

fn answers(history: HistoryBuilder, at: f64, outcome: Option<ReleaseResult>) -> HistoryBuilder {
    let (op, key, hold) = (history.events().len() as u64, KEY.into(), 2);
    let what = match outcome {
        Some(outcome) => What::Released {
            op,
            key,
            hold,
            outcome,
        },
        None => What::Failed {
            op,
            definite: false,
            message: "end of file".into(),
        },
    };
    history.add(at, "A", what)
}

/// The reply to A's release is held back, B gets the lock, the reply is lost, and A answers.
fn lost_beside(outcome: Option<ReleaseResult>) -> HistoryBuilder {
    let history = sends_release(taken_again(), 25.0)
        .fault("A", 26.0, Fault::ReplyHeld)
        .granted("B", KEY, 30.0, 31.0, 2)
        .reads("B", 32.0, 2)
        .fault("A", 35.0, Fault::ReplyLost);
    answers(history, 40.0, outcome)
}

#[test]
fn whoever_leaves_the_lock_of_another_alone_holds_whatever_it_answers() {
    let unknown = ReleaseResult::Unknown;
    for outcome in [Some(RELEASED), Some(LOST), Some(unknown), None] {
        let verdict = lost_beside(outcome)
            .tries("C", 45.0)
            .releases("B", 60.0, 2, RELEASED)
            .judged();
        held(&verdict);
        assert!(
            verdict.witness[1].starts_with("one time, B had the lock"),
            "{verdict:#?}"
        );
    }
}

#[test]
fn a_repeated_release_that_frees_the_lock_of_another_breaks() {
    let verdict = lost_beside(Some(RELEASED))
        .granted("C", KEY, 44.0, 45.0, 1)
        .releases("C", 50.0, 1, RELEASED)
        .releases("B", 60.0, 2, LOST)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "Two holders at once: the reply to A's release was lost, and A's release freed B's lock."
    );
    let what: Vec<&str> = verdict.evidence.iter().map(|one| &*one.what).collect();
    assert_eq!(what[..3], ["reply_lost", "answered", "granted"]);
    // Nobody else came in, but B finds its lock gone.
    let gone = lost_beside(None).releases("B", 60.0, 2, LOST).judged();
    assert_eq!(gone.outcome, Outcome::Broken);
}

/// Who else freed B's lock is not A's doing.
#[test]
fn two_holders_before_a_has_answered_are_not_explained_by_its_release() {
    let history = sends_release(taken_again(), 25.0)
        .fault("A", 26.0, Fault::ReplyHeld)
        .granted("B", KEY, 30.0, 31.0, 2)
        .granted("C", KEY, 32.0, 33.0, 1)
        .fault("A", 35.0, Fault::ReplyLost);
    let verdict = answers(history, 40.0, None)
        .releases("C", 50.0, 1, RELEASED)
        .releases("B", 60.0, 2, RELEASED)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(
        !verdict.because.contains("A's release"),
        "{}",
        verdict.because
    );
}

#[test]
fn a_lost_reply_shows_something_only_beside_a_certain_hold() {
    let alone = sends_release(taken_again(), 25.0).fault("A", 26.0, Fault::ReplyLost);
    let alone = answers(alone, 27.0, None)
        .granted("B", KEY, 30.0, 31.0, 2)
        .releases("B", 60.0, 2, RELEASED);
    assert_eq!(missing(&alone.judged()), "contention");
    let nobody_tried = lost_beside(None).releases("B", 60.0, 2, RELEASED);
    assert_eq!(missing(&nobody_tried.judged()), "contention");
    let too_late = lost_beside(None)
        .tries("C", 1_031.0)
        .releases("B", 1_040.0, 2, RELEASED);
    assert_eq!(missing(&too_late.judged()), "contention");
    let nothing = taken_again().releases("A", 25.0, 2, RELEASED);
    assert_eq!(missing(&nothing.judged()), "loss");
}

#[test]
fn a_release_that_was_not_carried_out_and_is_called_done_breaks() {
    let history = sends_release(taken_again(), 25.0).fault("A", 26.0, Fault::ReplyLost);
    let verdict = answers(history, 27.0, Some(RELEASED))
        .tries("B", 30.0)
        .tries("B", 560.0)
        .granted("B", KEY, 600.0, 1_020.0, 2)
        .releases("B", 1_021.0, 2, RELEASED)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "A reply to A's release was lost, and A called it released: 532.5 ms later B was still refused."
    );
}

/// A renewal fails at 500 ms, on a lease of two seconds.
fn failed(fault: Fault) -> HistoryBuilder {
    HistoryBuilder::of(Scenario::FailedRenewal)
        .promising(KEPT_ALIVE)
        .ttl(2_000)
        .granted("A", KEY, 0.0, 1.0, 1)
        .fault("A", 500.0, fault)
}

/// B takes a lock of its own, which takes this long.
fn beside(history: HistoryBuilder, took: f64) -> HistoryBuilder {
    history
        .granted("B", OTHER, 600.0, 600.0 + took, 1)
        .releases_of("B", OTHER, 1_200.0, 1, RELEASED)
}

#[test]
fn whoever_renews_again_holds() {
    for (fault, begins) in [
        (Fault::ReplyLost, "the reply to a renewal of A's was lost"),
        (Fault::AnsweredLoading, "a renewal of A's met -LOADING"),
    ] {
        let verdict = beside(failed(fault), 1.0)
            .tries("B", 4_000.0)
            .releases("A", 5_000.0, 1, RELEASED)
            .judged();
        held(&verdict);
        assert!(verdict.witness[0].starts_with(begins), "{verdict:#?}");
    }
}

#[test]
fn whoever_loses_its_lock_with_one_renewal_breaks() {
    let told = |history: HistoryBuilder| history.add(2_100.0, "A", What::Lost { hold: 1 });
    let taken = |history: HistoryBuilder| history.granted("B", KEY, 2_100.0, 2_101.0, 2);
    for lost in [told as fn(_) -> _, taken] {
        let calm = lost(beside(failed(Fault::ReplyLost), 1.0));
        let verdict = calm.releases("A", 5_000.0, 1, LOST).judged();
        assert_eq!(verdict.outcome, Outcome::Broken, "{verdict:#?}");
        assert_eq!(verdict.evidence[0].what, "reply_lost");
        let stalled = failed(Fault::ReplyLost).stalls(900.0, 1_300.0);
        for excused in [
            beside(stalled, 1.0),
            beside(failed(Fault::ReplyLost), 501.0),
            beside(failed(Fault::ReplyLost), 1.0).ttl(1_900),
        ] {
            let verdict = lost(excused).releases("A", 5_000.0, 1, LOST).judged();
            assert_eq!(missing(&verdict), "calm");
        }
    }
}

#[test]
fn without_a_failed_renewal_or_a_late_refusal_nothing_is_shown() {
    let early = beside(failed(Fault::ReplyLost), 1.0).tries("B", 2_400.0);
    let early = early.releases("A", 5_000.0, 1, RELEASED).judged();
    assert_eq!(early.outcome, Outcome::Inconclusive);
    let none = HistoryBuilder::of(Scenario::FailedRenewal)
        .promising(KEPT_ALIVE)
        .ttl(2_000)
        .granted("A", KEY, 0.0, 1.0, 1)
        .tries("B", 4_000.0)
        .releases("A", 5_000.0, 1, RELEASED);
    assert_eq!(missing(&none.judged()), "renewal");
    let plain = beside(failed(Fault::ReplyLost), 1.0).promising(Claims::PLAIN);
    assert_eq!(missing(&plain.judged()), "claim");
}

/// A reply that arrives in the end was not lost.
#[test]
fn a_reply_that_was_only_held_back_is_not_called_lost() {
    let history = sends_release(taken_again(), 25.0)
        .fault("A", 26.0, Fault::ReplyHeld)
        .granted("B", KEY, 30.0, 31.0, 2)
        .reads("B", 32.0, 2)
        .fault("A", 35.0, Fault::ReplyDelivered);
    let verdict = answers(history, 40.0, Some(RELEASED))
        .granted("C", KEY, 44.0, 45.0, 1)
        .releases("C", 50.0, 1, RELEASED)
        .releases("B", 60.0, 2, LOST)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "Two holders at once: the reply to A's release was held back, and A's release freed B's lock."
    );
    let what: Vec<&str> = verdict.evidence.iter().map(|one| &*one.what).collect();
    assert_eq!(what[..3], ["reply_held", "answered", "granted"]);
    assert_eq!(
        verdict.evidence[0].sentence,
        "the store's reply to A is held back"
    );
    let why = verdict.why.unwrap();
    assert!(!why.contains("lost"), "{why}");
}

/// An error shows that the lease was not extended, so what was left when it came must have been enough.
#[test]
fn whoever_renews_late_had_no_time_for_another() {
    let lost = |at: f64| {
        let history = HistoryBuilder::of(Scenario::FailedRenewal)
            .promising(KEPT_ALIVE)
            .ttl(2_000)
            .granted("A", KEY, 0.0, 1.0, 1);
        let history = beside(history, 1.0).fault("A", at, Fault::AnsweredLoading);
        let history = history.granted("B", KEY, 2_100.0, 2_101.0, 2);
        history.releases("A", 5_000.0, 1, LOST).judged()
    };
    assert_eq!(lost(800.0).outcome, Outcome::Broken);
    assert_eq!(missing(&lost(1_300.0)), "time");
}

/// Two holds are mixed within the lease, but nobody is seen to believe in both at once: A stated a shorter validity.
#[test]
fn damage_within_a_lease_breaks_without_an_overlap() {
    for scenario in [
        Scenario::LostRelease,
        Scenario::LostReply,
        Scenario::StoreErrors,
    ] {
        let mixed = |valid_ms: f64| {
            HistoryBuilder::of(scenario)
                .granted("A", KEY, 0.0, 1.0, 1)
                .reads("A", 2.0, 1)
                .add(3.0, "A", What::Lost { hold: 1 })
                .granted("B", KEY, 10.0, 11.0, 1)
                .valid_for(valid_ms)
                .reads("B", 12.0, 1)
                .writes("A", 20.0, 1, 1)
                .writes("B", 21.0, 1, 1)
                .judged()
        };
        let verdict = mixed(900.0);
        assert_eq!(verdict.outcome, Outcome::Broken, "{verdict:#?}");
        // B's own validity is over by then.
        let verdict = mixed(5.0);
        assert_eq!(verdict.outcome, Outcome::Inconclusive, "{verdict:#?}");
    }
}
