//! Verdicts on a leader that dies several times during one hold, in `leader-deaths`.

use super::*;
use crate::history::Change;
use crate::protocol::Claims;
use crate::strategy;

const SERVERS: [&str; 3] = ["first server", "second server", "third server"];

/// A holds a lock, C dies with another one, and leaders die this often, one every two seconds. B asks for A's lock before that and after each
/// election.
fn deaths(strategy: &'static str, deaths: usize) -> HistoryBuilder {
    let begun = HistoryBuilder::of(Scenario::LeaderDeaths)
        .with(strategy)
        .ttl(8_000)
        .granted("A", KEY, 0.0, 1.0, 1)
        .reads("A", 2.0, 1)
        .granted("C", OTHER, 3.0, 4.0, 1)
        .fault("C", 5.0, Fault::Killed)
        .tries("B", 10.0);
    (0..deaths).fold(begun, |history, number| {
        let at = 100.0 + 2_000.0 * number as f64;
        history
            .server(SERVERS[number], at, Change::Killed)
            .server(SERVERS[number + 1], at + 1_000.0, Change::Elected)
            .server(SERVERS[number], at + 1_001.0, Change::Restarted)
            .tries("B", at + 1_500.0)
    })
}

/// B gets the lock of C when a lease is over that began with the last election.
fn comes_free(history: HistoryBuilder) -> HistoryBuilder {
    history
        .granted("B", OTHER, 4_000.0, 11_200.0, 1)
        .releases_of("B", OTHER, 11_201.0, 1, RELEASED)
}

/// A writes and releases its lock, and B gets it.
fn ends(history: HistoryBuilder, at: f64) -> HistoryBuilder {
    history
        .writes("A", at, 1, 1)
        .releases("A", at + 1.0, 1, RELEASED)
        .granted("B", KEY, at + 3.0, at + 4.0, 2)
        .releases("B", at + 5.0, 2, RELEASED)
}

#[test]
fn a_lock_that_is_kept_through_several_elections_is_held_and_the_bound_is_measured() {
    let lease = comes_free(
        deaths("safe", 2)
            .writes("A", 3_700.0, 1, 1)
            .releases("A", 3_701.0, 1, RELEASED),
    )
    .granted("B", KEY, 11_300.0, 11_301.0, 2)
    .judged();
    held(&lease);
    let renewed = ends(
        comes_free(deaths("watchdog", 2)).tries("B", 11_210.0),
        11_300.0,
    );
    for verdict in [lease, renewed.judged()] {
        held(&verdict);
        assert_eq!(
            verdict.measured,
            [
                "the dead process's lock was free 11,195.0 ms after its death, and 8,100.0 ms after the last election; a lease lasts \
                 8,000.0 ms"
            ]
        );
        assert_eq!(
            verdict.witness,
            [
                "the leader died two times while A held the lock, and the others elected another one each time; 500.0 ms after the last \
                 election B was refused A's lock"
            ]
        );
    }
}

#[test]
fn one_death_shows_nothing_and_neither_does_a_lock_that_keeps_nobody_out() {
    let once = deaths("safe", 1)
        .writes("A", 1_700.0, 1, 1)
        .releases("A", 1_701.0, 1, RELEASED);
    assert_eq!(missing(&comes_free(once).judged()), "leaders");
    let short = comes_free(deaths("safe", 2).releases("A", 3_000.0, 1, RELEASED)).judged();
    assert_eq!(missing(&short), "leaders", "the second one died after that");
    let mut quiet = deaths("safe", 2);
    let last = quiet.events().len() - 1;
    quiet = quiet.without(last).without(last - 1);
    let quiet = comes_free(quiet.releases("A", 3_701.0, 1, RELEASED)).judged();
    assert_eq!(missing(&quiet), "contention");
    let taken = deaths("safe", 2)
        .writes("A", 3_700.0, 1, 1)
        .releases("A", 3_701.0, 1, RELEASED);
    assert_eq!(missing(&taken.judged()), "answers");
}

#[test]
fn who_loses_a_lock_that_it_claims_to_renew_breaks_it_once_everybody_was_served_for_a_lease() {
    let taken = |at: f64| {
        deaths("watchdog", 2)
            .granted("B", KEY, at - 1.0, at, 1)
            .releases("B", at + 1.0, 1, RELEASED)
    };
    let lost = |history: HistoryBuilder, at| history.releases("A", at, 1, LOST).judged();
    let broken = lost(taken(11_300.0), 11_400.0);
    assert_eq!(broken.outcome, Outcome::Broken);
    assert_eq!(
        broken.because,
        "A lost a lock that it claims to renew, although there had been a leader for longer than a lease."
    );
    assert!(broken.why.unwrap().contains("elected 8,200.0 ms before"));
    assert_eq!(broken.evidence.len(), 2);
    let soon = lost(taken(9_000.0), 9_100.0);
    assert_eq!(missing(&soon), "calm");
    let stalled = lost(taken(11_300.0).stalls(5_000.0, 6_000.0), 11_400.0);
    assert_eq!(missing(&stalled), "calm");
    // While servers are started and stopped, the lab is always busy.
    let busy = lost(taken(11_300.0).stalls(2_100.0, 3_300.0), 11_400.0);
    assert_eq!(busy.outcome, Outcome::Broken);
    let told = deaths("watchdog", 2).add(11_300.0, "A", What::Lost { hold: 1 });
    assert_eq!(missing(&told.judged()), "loss");
}

#[test]
fn a_session_may_end_while_nobody_leads_and_a_plain_lease_when_it_is_over() {
    let session = deaths("safe", 2)
        .promising(Claims::OF_SESSION)
        .at_store("etcd")
        .granted("B", KEY, 11_000.0, 11_300.0, 1)
        .releases("A", 11_400.0, 1, LOST)
        .judged();
    assert_ne!(session.outcome, Outcome::Broken, "{}", session.because);
    assert!(strategy::find("safe").unwrap().claims.recovery_ms.is_none());
    let lease = deaths("safe", 2)
        .granted("B", KEY, 8_100.0, 8_200.0, 1)
        .writes("A", 8_300.0, 1, 1)
        .releases("A", 8_400.0, 1, LOST)
        .judged();
    assert_eq!(missing(&lease), "calm");
}

#[test]
fn two_holders_within_a_lease_break_it_whoever_leads() {
    let verdict = deaths("safe", 2)
        .granted("B", KEY, 3_700.0, 3_701.0, 1)
        .writes("A", 3_800.0, 1, 1)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(
        verdict.because.contains("within A's lease"),
        "{}",
        verdict.because
    );
}
