//! Tests of the plan of a gauntlet, of what its rows say, and of its verdict.

use super::*;
use crate::history::{Event, History, What};
use crate::holds::{Judged, Trial};

fn gauntlet(lock: &str, store: &str) -> Gauntlet {
    Gauntlet {
        strategy: strategy::find(lock).unwrap(),
        kind: Kind::of_ours(strategy::find(lock).unwrap().claims),
        limits: Vec::new(),
        store: TrialStore::named(store).unwrap(),
        ttl_ms: None,
        seed: 7,
        runs: 1,
        chosen: SCENARIOS.to_vec(),
        cannot_buy: None,
    }
}

#[test]
fn a_claim_decides_whether_the_order_is_tried() {
    let safe = gauntlet("safe", "redis");
    assert_eq!(safe.not_tried(&[]), None);
    let fair = Strategy {
        claims: Claims {
            fair: true,
            ..Claims::PLAIN
        },
        ..*safe.strategy
    };
    let fair = Gauntlet {
        strategy: Box::leak(Box::new(fair)),
        ..gauntlet("safe", "sqlite")
    };
    let untried = fair.plan().untried;
    assert_eq!(
        fair.not_tried(&untried).unwrap(),
        "cut, cut-replies, cut-requests, slow-replies, lost-reply, lost-release, store-errors, pause-at-step, failed-renewal, many-leases, dead-connection, vanish (no server: a file is not reached through a connection); failover, restart-empty, restart-behind, server-clock, clock-back, eviction, taken-away, deposed, server-stall, majority-down, leader-deaths (a file has no server that could fail); suspend (whoever shares a file is suspended together)"
    );
}

/// Returns the TTL of the crash of a lock with these claims.
fn ttl_of_crash(claims: Claims, ttl_ms: Option<u64>) -> u64 {
    let strategy = Strategy {
        claims,
        ..*strategy::find("safe").unwrap()
    };
    let gauntlet = Gauntlet {
        strategy: Box::leak(Box::new(strategy)),
        chosen: vec![AnyScenario::Lock(Scenario::Crash)],
        ttl_ms,
        ..gauntlet("safe", "sqlite")
    };
    match &gauntlet.plan().cells[..] {
        [Cell::Lock(trial)] => trial.ttl_ms,
        cells => panic!("{cells:?}"),
    }
}

#[test]
fn a_recovery_that_is_promised_before_the_end_of_the_lease_gets_a_lease_that_exceeds_it() {
    let promising = |recovery_ms: u64| Claims {
        recovery_ms: Some(recovery_ms),
        ..Claims::PLAIN
    };
    assert_eq!(ttl_of_crash(Claims::PLAIN, None), 500);
    assert_eq!(ttl_of_crash(promising(100), None), 2_200);
    assert_eq!(ttl_of_crash(promising(100), Some(9_000)), 9_000);
    assert_eq!(ttl_of_crash(promising(500), None), 500);
    assert_eq!(ttl_of_crash(Claims::OF_SESSION, None), 500);
}

fn names(plan: &GauntletPlan) -> Vec<&'static str> {
    plan.cells.iter().map(Cell::scenario).collect()
}

/// Returns what is left out, except what this machine does not allow.
fn left_out(plan: &GauntletPlan) -> Vec<&'static str> {
    let names = plan.untried.iter().map(|one| one.scenario);
    names.filter(|name| *name != "same-pid").collect()
}

/// Returns how many scenarios are left out because this machine does not let us choose process ids.
fn without_pids() -> usize {
    usize::from(Scenario::SamePid.lacks().is_some())
}

#[test]
fn a_file_has_no_server_that_could_fail_and_private_redis_has() {
    let plan = gauntlet("safe", "sqlite").plan();
    assert_eq!(names(&plan).len(), 19 - without_pids());
    let left_out = left_out(&plan);
    assert_eq!(
        left_out,
        [
            "order",
            "cut",
            "cut-replies",
            "cut-requests",
            "slow-replies",
            "lost-reply",
            "lost-release",
            "store-errors",
            "pause-at-step",
            "failed-renewal",
            "many-leases",
            "dead-connection",
            "vanish",
            "failover",
            "restart-empty",
            "restart-behind",
            "server-clock",
            "clock-back",
            "eviction",
            "taken-away",
            "deposed",
            "server-stall",
            "majority-down",
            "leader-deaths",
            "suspend"
        ]
    );
    assert!(plan.untried[1].why.starts_with("no server: "));
    assert_eq!(plan.untried[13].why, "a file has no server that could fail");
    let redis = gauntlet("safe", "redis").plan();
    assert_eq!(
        (redis.cells.len(), redis.untried.len()),
        (38 - without_pids(), 6 + without_pids())
    );
    assert_eq!(
        redis.untried[0].why,
        "not claimed: it does not serve waiters in order"
    );
    let renewed = gauntlet("watchdog", "redis").plan();
    assert_eq!(
        (renewed.cells.len(), renewed.untried.len()),
        (41 - without_pids(), 3 + without_pids())
    );
    let yours = gauntlet("safe", "redis://10.0.0.1").plan();
    assert_eq!(yours.untried.len(), 15 + without_pids());
}

#[test]
fn a_lock_that_cannot_buy_is_not_asked_to() {
    let mut lock = gauntlet("safe", "sqlite");
    lock.cannot_buy = Some("this lock does not buy".into());
    let plan = lock.plan();
    let left_out = left_out(&plan);
    assert_eq!(
        left_out,
        [
            "oversell",
            "short-stock",
            "order",
            "cut",
            "cut-replies",
            "cut-requests",
            "slow-replies",
            "lost-reply",
            "lost-release",
            "store-errors",
            "pause-at-step",
            "failed-renewal",
            "many-leases",
            "dead-connection",
            "vanish",
            "failover",
            "restart-empty",
            "restart-behind",
            "server-clock",
            "clock-back",
            "eviction",
            "taken-away",
            "deposed",
            "server-stall",
            "majority-down",
            "leader-deaths",
            "suspend"
        ]
    );
    assert_eq!(plan.untried[0].why, "the lock says: this lock does not buy");
}

#[test]
fn every_scenario_of_the_lab_is_in_it() {
    for scenario in Scenario::ALL {
        let listed = SCENARIOS
            .iter()
            .filter(|one| **one == AnyScenario::Lock(scenario));
        assert_eq!(listed.count(), 1, "{scenario:?}");
    }
}

#[test]
fn each_run_has_its_seed_and_what_was_not_chosen_is_not_tried() {
    let mut three = gauntlet("safe", "sqlite");
    (three.runs, three.ttl_ms) = (3, Some(400));
    three.chosen = vec![AnyScenario::Lock(Scenario::TtlEdge)];
    let plan = three.plan();
    assert_eq!(names(&plan), ["ttl-edge"; 3]);
    let Cell::Lock(last) = &plan.cells[2] else {
        panic!("{plan:?}")
    };
    assert_eq!((last.seed, last.ttl_ms, last.work_ms), (9, 400, 1_400));
    assert_eq!(plan.untried.len(), 43);
    assert_eq!(
        three.command(),
        "fencepost gauntlet --lock=safe --scenario ttl-edge --ttl 400 --runs 3 --seed 7"
    );
}

#[test]
fn what_a_lock_is_judged_by_depends_on_its_claims() {
    let of = |lock: &str| {
        let claims = strategy::find(lock).unwrap().claims;
        let by = [Scenario::TtlEdge, Scenario::Pause]
            .map(|one| judged_by(AnyScenario::Lock(one), claims));
        by.map(|text| text.split(':').next().unwrap_or_default().to_owned())
    };
    let beyond = "no update is lost, although it promises nothing beyond its lease";
    assert_eq!(of("fenced"), ["it claims fences"; 2]);
    assert_eq!(of("watchdog"), ["it claims to renew its lease", beyond]);
    assert_eq!(of("safe"), [beyond; 2]);
    assert_eq!(of("advisory"), ["it claims to have no lease"; 2]);
}

#[test]
fn servers_that_fail_do_so_within_a_long_lease() {
    let mut short = gauntlet("safe", "redis");
    short.ttl_ms = Some(300);
    short.chosen = vec![AnyScenario::Lock(Scenario::Failover)];
    let plan = short.plan();
    let Cell::Lock(trial) = &plan.cells[0] else {
        panic!("{plan:?}")
    };
    assert_eq!(trial.ttl_ms, 10_000);
}

/// A run of the crash scenario in which nothing happened, or B got the lock beside A.
pub(super) fn run(both: bool) -> Run {
    let trial = Trial::new(Scenario::Crash, strategy::find("safe").unwrap(), 7);
    let mut events = Vec::new();
    for (op, who) in [(1, "A"), (2, "B")] {
        let key = String::from("product_A");
        let asked = What::Acquire {
            op,
            key: key.clone(),
            wait_ms: 0,
        };
        let granted = What::Acquired {
            op,
            key,
            hold: 1,
            fence: None,
            valid_ms: None,
            contended: false,
        };
        events.extend([(who, asked), (who, granted)]);
    }
    let events = events
        .into_iter()
        .enumerate()
        .map(|(at, (who, what))| Event {
            n: at as u64 + 1,
            at_ns: (at as u64 + 1) * 1_000_000,
            who: Some(who.into()),
            what,
        });
    let mut history = History {
        header: trial.header(),
        events: events.collect(),
    };
    history.events.push(Event {
        n: 5,
        at_ns: 90_000_000,
        who: None,
        what: What::StockSet { units: 0 },
    });
    if !both {
        history.events.clear();
    }
    Run::Lock(Judged::of(&trial, history))
}

#[test]
fn the_worst_of_several_runs_counts_and_how_often_it_happened() {
    let runs = [run(false), run(true), run(true)];
    let rows = rows(&runs);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].outcome(), Outcome::Broken);
    assert_eq!((rows[0].times, rows[0].of), (2, 3));
}

#[test]
fn every_kind_of_failure_is_counted() {
    assert_eq!(
        counted("safe", 9, 0, 0, 0),
        "safe held in all of 9 scenarios."
    );
    assert_eq!(
        counted("safe", 9, 1, 2, 3),
        "safe broke in 1 and got stuck in 2 of 9 scenarios; 3 showed nothing."
    );
    assert_eq!(
        counted("safe", 9, 0, 2, 0),
        "safe got stuck in 2 of 9 scenarios."
    );
    assert_eq!(
        counted("safe", 1, 1, 0, 0),
        "safe broke in 1 of 1 scenario."
    );
    assert_eq!(
        counted("safe", 9, 0, 0, 3),
        "Nothing broke, and 3 of 9 scenarios showed nothing."
    );
}
