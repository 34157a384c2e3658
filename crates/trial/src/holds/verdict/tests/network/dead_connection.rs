//! Verdicts on a holder whose connections die silently.

use super::*;
use crate::protocol::Claims;

const KEPT_ALIVE: Claims = Claims {
    keep_alive: true,
    ..Claims::PLAIN
};

/// A has the lock, on a lease of two seconds.
fn begun() -> HistoryBuilder {
    HistoryBuilder::of(Scenario::DeadConnection)
        .promising(KEPT_ALIVE)
        .ttl(2_000)
        .granted("A", KEY, 0.0, 1.0, 1)
}

/// B is refused when a lease that was not renewed would be over. Then A's connections die.
fn dead() -> HistoryBuilder {
    let renewed = begun().tries("B", 2_590.0);
    renewed.fault("A", 2_600.0, Fault::ConnectionsDead)
}

/// B takes a lock of its own, which takes this long.
fn control(history: HistoryBuilder, took: f64) -> HistoryBuilder {
    history
        .granted("B", OTHER, 3_100.0, 3_100.0 + took, 1)
        .releases_of("B", OTHER, 3_700.0, 1, RELEASED)
}

fn ends(history: HistoryBuilder, outcome: ReleaseResult) -> Verdict {
    history
        .reads("A", 7_100.0, 1)
        .releases("A", 7_101.0, 1, outcome)
        .judged()
}

#[test]
fn whoever_connects_again_in_time_holds() {
    let history = control(dead(), 1.0).tries("B", 3_900.0).tries("B", 7_000.0);
    let verdict = ends(history, RELEASED);
    assert_eq!(verdict.outcome, Outcome::Held, "{verdict:#?}");
    assert_eq!(
        verdict.witness,
        [
            "A's open connections died silently, and new ones worked; 4,400.0 ms later B was still refused the lock, on a lease of 2,000.0 ms"
        ]
    );
}

#[test]
fn another_holder_breaks_and_so_does_a_loss_that_is_told_or_found() {
    let calm = || control(dead(), 1.0);
    let taken = calm().granted("B", KEY, 4_800.0, 4_801.0, 2);
    let told = calm().add(4_700.0, "A", What::Lost { hold: 1 });
    let because = "A lost its lock when its connections died silently, although new ones worked.";
    for verdict in [ends(taken, RELEASED), ends(told, LOST), ends(calm(), LOST)] {
        assert_eq!(verdict.outcome, Outcome::Broken, "{verdict:#?}");
        assert_eq!(verdict.because, because);
        assert_eq!(verdict.evidence.len(), 2);
    }
    let verdict = ends(calm().granted("B", KEY, 4_800.0, 4_801.0, 2), RELEASED);
    assert_eq!(
        verdict.why.unwrap(),
        "A's connections had died 2,201.0 ms before, and the store answered B within 1.0 ms. On a lease of 2,000.0 ms, a lock that is renewed over a new connection is kept; one that belongs to its connection ends with it."
    );
}

#[test]
fn who_gives_up_a_lock_that_nobody_else_could_have_is_not_convicted() {
    let told = control(dead(), 1.0).add(4_700.0, "A", What::Lost { hold: 1 });
    let verdict = ends(told.tries("B", 7_000.0), RELEASED);
    assert_eq!(missing(&verdict), "loss");
}

#[test]
fn a_grant_after_the_release_is_no_loss() {
    let history = control(dead(), 1.0).tries("B", 7_000.0);
    let verdict = history
        .releases("A", 7_101.0, 1, RELEASED)
        .granted("B", KEY, 7_110.0, 7_111.0, 2)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Held, "{verdict:#?}");
}

#[test]
fn a_short_lease_a_stall_and_a_slow_store_accuse_nobody() {
    let lost = |history: HistoryBuilder| history.add(4_700.0, "A", What::Lost { hold: 1 });
    let stall = What::Stalled { for_ms: 300.0 };
    for history in [
        control(dead(), 1.0).ttl(1_900),
        control(dead(), 1.0).add(4_600.0, "", stall),
        control(dead(), 501.0),
    ] {
        let verdict = ends(lost(history), LOST);
        assert_eq!(missing(&verdict), "calm", "{verdict:#?}");
        assert_eq!(verdict.outcome, Outcome::Inconclusive, "{verdict:#?}");
    }
}

#[test]
fn without_a_dead_connection_or_a_late_refusal_nothing_is_shown() {
    let early = control(dead(), 1.0).tries("B", 4_500.0);
    let nothing = HistoryBuilder::of(Scenario::DeadConnection)
        .promising(KEPT_ALIVE)
        .granted("A", KEY, 0.0, 1.0, 1)
        .tries("B", 7_000.0);
    let not_claimed = control(dead(), 1.0)
        .granted("B", KEY, 4_800.0, 4_801.0, 2)
        .promising(Claims::PLAIN);
    for history in [early, nothing, not_claimed] {
        let verdict = ends(history, RELEASED);
        assert_eq!(verdict.outcome, Outcome::Inconclusive, "{verdict:#?}");
    }
}

/// Otherwise the renewals may have had no connection yet.
#[test]
fn a_lease_that_was_not_renewed_before_shows_nothing() {
    let never = begun().fault("A", 2_600.0, Fault::ConnectionsDead);
    let early = begun()
        .tries("B", 1_990.0)
        .fault("A", 2_600.0, Fault::ConnectionsDead);
    for history in [never, early] {
        let verdict = ends(control(history, 1.0).tries("B", 7_000.0), RELEASED);
        assert_eq!(missing(&verdict), "renewal", "{verdict:#?}");
    }
}

#[test]
fn whoever_never_renews_is_not_told_that_its_connections_are_the_reason() {
    let lost = begun()
        .granted("B", KEY, 2_100.0, 2_101.0, 2)
        .releases("B", 2_102.0, 2, RELEASED)
        .fault("A", 2_500.0, Fault::ConnectionsDead);
    let verdict = ends(lost, LOST);
    assert_eq!(verdict.outcome, Outcome::Broken, "{verdict:#?}");
    assert_eq!(
        verdict.because,
        "A lost its lock before its connections died."
    );
    assert_eq!(verdict.evidence[0].what, "granted");
}
