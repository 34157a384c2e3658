//! Verdicts on a process that holds very many locks while its store is far away.

use super::*;
use crate::holds::many_leases::{CONTROL, KEPT, ONE_MORE, kept, sample};
use crate::protocol::Claims;

const KEPT_ALIVE: Claims = Claims {
    keep_alive: true,
    ..Claims::PLAIN
};
const TTL_MS: u64 = 2_000;
/// When the store is far away: every grant before took half a millisecond.
const FAR_MS: f64 = KEPT as f64;

/// A has all its locks.
fn has_all() -> HistoryBuilder {
    let mut history = HistoryBuilder::of(Scenario::ManyLeases)
        .promising(KEPT_ALIVE)
        .ttl(TTL_MS);
    for (number, key) in (1_u32..).zip(kept()) {
        let at = f64::from(number) - 0.9;
        history = history.granted("A", key, at, at + 0.5, number.into());
    }
    history
}

/// A has all its locks, and asks for one more when the store is far away. The answer takes this long.
fn far(round_trip: f64) -> HistoryBuilder {
    goes_far(has_all(), round_trip)
}

fn goes_far(history: HistoryBuilder, round_trip: f64) -> HistoryBuilder {
    history.fault("A", FAR_MS, Fault::Distant).granted(
        "A",
        ONE_MORE,
        FAR_MS + 1.0,
        FAR_MS + round_trip,
        9_999,
    )
}

/// B takes a lock of its own, which takes this long.
fn control(history: HistoryBuilder, took: f64) -> HistoryBuilder {
    let at = FAR_MS + 2_500.0;
    history.granted("B", CONTROL, at, at + took, 1).releases_of(
        "B",
        CONTROL,
        at + took + 1.0,
        1,
        ReleaseResult::Released,
    )
}

/// B asks for the sample. It is refused, except for what it is granted.
fn asks_for_sample(mut history: HistoryBuilder, granted: &[&str]) -> HistoryBuilder {
    for (number, key) in (0_u32..).zip(sample()) {
        let at = FAR_MS + 4_600.0 + f64::from(number);
        let op = history.events().len() as u64 + 1;
        history = history.asks("B", key, at, 0);
        history = if granted.contains(&key) {
            let hold = u64::from(number) + 100;
            history.grants("B", key, op, at + 0.4, hold, None)
        } else {
            let key = key.into();
            history.add(at + 0.4, "B", What::Refused { op, key })
        };
    }
    history
}

fn says_lost(history: HistoryBuilder, at: f64, hold: u64) -> HistoryBuilder {
    history.add(at, "A", What::Lost { hold })
}

#[test]
fn whoever_keeps_all_its_locks_holds() {
    let verdict = asks_for_sample(control(far(304.0), 1.0), &[]).judged();
    assert_eq!(verdict.outcome, Outcome::Held, "{verdict:#?}");
    assert_eq!(
        verdict.witness[0],
        "A held 2,500 locks, and every message between A and its store took 150 ms longer: A's next lock took 303.0 ms"
    );
    assert_eq!(
        verdict.witness[1],
        "B was refused 50 of them 4,600.4 ms after that began and later, on leases of 2,000.0 ms; A said of none that it was lost"
    );
}

#[test]
fn a_lock_of_the_sample_that_is_granted_to_another_breaks() {
    let verdict = asks_for_sample(control(far(304.0), 1.0), &["lease_50", "lease_2450"]).judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "A lost at least 2 of 2,500 locks while it ran and its store answered."
    );
    let said: Vec<&str> = verdict
        .evidence
        .iter()
        .map(|evidence| evidence.sentence.as_str())
        .collect();
    assert_eq!(
        said,
        [
            "every message between A and its store takes 150 ms longer",
            "B is granted lease_50, which A had not released"
        ]
    );
    assert_eq!(
        verdict.why.unwrap(),
        "A round trip took 300.0 ms or more, so a lease of 2,000.0 ms has room for 6 of them, one after the other. A had 2,500 leases to renew, and claims to renew them all."
    );
}

#[test]
fn a_loss_that_the_holder_tells_breaks_although_nobody_else_has_the_lock() {
    let history = says_lost(control(far(304.0), 1.0), FAR_MS + 3_000.0, 7);
    let verdict = asks_for_sample(history, &[]).judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(verdict.evidence[1].sentence, "A says that lease_6 is lost");
}

#[test]
fn a_lock_that_was_lost_before_the_store_was_far_away_acquits_nobody() {
    let history = goes_far(says_lost(has_all(), FAR_MS - 0.05, 7), 304.0);
    let verdict = asks_for_sample(control(history, 1.0), &[]).judged();
    assert_eq!(missing(&verdict), "holds", "{verdict:#?}");
    assert_eq!(
        verdict.because,
        "A lost 1 lock before its store was far away, so the network shows nothing."
    );
}

#[test]
fn a_stall_of_the_lab_or_of_its_store_accuses_nobody() {
    let lost = |history| says_lost(history, FAR_MS + 3_000.0, 7);
    let stall = What::Stalled { for_ms: 300.0 };
    let stalled = control(far(304.0), 1.0).add(FAR_MS + 2_700.0, "", stall);
    let slow = control(far(304.0), 501.0);
    for history in [stalled, slow] {
        let verdict = asks_for_sample(lost(history), &[]).judged();
        assert_eq!(verdict.outcome, Outcome::Inconclusive, "{verdict:#?}");
        assert_eq!(
            verdict.because,
            "A lost 1 lock, but the lab itself or its store stalled meanwhile."
        );
    }
}

#[test]
fn a_lease_that_is_hardly_longer_than_a_round_trip_accuses_nobody() {
    let history = says_lost(control(far(304.0), 1.0), FAR_MS + 3_000.0, 7).ttl(1_000);
    let verdict = asks_for_sample(history, &[]).judged();
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
}

#[test]
fn a_delay_that_nobody_saw_shows_nothing() {
    let verdict = asks_for_sample(control(far(240.0), 1.0), &[]).judged();
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    let not_far = HistoryBuilder::of(Scenario::ManyLeases)
        .promising(KEPT_ALIVE)
        .granted("A", "lease_0", 0.1, 0.5, 1);
    assert_eq!(not_far.judged().outcome, Outcome::Inconclusive);
}

#[test]
fn a_sample_that_was_asked_for_too_early_or_not_at_all_shows_nothing() {
    let not_asked = control(far(304.0), 1.0);
    assert_eq!(not_asked.judged().outcome, Outcome::Inconclusive);
    let early = asks_for_sample(far(304.0), &[]).ttl(5_000);
    assert_eq!(early.judged().outcome, Outcome::Inconclusive);
}

#[test]
fn a_holder_that_failed_has_lost_nothing() {
    let failed = What::Failed {
        op: 1,
        definite: false,
        message: "ended".into(),
    };
    let history = control(far(304.0), 1.0).add(FAR_MS + 2_900.0, "A", failed);
    let verdict = asks_for_sample(history, &["lease_50"]).judged();
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
}

#[test]
fn a_lock_that_does_not_claim_to_renew_is_not_judged() {
    let history = says_lost(control(far(304.0), 1.0), FAR_MS + 3_000.0, 7);
    let verdict = asks_for_sample(history, &["lease_50"])
        .promising(Claims::PLAIN)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert_eq!(
        verdict.because,
        "Not tried: the lock does not claim to renew its leases."
    );
}
