//! Verdicts on a primary that lives on when its copy has taken over: is its holder told, and in time?

use super::*;
use crate::history::Change;
use crate::protocol::Claims;

/// A lock that is renewed, on a lease of a second, and claims to tell a loss within it. With the slack, that is two seconds.
const TELLS: Claims = Claims {
    keep_alive: true,
    tells_loss_ms: Some(1_000),
    ..Claims::OWNED
};

/// A holds the lock, and B is refused. Then the standby takes over.
fn promoted(claims: Claims) -> HistoryBuilder {
    HistoryBuilder::of(Scenario::Deposed)
        .promising(claims)
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
        .tries("B", 5.0)
        .server("standby", 10.0, Change::Promoted)
        .server("old primary", 11.0, Change::LivesOn)
        .granted("B", OTHER, 12.0, 13.0, 9)
        .releases_of("B", OTHER, 14.0, 9, RELEASED)
}

/// B gets the lock from the new primary, and writes.
fn deposed(claims: Claims) -> HistoryBuilder {
    promoted(claims)
        .granted("B", KEY, 20.0, 21.0, 1)
        .reads("B", 22.0, 1)
        .writes("B", 40.0, 1, 1)
}

fn declines(history: HistoryBuilder, at: f64) -> HistoryBuilder {
    let (op, hold) = (77, 1);
    history.add(at, "A", What::Declined { op, hold })
}

/// The old primary is still there at the end.
fn judged(history: HistoryBuilder) -> Verdict {
    history
        .server("old primary", 9_000.0, Change::LivesOn)
        .judged()
}

#[test]
fn whoever_knows_when_it_is_asked_is_acquitted() {
    for claims in [
        TELLS,
        Claims {
            tells_loss_ms: None,
            ..TELLS
        },
    ] {
        let verdict = judged(declines(deposed(claims), 2_100.0));
        held(&verdict);
        assert_eq!(
            verdict.because,
            "A stopped itself: it wrote nothing after its lock was lost."
        );
        assert_eq!(
            verdict.witness,
            [
                "the standby had taken over while the old primary lived on; B was granted it at 21.0 ms"
            ]
        );
    }
    let said = deposed(TELLS).add(900.0, "A", What::Lost { hold: 1 });
    held(&judged(said));
}

#[test]
fn whoever_writes_over_the_other_one_is_broken() {
    let renewed = Claims {
        keep_alive: true,
        ..Claims::OWNED
    };
    for claims in [renewed, Claims::OF_SESSION] {
        let history = deposed(claims).at_store("postgres");
        let verdict = judged(history.writes("A", 2_100.0, 1, 1));
        assert_eq!(verdict.outcome, Outcome::Broken, "{verdict:#?}");
        assert_eq!(
            verdict.because,
            "Two holders at once: the standby had taken over while the old primary lived on. One update is lost."
        );
        let why = verdict.why.unwrap();
        assert!(why.contains("The standby let B in") || why.contains("only its confirmations"));
    }
}

#[test]
fn whoever_claims_to_tell_a_loss_and_does_not_breaks_its_promise() {
    let verdict = judged(deposed(TELLS).writes("A", 2_100.0, 1, 1));
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "The standby had taken over while the old primary lived on, and B got A's lock there. A was not told: 2,079.0 ms later it used the number; it claims to tell a loss within 1,000 ms."
    );
    let late = deposed(TELLS).add(2_100.0, "A", What::Lost { hold: 1 });
    let verdict = judged(late);
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(verdict.because.contains("A was told only 2,079.0 ms later"));
}

#[test]
fn a_resource_that_refuses_the_late_write_holds() {
    let fenced = Claims {
        fencing: true,
        ..Claims::OWNED
    };
    let history = |second: &str| {
        HistoryBuilder::of(Scenario::Deposed)
            .promising(fenced)
            .fenced("A", KEY, 1.0, "1.0")
            .tries("B", 5.0)
            .server("replica", 10.0, Change::Promoted)
            .server("old primary", 11.0, Change::LivesOn)
            .fenced("B", KEY, 14.0, second)
            .write_refused("A", 2_100.0, 1, 1)
    };
    held(&judged(history("2.0")));
    let repeated = judged(history("1.0"));
    assert_eq!(repeated.outcome, Outcome::Broken, "{repeated:#?}");
}

#[test]
fn a_lease_that_the_new_primary_has_keeps_the_other_out_until_it_is_over() {
    let later = |at: f64| {
        promoted(Claims::OWNED)
            .granted("B", KEY, 20.0, at, 1)
            .reads("B", at + 1.0, 1)
            .writes("B", at + 2.0, 1, 1)
            .releases("B", at + 3.0, 1, RELEASED)
    };
    let verdict = judged(later(1_002.0));
    held(&verdict);
    assert_eq!(
        verdict.because,
        "The lock survived: B got it only when A's lease was over."
    );
    let within = judged(later(500.0));
    assert_eq!(within.outcome, Outcome::Broken, "{within:#?}");
}

#[test]
fn a_lock_that_nobody_gets_while_its_holder_lives_has_survived() {
    let untimed = Claims {
        untimed: true,
        ..Claims::OWNED
    };
    let refused = |claims| promoted(claims).waits_in_vain("B", 20.0, 3_100.0);
    held(&judged(refused(untimed).writes("A", 5_000.0, 1, 1)));
    // Nobody knows whether B reached the new primary at all.
    let lost = HistoryBuilder::of(Scenario::Deposed)
        .promising(untimed)
        .granted("A", KEY, 0.5, 1.0, 1)
        .server("standby", 10.0, Change::Promoted)
        .server("old primary", 11.0, Change::LivesOn)
        .waits_in_vain("B", 20.0, 3_100.0);
    assert_eq!(missing(&judged(lost)), "answers");
    // Nobody knows whether A had it for so long.
    let verdict = judged(refused(Claims::OWNED));
    assert_eq!(missing(&verdict), "answers");
}

#[test]
fn a_lab_that_stood_still_accuses_nobody() {
    let renewed = Claims {
        keep_alive: true,
        ..Claims::OWNED
    };
    for claims in [renewed, TELLS] {
        let stalled = deposed(claims).stalls(300.0, 900.0);
        assert_eq!(missing(&judged(stalled.writes("A", 2_100.0, 1, 1))), "calm");
    }
}

#[test]
fn without_a_witness_nobody_is_acquitted() {
    // The old primary was never seen to live on, or not until the end: then its holder is told by the end of a connection.
    let nobody = HistoryBuilder::of(Scenario::Deposed)
        .promising(TELLS)
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
        .tries("B", 5.0)
        .server("standby", 10.0, Change::Promoted)
        .granted("B", KEY, 20.0, 21.0, 1);
    assert_eq!(missing(&declines(nobody, 2_100.0).judged()), "failover");
    let gone = declines(deposed(TELLS), 2_100.0).judged();
    assert_eq!(missing(&gone), "failover");
    let alone = judged(declines(promoted(TELLS), 2_100.0));
    assert_eq!(alone.outcome, Outcome::Inconclusive, "{alone:#?}");
}

#[test]
fn a_second_holder_within_the_lease_is_let_in_by_the_new_primary() {
    let renewed = Claims {
        keep_alive: true,
        ..Claims::OWNED
    };
    let within = |history: HistoryBuilder| {
        let history = history
            .granted("B", KEY, 20.0, 21.0, 1)
            .reads("B", 22.0, 1)
            .writes("B", 40.0, 1, 1);
        judged(history.writes("A", 2_100.0, 1, 1))
    };
    let seen = within(promoted(renewed).looks_on("standby", 15.0, false));
    assert_eq!(seen.outcome, Outcome::Broken);
    assert_eq!(
        seen.why.as_deref(),
        Some("The standby let B in within A's lease, which ran for at least 979.5 ms more.")
    );
    let cited = &shown(&seen)[1];
    assert!(
        cited.ends_with("the lab reads the standby: no key"),
        "{cited}"
    );
    let unseen = within(promoted(renewed));
    assert!(
        !shown(&unseen)
            .iter()
            .any(|one| one.contains("the lab reads"))
    );
    // A session has no lease that could run.
    let session = within(promoted(Claims::OF_SESSION).at_store("postgres"));
    assert!(session.why.unwrap().contains("only its confirmations"));
}
