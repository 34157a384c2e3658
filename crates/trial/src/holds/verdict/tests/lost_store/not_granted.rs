//! A failover of a lock that claims to survive it, in `failover`.

use super::*;

const SURVIVES: Claims = Claims {
    survives: true,
    ..Claims::PLAIN
};

/// A is granted a lock while the replica listens.
fn listening() -> HistoryBuilder {
    HistoryBuilder::of(Scenario::Failover)
        .promising(SURVIVES)
        .ttl(10_000)
        .granted("A", OTHER, 0.5, 2.0, 1)
        .releases_of("A", OTHER, 3.0, 1, RELEASED)
}

fn cut_off(history: HistoryBuilder) -> HistoryBuilder {
    history.server("replica", 10.0, Change::CutOff)
}

fn failover(history: HistoryBuilder) -> HistoryBuilder {
    history
        .server("primary", 900.0, Change::Killed)
        .server("replica", 1_000.0, Change::Promoted)
}

/// B gets the lock when the replica has taken over.
fn taken(history: HistoryBuilder) -> HistoryBuilder {
    history
        .granted("B", KEY, 1_001.0, 1_004.0, 1)
        .reads("B", 1_005.0, 1)
        .writes("B", 1_060.0, 1, 1)
}

#[test]
fn whoever_grants_nothing_without_its_replica_is_acquitted() {
    let refused = failover(cut_off(listening()).tries("A", 420.0).tries("B", 830.0));
    let verdict = taken(refused.clone())
        .releases("B", 1_061.0, 1, RELEASED)
        .judged();
    held(&verdict);
    assert_eq!(
        verdict.because,
        "It granted nothing that its replica did not have: A was refused, and there was no lock to lose."
    );
    assert_eq!(
        verdict.witness,
        [
            "A was granted product_B while the replica listened; A was refused while it was cut off; then the primary died of signal 9, and B was granted it 4.0 ms after the replica was there"
        ]
    );
    // The new primary has no replica: nobody gets the lock, and nobody is blamed for that.
    let nobody = refused.waits_in_vain("B", 1_001.0, 8_501.0).judged();
    held(&nobody);
    assert!(nobody.witness[0].ends_with("nobody was granted it by the replica, either"));
}

#[test]
fn a_refusal_shows_nothing_without_a_grant_before_or_without_the_claim() {
    let history = HistoryBuilder::of(Scenario::Failover).ttl(10_000);
    let refuses = |history: HistoryBuilder| {
        failover(cut_off(history).tries("A", 420.0).tries("B", 830.0)).tries("B", 1_010.0)
    };
    let always = refuses(history.clone().promising(SURVIVES));
    assert_eq!(missing(&always.judged()), "grant");
    let unclaimed = refuses(listening().promising(Claims::PLAIN));
    assert_eq!(missing(&unclaimed.judged()), "answers");
    // Nobody was seen to be cut off, or A got no answer.
    let listens = failover(listening().tries("A", 420.0));
    assert_eq!(missing(&listens.judged()), "answers");
    let silent = failover(cut_off(listening()).asks("A", KEY, 20.0, 0));
    assert_eq!(missing(&silent.judged()), "answers");
    // A refusal after the failover says nothing about the time before.
    let late = failover(cut_off(listening())).tries("A", 1_010.0);
    assert_eq!(missing(&late.judged()), "answers");
}

#[test]
fn a_grant_that_its_replica_did_not_have_breaks_the_claim() {
    let granted = cut_off(listening())
        .granted("A", KEY, 20.0, 421.0, 2)
        .reads("A", 422.0, 2)
        .tries("B", 430.0);
    let verdict = taken(failover(granted))
        .writes("A", 1_100.0, 2, 1)
        .releases("B", 1_101.0, 1, RELEASED)
        .releases("A", 1_102.0, 2, LOST)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "Two holders at once: the replica took over without A's lock. One update is lost."
    );
    assert_eq!(
        verdict.why.as_deref(),
        Some(
            "The lock claims that what it grants survives a failover. It was granted to A while the replica was cut off, and to B by \
             the replica after that: a grant must wait until the replica has it."
        )
    );
}

#[test]
fn whoever_is_told_of_an_error_without_its_replica_was_not_granted_the_lock_either() {
    let fails = |history: HistoryBuilder| {
        let op = history.events().len() as u64 + 1;
        let failed = What::Failed {
            op,
            definite: false,
            message: "NOREPLICAS".into(),
        };
        history.asks("A", KEY, 20.0, 0).add(421.0, "A", failed)
    };
    let failed = || failover(fails(cut_off(listening())));
    let verdict = taken(failed()).releases("B", 1_061.0, 1, RELEASED).judged();
    held(&verdict);
    assert_eq!(
        verdict.because,
        "It granted nothing that its replica did not have: A was told of an error, and there was no lock to lose."
    );
    assert!(verdict.witness[0].contains("A was told of an error while it was cut off"));
    // What B got meanwhile, the replica did not have.
    let other = fails(cut_off(listening()))
        .granted("B", KEY, 430.0, 830.0, 7)
        .releases("B", 840.0, 7, RELEASED);
    let other = taken(failover(other)).releases("B", 1_061.0, 1, RELEASED);
    assert_eq!(missing(&other.judged()), "answers");
}
