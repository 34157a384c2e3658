//! Verdicts on locks whose replies to a release are lost.

use super::*;

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

/// Answers the release that was sent last.
fn answers_release(
    history: HistoryBuilder,
    at: f64,
    outcome: Option<ReleaseResult>,
) -> HistoryBuilder {
    let sent = history
        .events()
        .iter()
        .rev()
        .find_map(|event| match event.what {
            What::Release { op, .. } => Some(op),
            _ => None,
        });
    let (op, key, hold) = (sent.unwrap(), KEY.into(), 2);
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
        .tries("C", 33.0)
        .fault("A", 35.0, Fault::ReplyLost);
    answers_release(history, 40.0, outcome)
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
    assert_eq!(
        what[..5],
        ["reply_lost", "granted", "refused", "answered", "granted"]
    );
    // Nobody else came in, but B finds its lock gone.
    let gone = lost_beside(None).releases("B", 60.0, 2, LOST).judged();
    assert_eq!(gone.outcome, Outcome::Broken);
}

/// B says that its lock is lost when it is asked to write: it is not seen to believe beside C, but it had given up nothing by then.
#[test]
fn a_lock_that_is_freed_for_another_breaks_although_its_holder_declines() {
    let verdict = lost_beside(Some(RELEASED))
        .granted("C", KEY, 44.0, 45.0, 1)
        .releases("C", 50.0, 1, RELEASED)
        .add(55.0, "B", What::Lost { hold: 2 })
        .releases("B", 60.0, 2, LOST)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "B's lock was gone within its lease: the reply to A's release was lost, and A's release freed B's lock."
    );
    assert!(verdict.why.unwrap().starts_with("A's release was done"));
}

/// Whoever excludes nobody needs no release for that.
#[test]
fn a_lock_that_keeps_nobody_out_is_not_said_to_be_freed_by_a_release() {
    let history = sends_release(taken_again(), 25.0)
        .fault("A", 26.0, Fault::ReplyHeld)
        .granted("B", KEY, 30.0, 31.0, 2)
        .reads("B", 32.0, 2)
        .fault("A", 35.0, Fault::ReplyLost);
    let verdict = answers_release(history, 40.0, Some(RELEASED))
        .granted("C", KEY, 44.0, 45.0, 1)
        .releases("C", 50.0, 1, RELEASED)
        .releases("B", 60.0, 2, LOST)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(
        !verdict.because.contains("A's release"),
        "{}",
        verdict.because
    );
}

/// Who else freed B's lock is not A's doing.
#[test]
fn two_holders_before_a_has_answered_are_not_explained_by_its_release() {
    let history = sends_release(taken_again(), 25.0)
        .fault("A", 26.0, Fault::ReplyHeld)
        .granted("B", KEY, 30.0, 31.0, 2)
        .granted("C", KEY, 32.0, 33.0, 1)
        .fault("A", 35.0, Fault::ReplyLost);
    let verdict = answers_release(history, 40.0, None)
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
    let alone = answers_release(alone, 27.0, None)
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
    let verdict = answers_release(history, 27.0, Some(RELEASED))
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

/// A reply that arrives in the end was not lost.
#[test]
fn a_reply_that_was_only_held_back_is_not_called_lost() {
    let history = sends_release(taken_again(), 25.0)
        .fault("A", 26.0, Fault::ReplyHeld)
        .granted("B", KEY, 30.0, 31.0, 2)
        .reads("B", 32.0, 2)
        .tries("C", 33.0)
        .fault("A", 35.0, Fault::ReplyDelivered);
    let verdict = answers_release(history, 40.0, Some(RELEASED))
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
    assert_eq!(
        what[..5],
        ["reply_held", "granted", "refused", "answered", "granted"]
    );
    assert_eq!(
        verdict.evidence[0].sentence,
        "the store's reply to A is held back"
    );
    let why = verdict.why.unwrap();
    assert!(!why.contains("lost"), "{why}");
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
