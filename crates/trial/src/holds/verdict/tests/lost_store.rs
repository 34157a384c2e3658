//! Verdicts on a store that forgets the lock, in `failover` and `restart-empty`.

mod not_granted;

use super::*;
use crate::history::Change;
use crate::protocol::{Action, Claims};

/// A holds the lock when the primary dies. `knows` says whether the replica that takes over has the lock.
fn failover(strategy: &'static str, knows: bool) -> HistoryBuilder {
    HistoryBuilder::of(Scenario::Failover)
        .with(strategy)
        .server("replica", 0.0, Change::CutOff)
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
        .tries("B", 5.0)
        .looks_on("primary", 100.0, true)
        .server("primary", 101.0, Change::Killed)
        .looks_on("replica", 109.0, knows)
        .server("replica", 110.0, Change::Promoted)
}

/// B gets the lock and writes; then A writes.
fn both_inside(history: HistoryBuilder) -> HistoryBuilder {
    history
        .granted("B", KEY, 111.0, 112.0, 1)
        .reads("B", 113.0, 1)
        .writes("B", 160.0, 1, 1)
}

#[test]
fn a_replica_that_lets_a_second_one_in_breaks_the_lock() {
    for strategy in ["naive", "safe", "watchdog"] {
        let verdict = both_inside(failover(strategy, false))
            .writes("A", 161.0, 1, 1)
            .releases("A", 162.0, 1, LOST)
            .releases("B", 210.0, 1, RELEASED)
            .judged();
        assert_eq!(verdict.outcome, Outcome::Broken, "{strategy}");
        assert_eq!(
            verdict.because,
            "Two holders at once: the replica took over without A's lock. One update is lost."
        );
        assert_eq!(
            shown(&verdict),
            [
                "#11 the replica takes over at the same address, without the lock",
                "#13 B is granted product_A; A, granted it at 1.0, held on to 162.0",
                "#19 A writes 1: computed from op 1, B's update is gone",
            ]
        );
        assert_eq!(verdict.belief.code, Belief::Overlap);
    }
}

#[test]
fn a_server_that_comes_back_empty_is_named() {
    let verdict = both_inside(
        HistoryBuilder::of(Scenario::RestartEmpty)
            .granted("A", KEY, 0.5, 1.0, 1)
            .reads("A", 2.0, 1)
            .server("server", 101.0, Change::Killed)
            .server("server", 110.0, Change::RestartedEmpty)
            .looks_on("server", 110.5, false),
    )
    .judged();
    assert_eq!(
        verdict.because,
        "Two holders at once: the server came back without A's lock."
    );
}

#[test]
fn a_fence_that_the_resource_refuses_makes_it_harmless() {
    let late = both_inside(failover("fenced", false)).write_refused("A", 161.0, 1, 1);
    let verdict = late.judged();
    held(&verdict);
    assert_eq!(
        verdict.because,
        "No damage: the resource refused A's late write (fence 1.0; it had seen 2.0)."
    );
    assert_eq!(verdict.belief.code, Belief::Overlap);
    let accepted = both_inside(failover("fenced", false)).writes("A", 161.0, 1, 1);
    assert_eq!(accepted.judged().outcome, Outcome::Broken);
}

#[test]
fn a_fence_that_the_new_server_hands_out_again_is_named() {
    for (fence, outcome) in [("1.0", Outcome::Broken), ("2.0", Outcome::Held)] {
        let history = HistoryBuilder::of(Scenario::Failover)
            .with("fenced")
            .at_store("postgres?locks=advisory")
            .server("standby", 0.0, Change::CutOff)
            .fenced("A", KEY, 1.0, "1.0")
            .reads("A", 2.0, 1)
            .tries("B", 5.0)
            .server("primary", 101.0, Change::Killed)
            .looks_on("standby", 109.0, false)
            .server("standby", 110.0, Change::Promoted)
            .fenced("B", KEY, 112.0, fence)
            .reads("B", 113.0, 1)
            .writes("B", 160.0, 1, 1);
        let history = match outcome {
            Outcome::Broken => history.writes("A", 161.0, 1, 1),
            _ => history.write_refused("A", 161.0, 1, 1),
        };
        let verdict = history.judged();
        assert_eq!(verdict.outcome, outcome, "{}", verdict.because);
        if outcome == Outcome::Broken {
            assert_eq!(
                verdict.because,
                "Fences do not grow: B was granted product_A with fence 1.0, after A with fence 1.0."
            );
            assert_eq!(verdict.why.as_deref(), Some(crate::verdict::WHY_FENCES));
        }
    }
}

#[test]
fn fences_excuse_nobody_before_a_server_failed() {
    let verdict = HistoryBuilder::of(Scenario::Failover)
        .with("fenced")
        .granted("A", KEY, 0.5, 1.0, 1)
        .granted("B", KEY, 2.0, 3.0, 1)
        .server("primary", 101.0, Change::Killed)
        .server("replica", 110.0, Change::Promoted)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "Two holders at once, and no server had failed yet."
    );
}

#[test]
fn whoever_learns_of_the_loss_and_stops_is_not_accused() {
    let verdict = both_inside(failover("watchdog", false))
        .add(170.0, "A", What::Lost { hold: 1 })
        .judged();
    held(&verdict);
    assert!(
        verdict.because.starts_with("A stopped itself"),
        "{}",
        verdict.because
    );
    // B was granted the lock at 112 ms.
    let belief =
        "two holders for at most 58.0 ms; harmless here, because A wrote nothing meanwhile";
    assert_eq!(verdict.belief.text.as_deref(), Some(belief));
}

#[test]
fn whoever_learns_of_the_loss_before_anybody_is_let_in_was_alone() {
    let history = failover("watchdog", false).add(111.5, "A", What::Lost { hold: 1 });
    let history = both_inside(history);
    // Nobody asked A to write when B had the lock.
    assert_eq!(missing(&history.clone().judged()), "overrun");
    let declined = What::Declined { op: 99, hold: 1 };
    let verdict = history.add(161.0, "A", declined).judged();
    held(&verdict);
    let belief = "two holders were not seen at once";
    assert_eq!(verdict.belief.text.as_deref(), Some(belief));
}

#[test]
fn whoever_reports_the_loss_and_writes_over_the_other_is_broken() {
    for strategy in ["safe", "watchdog"] {
        let lost = failover(strategy, false).add(111.5, "A", What::Lost { hold: 1 });
        let verdict = both_inside(lost).writes("A", 161.0, 1, 1).judged();
        assert_eq!(verdict.outcome, Outcome::Broken, "{}", verdict.because);
        assert_eq!(
            verdict.because,
            "A said at 111.5 ms that its lock was lost, and wrote all the same. One update is lost."
        );
        assert_eq!(
            shown(&verdict),
            [
                "#11 the replica takes over at the same address, without the lock",
                "#12 A says that its lock is lost",
                "#20 A writes 1: computed from op 1, B's update is gone",
            ]
        );
    }
}

#[test]
fn damage_counts_as_long_as_the_lease_certainly_runs() {
    let late = |strategy| {
        failover(strategy, false)
            .add(111.5, "A", What::Lost { hold: 1 })
            .granted("B", KEY, 1_400.0, 1_401.0, 1)
            .reads("B", 1_402.0, 1)
            .writes("B", 1_403.0, 1, 1)
            .writes("A", 1_404.0, 1, 1)
            .judged()
    };
    assert_eq!(missing(&late("safe")), "calm");
    assert_eq!(late("watchdog").outcome, Outcome::Broken);
}

#[test]
fn whoever_reports_the_loss_and_writes_before_the_other_is_let_in_is_broken() {
    let early = |strategy| {
        let history = failover(strategy, false).asks("B", KEY, 111.0, 30_000);
        let op = history.events().len() as u64;
        history
            .add(120.0, "A", What::Lost { hold: 1 })
            .writes("A", 450.0, 1, 1)
            .releases("A", 451.0, 1, LOST)
            .grants("B", KEY, op, 500.0, 1, None)
            .reads("B", 501.0, 1)
            .writes("B", 502.0, 1, 2)
            .judged()
    };
    let verdict = early("safe");
    assert_eq!(verdict.outcome, Outcome::Broken, "{}", verdict.because);
    assert_eq!(
        verdict.because,
        "A said at 120.0 ms that its lock was lost, and wrote all the same."
    );
    // The resource would refuse a write behind that of B, so this one is in order.
    assert_eq!(missing(&early("fenced")), "contention");
}

/// The write was requested before A reported the loss, so A may have decided before it knew.
#[test]
fn a_report_of_the_loss_that_crosses_the_write_accuses_nobody() {
    let history = failover("safe", false).asks("B", KEY, 111.0, 30_000);
    let (asked, op) = (history.events().len() as u64, 40);
    let (hold, action) = (1, Action::Write);
    let write = What::Register {
        op,
        hold,
        serial: 2,
        action,
        value: 1,
        fence: None,
        highest: None,
        refused: false,
    };
    let verdict = history
        .add(449.0, "A", What::Step { op, hold, action })
        .add(449.5, "A", What::Lost { hold })
        .add(450.0, "A", write)
        .releases("A", 451.0, 1, LOST)
        .grants("B", KEY, asked, 500.0, 1, None)
        .judged();
    assert_eq!(missing(&verdict), "order");
}

#[test]
fn a_lock_without_a_lease_has_no_end_of_it_to_excuse_two_holders() {
    let claims = Claims {
        untimed: true,
        ..Claims::PLAIN
    };
    let verdict = failover("safe", false)
        .promising(claims)
        .granted("B", KEY, 1_400.0, 1_401.0, 1)
        .reads("B", 1_402.0, 1)
        .writes("A", 1_500.0, 1, 1)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken, "{}", verdict.because);
    assert_eq!(
        verdict.because,
        "Two holders at once: the replica took over without A's lock."
    );
}

/// B gets the lock after A has released it.
fn one_after_the_other(history: HistoryBuilder) -> HistoryBuilder {
    let op = history.events().len() as u64 + 1;
    history
        .asks("B", KEY, 111.0, 30_000)
        .writes("A", 600.0, 1, 1)
        .releases("A", 601.0, 1, RELEASED)
        .grants("B", KEY, op, 603.0, 1, None)
        .reads("B", 604.0, 1)
        .writes("B", 650.0, 1, 2)
}

#[test]
fn a_lock_that_was_not_lost_proves_nothing_about_a_store_that_loses_locks() {
    let copied = one_after_the_other(failover("safe", true));
    assert_eq!(missing(&copied.judged()), "loss");
    let late = one_after_the_other(failover("safe", false));
    assert_eq!(missing(&late.judged()), "contention");
}

/// The lab does not know where an external lock keeps its records.
#[test]
fn a_lock_that_nobody_can_see_is_not_said_to_have_survived() {
    let unseen = HistoryBuilder::of(Scenario::Failover)
        .with("safe")
        .server("replica", 0.0, Change::CutOff)
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
        .tries("B", 5.0)
        .server("primary", 101.0, Change::Killed)
        .server("replica", 110.0, Change::Promoted);
    let verdict = one_after_the_other(unseen).judged();
    assert_eq!(missing(&verdict), "loss");
    assert!(!verdict.because.contains("survived"), "{}", verdict.because);
    let copied = one_after_the_other(failover("safe", true)).judged();
    assert!(copied.because.contains("survived"), "{}", copied.because);
}

#[test]
fn a_majority_that_forgets_nothing_keeps_the_other_out() {
    let leader_dies = HistoryBuilder::of(Scenario::Failover)
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
        .server("leader", 50.0, Change::Killed)
        .server("new leader", 110.0, Change::Elected);
    let verdict = one_after_the_other(leader_dies.clone()).judged();
    held(&verdict);
    assert_eq!(
        verdict.because,
        "The lock survived: B got it only after A had released it. No update is lost."
    );
    let verdict = both_inside(leader_dies).writes("A", 161.0, 1, 1).judged();
    assert_eq!(
        verdict.because,
        "Two holders at once: B got the lock from the new leader. One update is lost."
    );
}

#[test]
fn without_a_failure_nothing_is_shown() {
    let verdict = one_after_the_other(
        HistoryBuilder::of(Scenario::Failover)
            .granted("A", KEY, 0.5, 1.0, 1)
            .reads("A", 2.0, 1),
    )
    .judged();
    assert_eq!(missing(&verdict), "failure");
}

#[test]
fn who_is_let_in_after_the_lease_may_have_ended_is_no_proof() {
    let verdict = failover("safe", false)
        .granted("B", KEY, 1_400.0, 1_401.0, 1)
        .reads("B", 1_402.0, 1)
        .writes("B", 1_403.0, 1, 1)
        .writes("A", 1_404.0, 1, 1)
        .judged();
    assert_eq!(missing(&verdict), "calm");
}

/// The lock is on two of three servers, one of which comes back without it.
fn one_of_three_forgets(store: &str) -> HistoryBuilder {
    HistoryBuilder::of(Scenario::RestartEmpty)
        .at_store(store)
        .server("third server", 0.0, Change::CutOff)
        .granted("A", KEY, 0.5, 1.0, 1)
        .reads("A", 2.0, 1)
        .server("third server", 90.0, Change::Reconnected)
        .server("first server", 101.0, Change::Killed)
        .server("first server", 110.0, Change::RestartedEmpty)
        .looks_on("first server", 110.5, false)
}

#[test]
fn one_server_of_three_that_forgets_lets_a_second_one_in() {
    let verdict = both_inside(one_of_three_forgets("redlock"))
        .writes("A", 161.0, 1, 1)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert!(
        verdict
            .why
            .unwrap()
            .starts_with("The lock was on two of three: ")
    );
    let commands: Vec<&str> = verdict.next.iter().map(|next| &*next.command).collect();
    assert_eq!(
        commands[1],
        "fencepost trial restart-empty --lock=safe --ttl 1000 --store 'redlock?restart_delay=1000ms'"
    );
}

#[test]
fn a_server_that_forgot_and_does_not_vote_lets_nobody_in() {
    let delayed = |delay: &str| {
        let store = format!("redlock?restart_delay={delay}");
        one_after_the_other(one_of_three_forgets(&store)).judged()
    };
    let verdict = delayed("1s");
    held(&verdict);
    assert!(verdict.witness[0].contains("did not vote"), "{verdict:?}");
    assert_eq!(missing(&delayed("999ms")), "delay");
    let by_chance = one_after_the_other(one_of_three_forgets("redlock"));
    assert_eq!(missing(&by_chance.judged()), "contention");
}
