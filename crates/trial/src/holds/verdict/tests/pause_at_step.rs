//! Verdicts on a process that is paused at each reply of its store.

use super::*;
use crate::protocol::Claims;

/// A is stopped at this time, at a reply of its store.
fn stops(history: HistoryBuilder, at: f64) -> HistoryBuilder {
    history
        .fault("A", at, Fault::ReplyHeld)
        .fault("A", at + 1.0, Fault::Stopped)
}

/// A gets its reply and goes on.
fn goes_on(history: HistoryBuilder, at: f64) -> HistoryBuilder {
    history
        .fault("A", at, Fault::ReplyDelivered)
        .fault("A", at, Fault::Continued)
}

/// B takes the lock, and reads.
fn b_comes_in(history: HistoryBuilder, at: f64, hold: u64) -> HistoryBuilder {
    history
        .granted("B", KEY, at, at + 1.0, hold)
        .reads("B", at + 2.0, hold)
}

/// C is refused; B writes and releases.
fn b_is_done(history: HistoryBuilder, at: f64, hold: u64, value: i64) -> HistoryBuilder {
    history
        .tries("C", at)
        .writes("B", at + 1.0, hold, value)
        .releases("B", at + 2.0, hold, RELEASED)
}

fn trial(strategy: &'static str) -> HistoryBuilder {
    HistoryBuilder::of(Scenario::PauseAtStep).with(strategy)
}

/// A asks at 10 ms and is paused until 1040 ms; B has the lock from 1031 ms on. Returns the number of A's request, too.
fn paused_while_asking(strategy: &'static str) -> (HistoryBuilder, u64) {
    let history = trial(strategy);
    let op = history.events().len() as u64 + 1;
    let history = stops(history.asks("A", KEY, 10.0, 0), 11.0);
    (goes_on(b_comes_in(history, 1030.0, 1), 1040.0), op)
}

/// A holds the lock, and is paused from 300 ms to 1340 ms; B has it from 1331 ms on.
fn paused_while_working(strategy: &'static str) -> HistoryBuilder {
    let history = trial(strategy)
        .granted("A", KEY, 10.0, 11.0, 1)
        .reads("A", 12.0, 1);
    goes_on(b_comes_in(stops(history, 300.0), 1330.0, 1), 1340.0)
}

/// A asks for its release at 100 ms, and is paused from 101 to 1140 ms; B has the lock from 1131 ms on.
fn paused_while_releasing(history: HistoryBuilder) -> HistoryBuilder {
    paused_while_releasing_at(history, 100.0)
}

/// The same, with a release at another time.
fn paused_while_releasing_at(history: HistoryBuilder, at: f64) -> HistoryBuilder {
    let history = history
        .granted("A", KEY, 10.0, 11.0, 1)
        .reads("A", 12.0, 1)
        .writes("A", 20.0, 1, 1);
    let op = history.events().len() as u64 + 1;
    let (key, hold) = (KEY.to_owned(), 1);
    let released = What::Released {
        op,
        key: key.clone(),
        hold,
        outcome: RELEASED,
    };
    let history = history.add(at, "A", What::Release { op, key, hold });
    let history = stops(history, at + 1.0);
    let history = goes_on(b_comes_in(history, at + 1030.0, 1), at + 1040.0);
    history.add(at + 1042.0, "A", released)
}

fn why(verdict: &Verdict) -> &str {
    assert_eq!(verdict.outcome, Outcome::Broken, "{verdict:?}");
    verdict.why.as_deref().unwrap()
}

#[test]
fn who_takes_a_late_reply_for_a_refusal_holds() {
    let (history, op) = paused_while_asking("safe");
    let verdict = b_is_done(history.refuses("A", op, 1042.0), 1044.0, 1, 1).judged();
    held(&verdict);
    assert_eq!(
        verdict.witness,
        [
            "A was paused at one reply of its store, for 1,028.0 ms at least on a lease of 1,000 ms: 1 × while it asked for the lock",
            "B had the lock each time when A went on, and C was refused it after A had answered",
        ]
    );
}

#[test]
fn who_takes_a_late_reply_for_a_grant_beside_another_breaks() {
    let (history, op) = paused_while_asking("safe");
    let granted = history.grants("A", KEY, op, 1042.0, 1, None);
    let verdict = b_is_done(granted.clone().releases("A", 1043.0, 1, LOST), 1044.0, 1, 1).judged();
    assert_eq!(
        why(&verdict),
        "A was paused for 1,028.0 ms, while it asked for the lock, before the reply of its store reached it; then it was granted the lock \
         although B held it."
    );
    assert_eq!(
        verdict.because,
        "A was granted the lock after a pause, although B held it."
    );
    assert_eq!(verdict.evidence[0].what, "reply_held");
    // Whoever says that its grant is over does not believe in it.
    let told = granted.valid_for(900.0).releases("A", 1043.0, 1, LOST);
    held(&b_is_done(told, 1044.0, 1, 1).judged());
}

/// On a busy machine, B may have lost its own lease before A asked.
#[test]
fn a_late_grant_beside_a_lease_that_may_be_over_accuses_nobody() {
    let (history, op) = paused_while_asking("safe");
    let history = history.grants("A", KEY, op, 2031.0, 1, None);
    let verdict = b_is_done(history.releases("A", 2032.0, 1, RELEASED), 2034.0, 1, 1).judged();
    assert_eq!(missing(&verdict), "calm");
}

#[test]
fn who_goes_on_with_its_work_after_a_pause_breaks_and_who_declines_does_not() {
    let wrote = paused_while_working("watchdog").writes("A", 1342.0, 1, 1);
    let verdict = b_is_done(wrote, 1344.0, 1, 1).judged();
    assert_eq!(
        why(&verdict),
        "A was paused for 1,039.0 ms, while it held the lock, before the reply of its store reached it; then it went on with its work as \
         if no time had passed."
    );
    let declined = What::Declined { op: 99, hold: 1 };
    let declined = paused_while_working("watchdog").add(1342.0, "A", declined);
    let verdict = b_is_done(declined, 1344.0, 1, 1).judged();
    assert_eq!(
        missing(&verdict),
        "answers",
        "it was not paused while it asked"
    );
    let refused = paused_while_working("fenced").write_refused("A", 1342.0, 1, 1);
    let verdict = b_is_done(refused, 1344.0, 1, 1).judged();
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
}

#[test]
fn a_release_that_frees_the_lock_of_another_breaks() {
    let (history, op) = paused_while_asking("get-then-delete");
    let history = b_is_done(history.refuses("A", op, 1042.0), 1044.0, 1, 1);
    let verdict = paused_while_releasing(trial("get-then-delete"))
        .granted("C", KEY, 1143.0, 1144.0, 1)
        .releases("C", 1145.0, 1, RELEASED)
        .writes("B", 1146.0, 1, 2)
        .releases("B", 1147.0, 1, LOST)
        .judged();
    assert_eq!(
        why(&verdict),
        "A was paused for 1,038.0 ms, while it released the lock, before the reply of its store reached it; what it asked next freed the \
         lock that was there, which was B's."
    );
    assert_eq!(
        verdict.because,
        "A's late release gave B's lock away: C got the lock, too."
    );
    held(&history.judged());
}

/// Every pause must have met somebody, or it shows nothing.
#[test]
fn a_pause_beside_which_nobody_has_the_lock_shows_nothing() {
    let history = trial("safe");
    let op = history.events().len() as u64 + 1;
    let history = stops(history.asks("A", KEY, 10.0, 0), 11.0);
    let refused = goes_on(history.clone().waits_in_vain("B", 1030.0, 4130.0), 4140.0);
    let refused = refused.grants("A", KEY, op, 4142.0, 1, None);
    let verdict = refused.clone().releases("A", 4143.0, 1, RELEASED).judged();
    assert_eq!(missing(&verdict), "overrun");
    let untimed = refused.promising(Claims::OF_SESSION);
    held(&untimed.releases("A", 4143.0, 1, RELEASED).judged());
    let short = goes_on(b_comes_in(history, 500.0, 1), 900.0).refuses("A", op, 901.0);
    assert_eq!(missing(&b_is_done(short, 903.0, 1, 1).judged()), "pause");
}

/// Whoever deletes what it has just read finds nothing of its own to delete: its lease was over before the pause.
#[test]
fn a_pause_after_the_end_of_the_lease_shows_nothing() {
    let late = |at: f64| {
        let history = paused_while_releasing_at(trial("safe"), at);
        b_is_done(history, at + 1044.0, 1, 2)
    };
    assert_ne!(missing(&late(900.0).judged()), "lease");
    assert_eq!(missing(&late(1050.0).judged()), "lease");
}

/// A is paused again while it releases the lock, or while it asks for it.
fn paused_again(history: HistoryBuilder, asking: bool) -> HistoryBuilder {
    let op = history.events().len() as u64 + 1;
    if asking {
        let history = stops(history.asks("A", KEY, 3000.0, 0), 3001.0);
        goes_on(history, 4100.0).refuses("A", op, 4101.0)
    } else {
        let history = history.granted("A", KEY, 3000.0, 3001.0, 2);
        let history = stops(history.releases("A", 3002.0, 2, RELEASED), 3002.1);
        goes_on(history, 4100.0)
    }
}

/// Only a grant that was in the reply itself had a lease that was over. Whoever asks again after it, such as a lock that looks and then
/// sets, never had one.
#[test]
fn a_lease_is_named_only_if_the_late_reply_was_the_grant() {
    let late = |asking: bool, claims: Option<Claims>| {
        let (history, op) = paused_while_asking("safe");
        let granted = history.grants("A", KEY, op, 1042.0, 1, None);
        let done = b_is_done(granted.releases("A", 1043.0, 1, LOST), 1044.0, 1, 1);
        let all = paused_again(done, asking);
        claims
            .map_or(all.clone(), |claims| all.promising(claims))
            .judged()
    };
    let lease = "; its lease was over by then, and it did not look at the clock.";
    assert!(why(&late(false, None)).ends_with(lease));
    assert!(!why(&late(true, None)).contains("lease"));
    let untimed = Claims {
        untimed: true,
        ..Claims::OWNED
    };
    assert!(!why(&late(false, Some(untimed))).contains("lease"));
}

#[test]
fn a_lock_without_a_lease_is_not_told_that_its_lease_was_over() {
    let untimed = Claims {
        untimed: true,
        ..Claims::OWNED
    };
    let wrote = paused_while_working("safe").writes("A", 1342.0, 1, 1);
    let verdict = b_is_done(wrote.clone().promising(untimed), 1344.0, 1, 1).judged();
    assert_eq!(
        verdict.because,
        "A went on after a pause, and B had the lock: two holders at once. One update is lost."
    );
    let timed = b_is_done(wrote, 1344.0, 1, 1).judged();
    assert!(
        timed
            .because
            .starts_with("A went on after its lease was over")
    );
}

/// The lab pauses a process at its first twelve steps only.
#[test]
fn steps_that_were_not_tried_are_named() {
    let (history, op) = paused_while_asking("safe");
    let paused = b_is_done(history.refuses("A", op, 1042.0), 1044.0, 1, 1);
    let verdict = paused.judged();
    held(&verdict);
    assert!(verdict.limits.unwrap().starts_with(
        "not every step may have been tried: A was paused at one reply, and there may be more; "
    ));
    // In the last round there is no further step.
    let all = paused
        .granted("A", KEY, 2000.0, 2001.0, 2)
        .releases("A", 2600.0, 2, RELEASED)
        .judged();
    assert!(all.limits.unwrap().starts_with("a pause between two steps"));
}

/// The release is answered while A is paused at the reply to something else, which A has sent beside it. So nothing is asked of A, and it has
/// nothing to answer when it goes on.
fn paused_at_a_notice(until_c: f64) -> HistoryBuilder {
    let (history, op) = paused_while_asking("safe");
    let history = b_is_done(history.refuses("A", op, 1042.0), 1044.0, 1, 1)
        .granted("A", KEY, 2000.0, 2001.0, 2)
        .reads("A", 2002.0, 2)
        .writes("A", 2020.0, 2, 2);
    let op = history.events().len() as u64 + 1;
    let (key, hold) = (KEY.to_owned(), 2);
    let released = What::Released {
        op,
        key: key.clone(),
        hold,
        outcome: RELEASED,
    };
    let history = history.add(2030.0, "A", What::Release { op, key, hold });
    let history = stops(history, 2031.0).add(2032.1, "A", released);
    let history = goes_on(b_comes_in(history, 3050.0, 2), 3060.0);
    b_is_done(history, until_c, 2, 3)
}

#[test]
fn who_has_nothing_to_answer_is_done_when_it_goes_on() {
    let verdict = paused_at_a_notice(3062.0).judged();
    held(&verdict);
    assert!(
        verdict.witness[0].ends_with("1 × while nothing was asked of it"),
        "{:?}",
        verdict.witness
    );
    // C asks before A goes on, so nobody has tried B's lock since.
    assert_eq!(missing(&paused_at_a_notice(3060.2).judged()), "third");
}

/// A process that was stopped after it sent its grant has the lock, although the lab reads the grant later.
#[test]
fn a_grant_that_is_read_while_its_process_is_stopped_was_sent_before() {
    let history = trial("watchdog");
    let op = history.events().len() as u64 + 1;
    let history = stops(history.asks("A", KEY, 10.0, 0), 11.0);
    let history = history.grants("A", KEY, op, 12.1, 1, None);
    let history = goes_on(b_comes_in(history, 1030.0, 1), 1040.0);
    let wrote = history.reads("A", 1042.0, 1).writes("A", 1043.0, 1, 1);
    let verdict = b_is_done(wrote, 1045.0, 1, 1).judged();
    assert!(
        why(&verdict).contains("while it held the lock"),
        "{verdict:?}"
    );
}

/// Whatever was shown before, the rest of the trial is missing.
#[test]
fn a_trial_that_does_not_come_to_its_end_acquits_nobody() {
    let (history, op) = paused_while_asking("safe");
    let done = b_is_done(history.refuses("A", op, 1042.0), 1044.0, 1, 1);
    held(&done.judged());
    let why = "for A, B: nothing happened for 60 s".to_owned();
    let verdict = done.add(61_044.0, "", What::GaveUp { why }).judged();
    assert_eq!(missing(&verdict), "answers");
    assert_eq!(
        verdict.because,
        "Nothing broke, and the lab stopped waiting for A, B: nothing happened for 60 s."
    );
}
