//! A process that dies and comes back with the same process id, in `same-pid`.

use super::*;
use crate::protocol::Claims;

/// A takes two locks.
fn taken() -> HistoryBuilder {
    HistoryBuilder::of(Scenario::SamePid)
        .ttl(2_000)
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
        .granted("A", OTHER, 3.0, 4.0, 2)
}

/// A is killed, and comes back.
fn back() -> HistoryBuilder {
    taken()
        .fault("A", 800.0, Fault::Killed)
        .fault("A.2", 820.0, Fault::SamePid)
}

/// A gets the lock again at this time, and B waits for it from 10 ms later until A has released it.
fn again(history: HistoryBuilder, granted: f64, released: f64) -> HistoryBuilder {
    history
        .granted("A.2", KEY, 850.0, granted, 1)
        .reads("A.2", granted + 1.0, 1)
        .writes("A.2", released - 1.0, 1, 1)
        .releases("A.2", released, 1, RELEASED)
}

/// B gets the first lock after that, and C the second one.
fn served(history: HistoryBuilder, asked: f64, granted: f64) -> HistoryBuilder {
    history
        .granted("B", KEY, asked, granted, 1)
        .releases("B", granted + 2.0, 1, RELEASED)
        .granted("C", OTHER, granted + 5.0, granted + 6.0, 1)
        .releases_of("C", OTHER, granted + 8.0, 1, RELEASED)
}

#[test]
fn whoever_waits_for_the_lease_of_the_dead_is_acquitted() {
    let verdict = served(again(back(), 2_003.0, 3_500.0), 2_010.0, 3_501.0).judged();
    held(&verdict);
    assert_eq!(
        verdict.because,
        "A.2 was not taken for the dead A: it got the lock when A's lease was over."
    );
    assert_eq!(
        verdict.measured,
        ["A.2 got the lock 1,203.0 ms after the kill, 1,153.0 ms after it asked"]
    );
    assert!(verdict.notes.is_empty());
}

#[test]
fn whoever_gets_the_lock_early_and_has_it_alone_is_not_accused() {
    let early = || served(again(back(), 852.0, 2_400.0), 860.0, 2_401.0);
    let verdict = early().judged();
    held(&verdict);
    assert_eq!(
        verdict.because,
        "A.2 got the dead A's lock, and had it alone."
    );
    assert_eq!(
        verdict.notes,
        [
            "A.2 got the lock 1,148.5 ms before A's lease was over: either the lock knew that A was dead, or it took A.2 for A"
        ]
    );
    // A session ends with its process: nothing is odd about that.
    let session = early().promising(Claims::OF_SESSION).judged();
    held(&session);
    assert!(session.notes.is_empty());
}

#[test]
fn whoever_is_let_in_on_the_lease_of_the_dead_has_none_of_its_own() {
    let verdict = back()
        .granted("A.2", KEY, 850.0, 852.0, 1)
        .reads("A.2", 853.0, 1)
        .granted("B", KEY, 860.0, 2_002.0, 1)
        .reads("B", 2_003.0, 1)
        .writes("B", 2_004.0, 1, 1)
        .releases("B", 2_005.0, 1, RELEASED)
        .writes("A.2", 2_350.0, 1, 1)
        .releases("A.2", 2_351.0, 1, LOST)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "A.2, which has the dead A's process id, got A's lock, and then B got it, too. One update is lost."
    );
    assert_eq!(
        verdict.why.as_deref(),
        Some(
            "A.2 got the lock 1,148.5 ms before A's lease was over, and B got it 1.5 ms after that end, within A.2's own \
             lease: as if A.2 had been let in on what was left of A's."
        )
    );
    assert_eq!(
        shown(&verdict)[..2],
        [
            "#7 A is killed (signal 9) while it holds product_A",
            "#8 A.2 has the process id that A had"
        ]
    );
}

#[test]
fn a_second_holder_that_the_dead_do_not_explain_gets_the_usual_words() {
    // B gets the lock while the lease of the dead runs as well.
    let verdict = back()
        .granted("A.2", KEY, 850.0, 852.0, 1)
        .granted("B", KEY, 860.0, 900.0, 1)
        .releases("B", 905.0, 1, RELEASED)
        .releases("A.2", 2_351.0, 1, LOST)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(verdict.because, "Two holders at once, within A.2's lease.");
}

#[test]
fn a_lease_that_ends_before_its_late_holder_is_done_accuses_nobody() {
    // A.2 waits for its turn, and the machine is so slow that its lease is over before it writes.
    let verdict = back()
        .granted("A.2", KEY, 850.0, 2_003.0, 1)
        .granted("B", KEY, 2_010.0, 4_004.0, 1)
        .releases("B", 4_005.0, 1, RELEASED)
        .releases("A.2", 4_100.0, 1, LOST)
        .judged();
    assert_eq!(missing(&verdict), "calm");
}

#[test]
fn fences_grow_also_for_the_same_process_id() {
    let again = |fence| {
        HistoryBuilder::of(Scenario::SamePid)
            .with("fenced")
            .ttl(2_000)
            .fenced("A", KEY, 1.0, "5.0")
            .fenced("A", OTHER, 3.0, "5.0")
            .fault("A", 800.0, Fault::Killed)
            .fault("A.2", 820.0, Fault::SamePid)
            .fenced("A.2", KEY, 850.0, fence)
            .judged()
    };
    let verdict = again("5.0");
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "Fences do not grow: A.2 was granted product_A with fence 5.0, after A with fence 5.0."
    );
    assert_eq!(again("6.0").outcome, Outcome::Inconclusive);
}

#[test]
fn a_lock_that_looks_alive_for_ever_is_stuck() {
    let wait = |history: HistoryBuilder, who: &str, key: &str, from: f64, until: f64| {
        let op = history.events().len() as u64 + 1;
        let refused = What::Refused {
            op,
            key: key.into(),
        };
        history.asks(who, key, from, 6_020).add(until, who, refused)
    };
    let first = wait(back(), "A.2", KEY, 850.0, 6_871.0);
    let verdict = wait(first, "C", OTHER, 6_872.0, 12_893.0).judged();
    assert_eq!(verdict.outcome, Outcome::Stuck);
    assert_eq!(
        verdict.because,
        "The holder is dead, and 12,093.0 ms (6 × TTL) later nobody can have its lock."
    );
}

#[test]
fn an_acquittal_needs_the_death_the_same_number_and_everybody_served() {
    let all = served(again(back(), 2_003.0, 3_500.0), 2_010.0, 3_501.0);
    held(&all.judged());
    let place_of = |what: &dyn Fn(&What) -> bool| {
        let found = all.events().iter().position(|event| what(&event.what));
        found.unwrap()
    };
    let fault = |wanted| {
        place_of(&move |what: &What| matches!(what, What::Fault { fault } if *fault == wanted))
    };
    let judged = |place| all.without(place).judged();
    // Without its death, A never gave up its first hold.
    assert_eq!(missing(&judged(fault(Fault::Killed))), "calm");
    let is_second = |what: &What| matches!(what, What::Acquired { key, .. } if key == OTHER);
    assert_eq!(missing(&judged(place_of(&is_second))), "kill");
    assert_eq!(missing(&judged(fault(Fault::SamePid))), "pid");
    // B asks when the lock is free, or C asks for nothing.
    let nobody_waits = served(again(back(), 2_003.0, 3_500.0), 3_502.0, 3_503.0);
    assert_eq!(missing(&nobody_waits.judged()), "contention");
    let left = again(back(), 2_003.0, 3_500.0).granted("B", KEY, 2_010.0, 3_501.0, 1);
    assert_eq!(missing(&left.judged()), "answers");
    assert_eq!(missing(&back().judged()), "answers");
    // The process was slow to start.
    let slow = taken()
        .fault("A", 800.0, Fault::Killed)
        .fault("A.2", 820.0, Fault::SamePid)
        .granted("A.2", KEY, 2_100.0, 2_101.0, 1)
        .releases("A.2", 3_500.0, 1, RELEASED);
    let slow = served(slow, 2_110.0, 3_501.0);
    assert_eq!(missing(&slow.judged()), "start");
    held(&slow.promising(Claims::OF_SESSION).judged());
}

#[test]
fn a_process_that_starts_slowly_is_no_slow_recovery() {
    let claims = Claims {
        recovery_ms: Some(100),
        ..Claims::OWNED
    };
    let verdict = served(again(back(), 2_003.0, 3_500.0), 2_010.0, 3_501.0)
        .promising(claims)
        .judged();
    held(&verdict);
    assert!(!verdict.violates("recovery"));
}
