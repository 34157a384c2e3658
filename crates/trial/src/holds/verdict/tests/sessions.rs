//! Verdicts on locks without a lease, such as the locks of a database session.

use super::*;
use crate::history::Change;
use crate::holds::check::Checks;
use crate::protocol::Claims;

mod older_than_the_request;

use older_than_the_request::met_later;

fn of_session(scenario: Scenario) -> HistoryBuilder {
    HistoryBuilder::of(scenario)
        .with("row")
        .promising(Claims::OF_SESSION)
}

#[test]
fn whoever_was_kept_out_before_the_kill_is_a_witness_too() {
    let killed = of_session(Scenario::Crash)
        .granted("A", KEY, 0.0, 1.0, 1)
        .tries("B", 3.0)
        .fault("A", 303.0, Fault::Killed);
    let verdict = killed.granted("B", KEY, 303.1, 304.0, 1).judged();
    held(&verdict);
    assert_eq!(
        verdict.witness,
        ["B was refused while A held it; A died of signal 9 300.0 ms later"]
    );
    assert_eq!(verdict.measured, ["there was no lease to wait for"]);
}

#[test]
fn a_recovery_that_comes_with_the_ttl_is_not_at_once() {
    let verdict = of_session(Scenario::Crash)
        .ttl(5_000)
        .granted("A", KEY, 0.0, 1.0, 1)
        .tries("B", 3.0)
        .fault("A", 303.0, Fault::Killed)
        .granted("B", KEY, 303.1, 5_000.0, 1)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
}

#[test]
fn a_session_whose_connection_the_lab_cuts_may_be_lost() {
    let lost = |fault: Option<Fault>| {
        let history = of_session(Scenario::LostReply).granted("A", KEY, 0.0, 1.0, 1);
        let history = match fault {
            Some(fault) => history.fault("A", 2.0, fault),
            None => history,
        };
        history.releases("A", 3.0, 1, LOST).judged()
    };
    assert_eq!(lost(None).outcome, Outcome::Broken);
    let cut = lost(Some(Fault::ReplyLost));
    assert_eq!(cut.outcome, Outcome::Inconclusive, "{cut:#?}");
}

fn paused() -> HistoryBuilder {
    of_session(Scenario::StaleRelease)
        .granted("A", KEY, 0.0, 1.0, 1)
        .reads("A", 2.0, 1)
        .writes("A", 3.0, 1, 1)
        .fault("A", 4.0, Fault::Stopped)
}

#[test]
fn a_paused_holder_that_keeps_its_lock_holds() {
    let waits = |history: HistoryBuilder| {
        let op = history.events().len() as u64 + 1;
        history
            .asks("B", KEY, 5.0, 10_000)
            .fault("A", 1030.0, Fault::Continued)
            .releases("A", 1031.0, 1, RELEASED)
            .grants("B", KEY, op, 1033.0, 1, None)
            .reads("B", 1034.0, 1)
            .tries("C", 1036.0)
            .judged()
    };
    let verdict = waits(paused());
    held(&verdict);
    assert!(
        verdict
            .because
            .starts_with("A kept its lock while it was paused")
    );
    assert_eq!(
        missing(&waits(paused().ttl(5_000))),
        "contention",
        "a short pause"
    );
}

#[test]
fn a_pause_excuses_no_second_holder_where_there_is_no_lease() {
    let verdict = paused()
        .granted("B", KEY, 5.0, 1005.0, 1)
        .reads("B", 1006.0, 1)
        .fault("A", 1030.0, Fault::Continued)
        .releases("A", 1031.0, 1, RELEASED)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken, "{}", verdict.because);
}

/// A pause of a session that a server keeps as long as it hears of it. The resource refuses A's late write, if the lock has fences.
fn overtaken_at(store: &str, claims: Claims) -> HistoryBuilder {
    let history = HistoryBuilder::of(Scenario::Pause)
        .with(if claims.fencing { "fenced" } else { "safe" })
        .at_store(store)
        .promising(claims)
        .granted("A", KEY, 0.0, 1.0, 1)
        .reads("A", 2.0, 1)
        .fault("A", 4.0, Fault::Stopped)
        .granted("B", KEY, 5.0, 1_005.0, 1)
        .reads("B", 1_006.0, 1)
        .writes("B", 1_007.0, 1, 1)
        .releases("B", 1_008.0, 1, RELEASED)
        .fault("A", 1_030.0, Fault::Continued);
    if claims.fencing {
        history.write_refused("A", 1_032.0, 1, 1)
    } else {
        history.writes("A", 1_032.0, 1, 1)
    }
}

#[test]
fn a_session_that_a_server_ends_in_a_pause_is_not_within_a_lease() {
    let fenced = Claims {
        fencing: true,
        ..Claims::OF_SESSION
    };
    for store in ["zk", "etcd", "redis"] {
        held(&overtaken_at(store, fenced).judged());
    }
    // No pause ends a session in a file, or in a database: it ends with its process, or with its connection.
    for store in ["sqlite", "postgres"] {
        let verdict = overtaken_at(store, fenced).judged();
        assert_eq!(verdict.outcome, Outcome::Broken, "{store}");
    }
    let history = overtaken_at("zk", Claims::OF_SESSION);
    assert_eq!(
        history.judged().outcome,
        Outcome::Broken,
        "an update is lost"
    );
    let (header, facts) = (history.header(), history.facts());
    let checks = Checks::of(&header, &facts);
    assert!(checks.overlaps_within_lease().is_empty());
    assert!(!checks.is_damaged_within_lease());
}

/// A lock under the lease of a session that began before the request: etcd hears of the session every third of a TTL, not with every lock.
#[test]
fn a_session_that_is_older_than_the_request_may_end_within_a_ttl_of_it() {
    let fenced = Claims {
        fencing: true,
        ..Claims::OF_SESSION
    };
    let paused = |store: &str, scenario: Scenario| {
        HistoryBuilder::of(scenario)
            .with("fenced")
            .at_store(store)
            .promising(fenced)
            .granted("A", KEY, 0.0, 1.0, 1)
            .reads("A", 2.0, 1)
            .fault("A", 4.0, Fault::Stopped)
            .granted("B", KEY, 5.0, 705.0, 1)
            .reads("B", 706.0, 1)
            .writes("B", 707.0, 1, 1)
            .releases("B", 708.0, 1, RELEASED)
            .fault("A", 1_030.0, Fault::Continued)
            .write_refused("A", 1_032.0, 1, 1)
    };
    for store in ["zk", "etcd"] {
        held(&paused(store, Scenario::Pause).judged());
        let storm = paused(store, Scenario::Storm).judged();
        assert_ne!(storm.outcome, Outcome::Broken, "{storm:#?}");
    }
    for store in ["sqlite", "postgres"] {
        let verdict = paused(store, Scenario::Pause).judged();
        assert_eq!(verdict.outcome, Outcome::Broken, "{store}");
    }
}

/// A was stopped just before it asked, so its session may end soon after that.
#[test]
fn what_a_session_missed_before_the_request_counts_for_a_ttl() {
    let found_lost = |went_on: f64| {
        let history = of_session(Scenario::Turns)
            .at_store("etcd")
            .fault("A", went_on - 500.0, Fault::Stopped)
            .fault("A", went_on, Fault::Continued)
            .granted("A", KEY, 2_000.0, 2_001.0, 1)
            .releases("A", 2_300.0, 1, LOST);
        history.judged().outcome
    };
    assert_eq!(found_lost(1_900.0), Outcome::Inconclusive);
    assert_eq!(found_lost(900.0), Outcome::Broken);
}

/// The way to the server leads through the lab, which stalled.
#[test]
fn a_session_may_end_while_the_lab_stands_still() {
    let two = |store: &str, stalled: bool| {
        let history = HistoryBuilder::of(Scenario::Turns)
            .at_store(store)
            .promising(Claims::OF_SESSION)
            .granted("A", KEY, 0.0, 1.0, 1)
            .reads("A", 2.0, 1);
        let history = if stalled {
            history.stalls(10.0, 1_900.0)
        } else {
            history
        };
        let history = history
            .granted("B", KEY, 1_901.0, 1_902.0, 1)
            .reads("B", 1_903.0, 1)
            .writes("B", 1_904.0, 1, 1)
            .writes("A", 1_905.0, 1, 1);
        history.judged().outcome
    };
    for store in ["zk", "etcd", "postgres"] {
        assert_eq!(two(store, true), Outcome::Inconclusive, "{store}");
    }
    assert_eq!(two("zk", false), Outcome::Broken);
    assert_eq!(two("sqlite", true), Outcome::Broken, "a file has no server");
}

#[test]
fn a_late_release_of_a_session_that_ended_in_a_pause_is_no_second_holder() {
    let paused = |store: &str| {
        let verdict = HistoryBuilder::of(Scenario::StaleRelease)
            .at_store(store)
            .promising(Claims::OF_SESSION)
            .granted("A", KEY, 0.0, 1.0, 1)
            .fault("A", 4.0, Fault::Stopped)
            .granted("B", KEY, 5.0, 1_005.0, 1)
            .fault("A", 1_030.0, Fault::Continued)
            .releases("A", 1_031.0, 1, LOST)
            .tries("C", 1_036.0)
            .judged();
        verdict.outcome
    };
    assert_eq!(paused("zk"), Outcome::Inconclusive);
    assert_eq!(paused("sqlite"), Outcome::Broken);
}

fn crossed() -> HistoryBuilder {
    of_session(Scenario::Deadlock)
        .granted("A", KEY, 0.0, 1.0, 1)
        .granted("B", OTHER, 0.5, 1.5, 1)
        .asks("A", OTHER, 50.0, 5_000)
        .asks("B", KEY, 51.0, 5_000)
}

fn failed(op: u64) -> What {
    What::Failed {
        op,
        definite: true,
        message: "a deadlock".into(),
    }
}

#[test]
fn a_deadlock_that_the_store_ends_by_telling_one_of_the_two_holds() {
    let history = crossed()
        .add(1052.0, "A", What::Lost { hold: 1 })
        .add(1052.1, "A", failed(5))
        .grants("B", KEY, 6, 1053.0, 2, None)
        .reads("B", 1054.0, 2);
    assert_eq!(
        missing(&history.judged()),
        "answers",
        "B has not done its work"
    );
    let crossed_so = crossed()
        .add(1052.0, "A", What::Lost { hold: 1 })
        .add(1052.1, "A", failed(5))
        .grants("B", KEY, 6, 1053.0, 2, None)
        .reads("B", 1054.0, 2)
        .writes("B", 1055.0, 2, 1);
    let verdict = crossed_so.judged();
    held(&verdict);
    assert_eq!(
        verdict.because,
        "The store ended the deadlock after 1,001.1 ms: A lost its lock and was told, B went on."
    );
}

#[test]
fn who_was_not_told_still_believes_and_two_hold_it() {
    let verdict = crossed()
        .grants("B", KEY, 6, 1053.0, 2, None)
        .reads("B", 1054.0, 2)
        .writes("B", 1055.0, 2, 1)
        .grants("A", OTHER, 5, 1056.0, 2, None)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
}

/// A session of which nothing is promised, as with a client library whose documentation names no time.
const BARE: Claims = Claims {
    session: true,
    ..Claims::OWNED
};

/// Holds of A and B, B's within a TTL of A's request.
fn met_early(store: &str, claims: Claims, stalled: bool) -> Verdict {
    let history = HistoryBuilder::of(Scenario::Turns)
        .at_store(store)
        .promising(claims)
        .granted("A", KEY, 2_000.0, 2_001.0, 1)
        .reads("A", 2_002.0, 1);
    let history = if stalled {
        history.stalls(2_100.0, 2_600.0)
    } else {
        history
    };
    history
        .granted("B", KEY, 2_650.0, 2_651.0, 1)
        .reads("B", 2_652.0, 1)
        .releases("A", 2_700.0, 1, LOST)
        .judged()
}

#[test]
fn a_session_need_not_promise_anything_to_be_one() {
    assert_eq!(
        met_early("zk", BARE, false).outcome,
        Outcome::Broken,
        "nothing had happened to it"
    );
    let excused = met_early("zk", BARE, true);
    assert_eq!(excused.outcome, Outcome::Inconclusive, "{excused:#?}");
    // A lease runs while the lab stands still.
    let lease = met_early("zk", Claims::OWNED, true);
    assert_eq!(lease.outcome, Outcome::Broken);
    let in_file = met_early("sqlite", BARE, true);
    assert_eq!(in_file.outcome, Outcome::Broken);
}

#[test]
fn a_session_that_promises_nothing_is_judged_as_a_lease_beyond_its_ttl() {
    let met = |claims: Claims, scenario: Scenario, stalled: bool| {
        met_later(scenario, stalled).promising(claims).judged()
    };
    let edge = met(BARE, Scenario::TtlEdge, false);
    assert_eq!(edge.outcome, Outcome::Broken);
    assert_eq!(missing(&met(BARE, Scenario::TtlEdge, true)), "calm");
    // It claims to have no end, but does not say when it ends with its holder.
    let untimed = Claims {
        untimed: true,
        ..BARE
    };
    let clock = met(untimed, Scenario::ClientClock, false);
    assert_eq!(clock.outcome, Outcome::Broken);
    assert_eq!(missing(&met(untimed, Scenario::ClientClock, true)), "calm");
    assert_eq!(missing(&met(BARE, Scenario::ClientClock, false)), "calm");
}

/// A's server is killed, and comes back with its data; then B gets the lock, within A's lease.
fn over_a_restart(strategy: &'static str, store: &str, claims: Option<Claims>) -> Outcome {
    let history = HistoryBuilder::of(Scenario::Turns)
        .with(strategy)
        .at_store(store)
        .granted("A", KEY, 0.0, 1.0, 1)
        .reads("A", 2.0, 1)
        .server("server", 100.0, Change::Killed)
        .server("server", 300.0, Change::Restarted)
        .granted("B", KEY, 400.0, 401.0, 1)
        .reads("B", 402.0, 1)
        .releases("B", 403.0, 1, RELEASED)
        .releases("A", 404.0, 1, LOST);
    let history = match claims {
        Some(claims) => history.promising(claims),
        None => history,
    };
    history.judged().outcome
}

#[test]
fn a_row_survives_its_server_where_the_library_would_use_advisory_locks() {
    const STORE: &str = "postgres?locks=advisory";
    for strategy in ["unique-index", "lease", "naive"] {
        let outcome = over_a_restart(strategy, STORE, None);
        assert_eq!(outcome, Outcome::Broken, "{strategy}");
    }
    // A history of an earlier version does not say that the library's advisory locks end with their server.
    for strategy in ["safe", "watchdog", "fenced"] {
        let outcome = over_a_restart(strategy, STORE, None);
        assert_ne!(outcome, Outcome::Broken, "{strategy}");
        let in_a_table = over_a_restart(strategy, "postgres", None);
        assert_eq!(in_a_table, Outcome::Broken, "{strategy}");
    }
}

#[test]
fn a_lock_may_say_that_it_ends_with_its_server() {
    let of_connection = Claims {
        ends_with_server: true,
        ..Claims::OWNED
    };
    for store in ["redis", "postgres"] {
        let outcome = over_a_restart("safe", store, Some(of_connection));
        assert_ne!(outcome, Outcome::Broken, "{store}");
    }
}
