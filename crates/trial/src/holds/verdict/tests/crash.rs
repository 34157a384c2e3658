//! Recovery after the death of a holder: promises that are shorter than a lease, and leases that are longer than they should be.

use super::*;
use crate::protocol::Claims;
use crate::verdict::Finding;

/// A is killed 100 ms after its grant, on a lease of 500 ms, and B gets the lock at this time.
fn recovers_at(at: f64, claims: Claims) -> HistoryBuilder {
    HistoryBuilder::of(Scenario::Crash)
        .ttl(500)
        .promising(claims)
        .granted("A", KEY, 11.0, 11.9, 1)
        .fault("A", 112.0, Fault::Killed)
        .tries("B", 113.0)
        .granted("B", KEY, 114.0, at, 1)
}

/// A busy machine explains so little, and so does a lock that waits for the end of its lease.
#[test]
fn a_recovery_before_the_end_of_the_lease_must_be_seen_if_it_is_promised() {
    let promised = Claims {
        recovery_ms: Some(100),
        ..Claims::PLAIN
    };
    held(&recovers_at(200.0, promised).judged());
    let late = recovers_at(511.0, promised);
    let verdict = late.judged();
    assert_eq!(missing(&verdict), "lease");
    assert_eq!(
        verdict.because,
        "Recovered 399.0 ms after the kill; 100.0 ms were promised. That is too little to be sure."
    );
    let recovery = verdict.checks.iter().find(|check| check.name == "recovery");
    assert_eq!(recovery.unwrap().finding, Finding::Undecided);
    held(&recovers_at(511.0, Claims::PLAIN).judged());
    // There is no lease that it could wait for.
    let session = Claims {
        checks_owner: true,
        ..Claims::OF_SESSION
    };
    held(&recovers_at(511.0, session).judged());
}

/// Every renewal has added to what was left of the lease, instead of setting it.
#[test]
fn a_lease_that_outlives_its_holder_by_far_is_too_long() {
    let renewed = Claims {
        keep_alive: true,
        ..Claims::PLAIN
    };
    let waits = HistoryBuilder::of(Scenario::Crash)
        .ttl(500)
        .promising(renewed)
        .granted("A", KEY, 11.0, 11.9, 1)
        .fault("A", 1_112.0, Fault::Killed)
        .tries("B", 1_113.0)
        .waits_in_vain("B", 1_114.0, 2_640.0);
    let verdict = waits.clone().looks(2_641.0, true, Some(1_500.0)).judged();
    assert_eq!(verdict.outcome, Outcome::Broken, "{verdict:#?}");
    assert_eq!(
        verdict.because,
        "Nobody got the lock for 1,528.0 ms after the kill; its lease lasts 500.0 ms."
    );
    assert_eq!(
        shown(&verdict),
        [
            "#3 A is killed (signal 9) while holding",
            "#7 B is still refused",
            "#8 the lab reads the store: key there, 1,500.0 ms left",
        ]
    );
    let free = waits.clone().looks(2_641.0, false, None).judged();
    assert_eq!(missing(&free), "calm", "B may have been slow");
    let stalled = waits
        .stalls(2_000.0, 2_500.0)
        .looks(2_641.0, true, Some(1_500.0))
        .judged();
    assert_eq!(missing(&stalled), "calm");
}
