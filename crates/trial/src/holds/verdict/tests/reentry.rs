//! Verdicts on a lock that is asked for twice and released too often, in `reentry`.

use super::*;
use crate::protocol::Claims;

const REENTRANT: Claims = Claims {
    reentrant: true,
    ..Claims::OWNED
};

/// A has the lock and asks for it again; then B waits for it.
fn asked_twice(claims: Claims) -> HistoryBuilder {
    HistoryBuilder::of(Scenario::Reentry)
        .with(if claims.reentrant { "advisory" } else { "safe" })
        .at_store("postgres")
        .promising(claims)
        .ttl(2_000)
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
}

/// A is asked once more to release what it has released.
fn again(history: HistoryBuilder, at: f64) -> HistoryBuilder {
    history
        .releases("A", at, 1, LOST)
        .fault("A", at + 0.4, Fault::OverReleased)
}

/// A is refused, and releases; B gets the lock.
fn refused_once() -> HistoryBuilder {
    asked_twice(Claims::OWNED)
        .tries("A", 4.0)
        .releases("A", 60.0, 1, RELEASED)
        .granted("B", KEY, 61.0, 62.0, 1)
        .reads("B", 63.0, 1)
}

/// A releases its hold again, twice, while B has the lock, and then gets the lock once more.
fn anew() -> HistoryBuilder {
    let history = again(refused_once(), 70.0).tries("C", 72.0);
    let history = again(history, 80.0).tries("C", 82.0);
    let history = history.releases("B", 90.0, 1, RELEASED);
    history.granted("A", KEY, 91.0, 92.0, 2)
}

#[test]
fn whoever_refuses_its_holder_and_ignores_releases_is_acquitted() {
    let verdict = again(anew(), 95.0).tries("C", 97.0).judged();
    held(&verdict);
    assert_eq!(
        verdict.witness[0],
        "A was refused a second hold; two releases too many came while B held the lock, and one of its earlier hold while A had the lock \
         again: C was refused after each"
    );
    // An error, too, is an answer to a release of what was released.
    let refused = anew().refuses_to_release("A", 95.0, 1);
    let refused = refused
        .fault("A", 95.4, Fault::OverReleased)
        .tries("C", 97.0);
    held(&refused.judged());
    // A never had the lock again, or nobody tried to get it then.
    assert_eq!(missing(&anew().judged()), "contention");
    assert_eq!(missing(&again(anew(), 95.0).judged()), "contention");
}

#[test]
fn a_release_of_an_earlier_hold_that_frees_the_new_one_is_broken() {
    let freed = again(anew(), 95.0)
        .granted("C", KEY, 97.0, 98.0, 1)
        .releases("C", 99.0, 1, RELEASED)
        .releases("A", 110.0, 2, LOST);
    let verdict = freed.judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "C got the lock while A had it again: A had released its earlier hold once more."
    );
    assert!(shown(&verdict)[0].ends_with("A answers a release of its earlier hold"));
    // Nobody else got the lock, but A finds its lock gone.
    let gone = again(anew(), 95.0).releases("A", 110.0, 2, LOST);
    let verdict = gone.judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(
        verdict
            .why
            .unwrap()
            .contains("A released its earlier hold once more")
    );
}

#[test]
fn a_second_hold_that_is_not_claimed_is_two_holders() {
    let verdict = asked_twice(Claims::OWNED)
        .granted("A", KEY, 3.0, 4.0, 2)
        .releases("A", 60.0, 2, RELEASED)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "A got the lock a second time while it had it, and the lock does not claim to be re-entrant."
    );
    assert_eq!(verdict.evidence.len(), 1);
}

#[test]
fn a_release_too_many_that_frees_another_lock_is_broken() {
    let freed = again(refused_once(), 70.0)
        .granted("C", KEY, 72.0, 73.0, 1)
        .releases("C", 74.0, 1, RELEASED)
        .writes("B", 90.0, 1, 1);
    let verdict = freed.judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "C got the lock while B held it: A had released it once too often."
    );
    assert_eq!(
        shown(&verdict)[0],
        "#15 A answers a release that is one too many"
    );
    // Nobody else got the lock, but B finds its lock gone.
    let gone = again(refused_once(), 70.0).releases("B", 90.0, 1, LOST);
    let verdict = gone.judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(
        verdict
            .why
            .unwrap()
            .contains("A released it once too often")
    );
}

/// A gets the lock twice, and releases it once.
fn counted() -> HistoryBuilder {
    asked_twice(REENTRANT)
        .granted("A", KEY, 3.0, 4.0, 2)
        .releases("A", 60.0, 2, RELEASED)
}

#[test]
fn a_reentrant_lock_lasts_until_the_second_release() {
    let twice = counted()
        .tries("C", 65.0)
        .releases("A", 70.0, 1, RELEASED)
        .granted("B", KEY, 71.0, 72.0, 1)
        .reads("B", 73.0, 1);
    let history = again(twice.clone(), 75.0).tries("C", 77.0);
    held(&history.judged());
    // Without the last release, nothing is shown of it.
    assert_eq!(missing(&twice.judged()), "contention");
    let early = counted()
        .granted("C", KEY, 64.0, 65.0, 1)
        .writes("A", 70.0, 1, 1);
    let verdict = early.judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "C got the lock after A's first release of two."
    );
}

#[test]
fn a_reentrant_lock_that_refuses_its_holder_is_broken() {
    let verdict = asked_twice(REENTRANT).tries("A", 4.0).judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(verdict.because.contains("claims to be re-entrant"));
    // Its holder said before that the lock was lost.
    let lost = asked_twice(REENTRANT)
        .add(2.5, "A", What::Lost { hold: 1 })
        .tries("A", 4.0)
        .judged();
    assert_eq!(missing(&lost), "contention");
}

#[test]
fn two_holds_of_a_reentrant_lock_may_have_one_fence() {
    let fenced = Claims {
        fencing: true,
        ..REENTRANT
    };
    let twice = |second: &str, claims| {
        HistoryBuilder::of(Scenario::Reentry)
            .with("advisory")
            .at_store("postgres")
            .promising(claims)
            .ttl(2_000)
            .fenced("A", KEY, 1.0, "7")
            .asks("A", KEY, 2.0, 0)
            .grants("A", KEY, 3, 3.0, 2, Some("7"))
            .releases("A", 10.0, 2, RELEASED)
            .releases("A", 11.0, 1, RELEASED)
            .fenced("B", KEY, 14.0, second)
            .judged()
    };
    assert_ne!(twice("8", fenced).outcome, Outcome::Broken);
    assert_eq!(twice("7", fenced).outcome, Outcome::Broken);
}

#[test]
fn without_a_witness_nobody_is_acquitted() {
    assert_eq!(missing(&refused_once().judged()), "contention");
    // One refusal can come after two releases.
    let unprobed = again(again(refused_once(), 70.0), 80.0).tries("C", 85.0);
    let unprobed = unprobed.releases("B", 90.0, 1, RELEASED);
    let unprobed = again(unprobed.granted("A", KEY, 91.0, 92.0, 2), 95.0).tries("C", 97.0);
    held(&unprobed.judged());
    let late = again(again(refused_once(), 2_070.0), 2_080.0).tries("C", 2_090.0);
    assert_eq!(missing(&late.judged()), "contention");
}
