//! Verdicts on a holder whose machine vanishes from the network.

use super::*;
use crate::protocol::Claims;

/// A dies with its machine at 400 ms, on a lease of two seconds. B is refused.
fn gone(claims: Claims) -> HistoryBuilder {
    unseen(claims, |history| history.fault("A", 399.0, Fault::Vanished)).tries("B", 402.0)
}

/// The same up to A's death, with this before it.
fn unseen(claims: Claims, fault: impl FnOnce(HistoryBuilder) -> HistoryBuilder) -> HistoryBuilder {
    let held = HistoryBuilder::of(Scenario::Vanish)
        .promising(claims)
        .ttl(2_000)
        .granted("A", KEY, 0.0, 1.0, 1)
        .reads("A", 2.0, 1);
    fault(held).fault("A", 400.0, Fault::Killed)
}

/// A lock of a session, on a server that looks for dead connections. With the slack, that is six seconds.
const LOOKS: Claims = Claims {
    recovery_ms: Some(4_000),
    ..Claims::OF_SESSION
};

#[test]
fn a_lease_ends_without_its_holder() {
    let verdict = gone(Claims::OWNED)
        .granted("B", KEY, 403.0, 2_004.0, 1)
        .judged();
    held(&verdict);
    assert_eq!(
        verdict.because,
        "Recovered by itself, 1,604.0 ms after A's machine had vanished."
    );
    assert_eq!(
        verdict.witness,
        [
            "A's machine vanished while A held the lock, and no connection of A's ended; B was refused 2.0 ms after A's death"
        ]
    );
    assert_eq!(verdict.measured.len(), 1);
}

#[test]
fn a_server_that_notices_by_itself_in_the_time_that_is_claimed_recovers() {
    let in_time = gone(LOOKS).granted("B", KEY, 403.0, 3_500.0, 1).judged();
    held(&in_time);
    assert!(in_time.measured.is_empty());
    let with_slack = gone(LOOKS).granted("B", KEY, 403.0, 6_300.0, 1).judged();
    held(&with_slack);
}

#[test]
fn whoever_recovers_later_than_it_claims_is_broken() {
    for (claims, at, promised) in [
        (LOOKS, 6_500.0, "4,000.0 ms were promised"),
        (Claims::OF_SESSION, 3_500.0, "100.0 ms were promised"),
        (Claims::OWNED, 4_500.0, "its lease lasts 2,000.0 ms"),
    ] {
        let verdict = gone(claims).granted("B", KEY, 403.0, at, 1).judged();
        assert_eq!(verdict.outcome, Outcome::Broken, "{verdict:#?}");
        assert!(verdict.because.ends_with(&format!("; {promised}.")));
        assert_eq!(
            shown(&verdict)[0],
            "#5 A's machine vanishes: no connection of A's ends"
        );
    }
}

#[test]
fn a_lock_of_a_connection_that_nobody_ends_is_stuck() {
    let verdict = gone(Claims::OF_SESSION)
        .at_store("postgres")
        .waits_in_vain("B", 403.0, 6_420.0)
        .looks(6_421.0, true, None)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Stuck);
    assert_eq!(
        verdict.because,
        "The holder is gone, and 6,020.0 ms (3 × TTL) later nobody can have its lock."
    );
    assert_eq!(
        shown(&verdict),
        [
            "#5 A's machine vanishes: no connection of A's ends",
            "#6 A is killed (signal 9) while holding",
            "#10 B is still refused",
            "#11 the lab reads the store: key there, no expiry, owner gone",
        ]
    );
    assert!(
        verdict
            .why
            .unwrap()
            .starts_with("The lock belongs to a connection")
    );
    // It claims to be free later than that.
    let patient = gone(Claims {
        recovery_ms: Some(5_000),
        ..LOOKS
    });
    let patient = patient
        .waits_in_vain("B", 403.0, 6_420.0)
        .looks(6_421.0, true, None)
        .judged();
    assert_eq!(missing(&patient), "answers");
}

#[test]
fn a_lab_that_stood_still_accuses_nobody() {
    let late = gone(Claims::OWNED)
        .stalls(1_000.0, 1_800.0)
        .granted("B", KEY, 403.0, 4_500.0, 1)
        .judged();
    assert_eq!(missing(&late), "calm");
    let stuck = gone(Claims::OF_SESSION)
        .stalls(1_000.0, 5_000.0)
        .waits_in_vain("B", 403.0, 6_420.0)
        .looks(6_421.0, true, None)
        .judged();
    assert_eq!(missing(&stuck), "calm");
}

#[test]
fn without_a_witness_nobody_is_acquitted() {
    let freed = |history: HistoryBuilder| history.granted("B", KEY, 403.0, 2_004.0, 1).judged();
    let killed = unseen(Claims::OWNED, |history| history).tries("B", 402.0);
    assert_eq!(missing(&freed(killed)), "vanish");
    let alive = HistoryBuilder::of(Scenario::Vanish)
        .granted("A", KEY, 0.0, 1.0, 1)
        .fault("A", 399.0, Fault::Vanished)
        .tries("B", 402.0);
    assert_eq!(missing(&freed(alive)), "vanish");
    // Its death had closed its connections by then.
    let afterwards = unseen(Claims::OWNED, |history| history)
        .fault("A", 401.0, Fault::Vanished)
        .tries("B", 402.0);
    assert_eq!(missing(&freed(afterwards)), "vanish");
    let over = HistoryBuilder::of(Scenario::Vanish)
        .ttl(300)
        .granted("A", KEY, 0.0, 1.0, 1)
        .fault("A", 399.0, Fault::Vanished)
        .fault("A", 400.0, Fault::Killed);
    assert_eq!(missing(&freed(over)), "hold");
    let released = HistoryBuilder::of(Scenario::Vanish)
        .ttl(2_000)
        .granted("A", KEY, 0.0, 1.0, 1)
        .releases("A", 300.0, 1, RELEASED)
        .fault("A", 399.0, Fault::Vanished)
        .fault("A", 400.0, Fault::Killed);
    assert_eq!(missing(&freed(released)), "hold");
    let at_once = unseen(Claims::OWNED, |history| {
        history.fault("A", 399.0, Fault::Vanished)
    })
    .granted("B", KEY, 403.0, 404.0, 1)
    .judged();
    assert_eq!(missing(&at_once), "contention");
}

/// There, a session ends when the server hears nothing of its process, and not with a connection.
#[test]
fn what_a_session_that_ended_leaves_behind_is_not_blamed_on_a_connection() {
    let verdict = gone(Claims::OF_SESSION)
        .at_store("zk")
        .waits_in_vain("B", 403.0, 6_420.0)
        .looks(6_421.0, true, None)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Stuck);
    assert_eq!(
        verdict.why.as_deref(),
        Some("The store still has A's lock, and nothing there ends it.")
    );
}
