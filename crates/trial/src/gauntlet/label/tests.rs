//! Tests of the labels: each needs its reason, and nobody is accused without one.

use super::*;
use crate::gauntlet::tests::run;
use crate::gauntlet::{Kind, SCENARIOS, rows};
use crate::history::History;
use crate::holds::by_hand::{HistoryBuilder, KEY};
use crate::holds::{Judged, Trial};
use crate::protocol::ReleaseResult;
use crate::store::TrialStore;
use crate::strategy::{self, Origin};

/// A gauntlet of a lock of somebody else, which is a plain lease.
fn theirs() -> Gauntlet {
    let safe = strategy::find("safe").unwrap();
    let strategy = Box::leak(Box::new(Strategy {
        name: "theirs",
        origin: Origin::External { argument: "theirs" },
        flaw: None,
        ..*safe
    }));
    Gauntlet {
        strategy,
        kind: Kind::of_claims(safe.claims),
        limits: Vec::new(),
        store: TrialStore::sqlite(),
        ttl_ms: None,
        seed: 7,
        runs: 1,
        chosen: SCENARIOS.to_vec(),
        cannot_buy: None,
    }
}

fn ours(name: &str) -> Gauntlet {
    let strategy = strategy::find(name).unwrap();
    Gauntlet {
        strategy,
        kind: Kind::of_ours(strategy.claims),
        ..theirs()
    }
}

/// A run with this verdict in which nobody held the lock beside another.
fn with(outcome: Outcome) -> Run {
    let mut run = run(false);
    let Run::Lock(judged) = &mut run else {
        panic!("not a lock trial")
    };
    judged.verdict.outcome = outcome;
    run
}

/// A run with these events and this verdict.
fn judged(
    scenario: Scenario,
    lock: &'static str,
    outcome: Outcome,
    events: impl Fn(HistoryBuilder) -> HistoryBuilder,
) -> Run {
    let history = events(HistoryBuilder::of(scenario).with(lock));
    let trial = Trial::new(scenario, strategy::find(lock).unwrap(), 7);
    let mut judged = Judged::of(
        &trial,
        History {
            header: history.header(),
            events: history.events().to_vec(),
        },
    );
    judged.verdict.outcome = outcome;
    Run::Lock(judged)
}

/// A run in which B got the lock so long after A, which still held it.
fn met(scenario: Scenario, lock: &'static str, after_ms: f64) -> Run {
    judged(scenario, lock, Outcome::Broken, |history| {
        let asked = 1.0 + after_ms;
        history
            .granted("A", KEY, 0.0, 1.0, 1)
            .granted("B", KEY, asked - 0.5, asked, 1)
            .releases("A", asked + 50.0, 1, ReleaseResult::Released)
            .releases("B", asked + 60.0, 1, ReleaseResult::Released)
    })
}

/// The label of a lock with these runs, if the reference had those.
fn label(gauntlet: &Gauntlet, runs: &[Run], reference: &[Run]) -> Option<Label> {
    let rows = rows(runs);
    gauntlet.label(&rows[0], &reference.iter().collect::<Vec<_>>())
}

fn name(gauntlet: &Gauntlet, runs: &[Run], reference: &[Run]) -> LabelName {
    label(gauntlet, runs, reference).unwrap().name
}

#[test]
fn a_lock_that_was_not_convicted_needs_no_label_and_no_reference() {
    for outcome in [Outcome::Held, Outcome::Inconclusive] {
        let runs = [with(outcome)];
        assert_eq!(label(&theirs(), &runs, &[]), None);
        assert!(theirs().to_compare(&rows(&runs)[0]).is_none());
    }
}

#[test]
fn what_convicts_the_reference_as_well_is_a_limit_of_its_kind() {
    let runs = [run(true)];
    let compared = theirs().to_compare(&rows(&runs)[0]).unwrap();
    assert_eq!(compared.name, "safe");
    let label = label(&theirs(), &runs, &[run(true)]).unwrap();
    assert_eq!(
        label.text(),
        "limit of its kind: its reference, safe, was convicted in the same way, 1 of 1"
    );
    assert_eq!(label.reference.unwrap().convicted, 1);
}

#[test]
fn a_reference_that_is_convicted_for_another_reason_explains_nothing() {
    let stuck = [with(Outcome::Stuck)];
    assert_eq!(
        name(&theirs(), &[run(true)], &stuck),
        LabelName::Unexplained
    );
    assert_eq!(
        name(&theirs(), &stuck, &[run(true)]),
        LabelName::Unexplained
    );
    assert_eq!(name(&theirs(), &stuck, &stuck), LabelName::LimitOfItsKind);
}

#[test]
fn a_promise_is_broken_only_if_the_reference_held_twenty_times_and_the_lock_broke_twice() {
    let twice = || [run(true), run(true)];
    let held = |times: usize| -> Vec<Run> { (0..times).map(|_| with(Outcome::Held)).collect() };
    assert_eq!(
        name(&theirs(), &twice(), &held(20)),
        LabelName::BreaksItsPromise
    );
    assert_eq!(name(&theirs(), &twice(), &held(19)), LabelName::Unexplained);
    let once = label(&theirs(), &[run(true)], &held(20)).unwrap();
    assert_eq!(once.name, LabelName::Unexplained);
    let mut nearly = held(20);
    nearly.push(with(Outcome::Inconclusive));
    assert_eq!(name(&theirs(), &twice(), &nearly), LabelName::Unexplained);
    let too_few = label(&theirs(), &twice(), &held(2)).unwrap();
    assert_eq!(
        too_few.because,
        "its reference, safe, held 2 of 2; --runs 20 would show whether it breaks its promise"
    );
}

#[test]
fn what_the_documentation_says_comes_first() {
    let mut documented = theirs();
    for scenario in ["pause", "stale-release"] {
        documented.limits.push(Limit {
            scenario: scenario.into(),
            quote: "It may happen.".into(),
            place: "README".into(),
        });
    }
    // A late release that frees the lock of another does so within its lease.
    for (scenario, after_ms) in [(Scenario::Pause, 1_500.0), (Scenario::StaleRelease, 2.0)] {
        let runs = [met(scenario, "safe", after_ms)];
        assert!(documented.to_compare(&rows(&runs)[0]).is_none());
        assert_eq!(
            label(&documented, &runs, &[]).unwrap().text(),
            "documented limit: \"It may happen.\" (README)"
        );
    }
    // Whoever admits that a pause ends its lease has not admitted a second holder within it.
    let early = [met(Scenario::Pause, "safe", 2.0)];
    assert!(documented.to_compare(&rows(&early)[0]).is_some());
    assert_eq!(
        name(&documented, &early, &[with(Outcome::Held)]),
        LabelName::Unexplained
    );
}

#[test]
fn a_lock_of_ours_shows_only_the_known_limits_of_its_kind() {
    use LabelName::{LimitOfItsKind, Unexplained};
    for (lock, scenario, after_ms, expected) in [
        ("safe", Scenario::Pause, 1_500.0, LimitOfItsKind),
        ("safe", Scenario::TtlEdge, 1_500.0, LimitOfItsKind),
        ("watchdog", Scenario::Cut, 1_500.0, LimitOfItsKind),
        // Within the lease.
        ("safe", Scenario::Pause, 2.0, Unexplained),
        ("watchdog", Scenario::Cut, 2.0, Unexplained),
        // It renews its lease.
        ("watchdog", Scenario::TtlEdge, 1_500.0, Unexplained),
        // Nothing of this outlasts a lease.
        ("safe", Scenario::Turns, 1_500.0, Unexplained),
        ("fenced", Scenario::Pause, 1_500.0, Unexplained),
    ] {
        let runs = [met(scenario, lock, after_ms)];
        let label = label(&ours(lock), &runs, &[]).unwrap();
        assert_eq!(label.name, expected, "{lock} {scenario:?} {after_ms}");
    }
}

#[test]
fn a_lock_that_is_stuck_shows_a_limit_of_its_kind_only_where_that_is_known() {
    use LabelName::{LimitOfItsKind, Unexplained};
    for (lock, scenario, expected) in [
        ("safe", Scenario::ClockBack, LimitOfItsKind),
        ("fenced", Scenario::ClockBack, LimitOfItsKind),
        ("watchdog", Scenario::Deadlock, LimitOfItsKind),
        ("safe", Scenario::Deadlock, Unexplained),
        ("safe", Scenario::Crash, Unexplained),
        ("unique-index", Scenario::Crash, LimitOfItsKind),
        ("unique-index", Scenario::SamePid, LimitOfItsKind),
        ("watchdog", Scenario::LostWakeup, Unexplained),
    ] {
        let runs = [judged(scenario, lock, Outcome::Stuck, |none| none)];
        let mut gauntlet = ours(lock);
        if lock == "unique-index" {
            gauntlet.store = TrialStore::named("postgres").unwrap();
        }
        let label = label(&gauntlet, &runs, &[]).unwrap();
        assert_eq!(label.name, expected, "{lock} {scenario:?}");
    }
}

#[test]
fn a_fence_keeps_a_renewed_lock_from_no_second_belief_at_an_old_primary() {
    let is_known = |lock: &str| {
        let kind = Kind::of_ours(strategy::find(lock).unwrap().claims);
        limits_of(kind, AnyScenario::Lock(Scenario::Deposed)).contains(&Charge::TwoHolders)
    };
    assert!(is_known("fenced-watchdog"));
    assert!(!is_known("fenced"));
}

#[test]
fn every_conviction_counts_not_only_the_worst() {
    let mut runs = vec![run(true)];
    runs.extend((0..19).map(|_| with(Outcome::Stuck)));
    let held: Vec<Run> = (0..20).map(|_| with(Outcome::Held)).collect();
    assert_eq!(
        label(&theirs(), &runs, &held).unwrap().text(),
        "breaks its promise: its reference, safe, held 20 of 20, and this lock was convicted 20 times"
    );
    // The reference was never stuck.
    assert_eq!(name(&theirs(), &runs, &[run(true)]), LabelName::Unexplained);
    // It was convicted for both reasons, but hardly ever stuck.
    let mut both: Vec<Run> = (0..19).map(|_| run(true)).collect();
    both.push(with(Outcome::Stuck));
    assert_eq!(
        label(&theirs(), &runs, &both).unwrap().text(),
        "unexplained: its reference, safe, was convicted in the same way, but less than half as often: 1 of 20"
    );
    // It was convicted for each reason as often as the lock.
    let mut alike = vec![run(true)];
    alike.extend((0..19).map(|_| with(Outcome::Stuck)));
    assert_eq!(
        label(&theirs(), &runs, &alike).unwrap().text(),
        "limit of its kind: its reference, safe, was convicted in the same way, 1 of 20"
    );
}

#[test]
fn a_reference_that_is_hardly_ever_convicted_explains_no_lock_that_always_is() {
    let broken_of = |times: usize, of: usize| -> Vec<Run> {
        let broken = (0..times).map(|_| run(true));
        broken
            .chain((times..of).map(|_| with(Outcome::Held)))
            .collect()
    };
    for (lock, reference, expected) in [
        ((20, 20), (1, 20), LabelName::Unexplained),
        ((20, 20), (9, 20), LabelName::Unexplained),
        ((20, 20), (10, 20), LabelName::LimitOfItsKind),
        ((2, 20), (1, 20), LabelName::LimitOfItsKind),
        ((3, 20), (1, 20), LabelName::Unexplained),
        ((1, 1), (1, 1), LabelName::LimitOfItsKind),
        ((1, 1), (1, 3), LabelName::Unexplained),
    ] {
        let [lock, reference] = [lock, reference].map(|(times, of)| broken_of(times, of));
        let found = name(&theirs(), &lock, &reference);
        assert_eq!(found, expected, "{} {}", lock.len(), reference.len());
    }
}

/// Two convictions that no check explains may have nothing in common.
#[test]
fn what_no_check_explains_is_not_the_same_as_anything() {
    let other = || [with(Outcome::Broken)];
    let label = label(&theirs(), &other(), &other()).unwrap();
    assert_eq!(
        label.text(),
        "unexplained: its reference, safe, was convicted as well, 1 of 1, but no check shows that the reason is the same"
    );
}

#[test]
fn a_single_conviction_in_many_runs_is_called_that() {
    let mut runs: Vec<Run> = (0..19).map(|_| with(Outcome::Held)).collect();
    runs.push(run(true));
    let held: Vec<Run> = (0..20).map(|_| with(Outcome::Held)).collect();
    assert_eq!(
        label(&theirs(), &runs, &held).unwrap().text(),
        "unexplained: its reference, safe, held 20 of 20, and this lock was convicted only once"
    );
}

#[test]
fn the_flaw_of_an_exhibit_is_documented_unless_its_kind_has_it_too() {
    let naive = ours("naive");
    let stuck = [with(Outcome::Stuck)];
    let flaw = label(&naive, &stuck, &[with(Outcome::Held)]).unwrap();
    assert_eq!(flaw.name, LabelName::DocumentedLimit);
    assert!(flaw.because.starts_with("an exhibit with a known flaw: "));
    assert_eq!(
        name(&naive, &[run(true)], &[run(true)]),
        LabelName::LimitOfItsKind
    );
}

#[test]
fn a_fence_that_is_not_claimed_asks_for_no_fenced_reference() {
    let mut unclaimed = theirs();
    unclaimed.kind.fenced = true;
    let runs = [met(Scenario::Pause, "safe", 1_500.0)];
    let compared = unclaimed.to_compare(&rows(&runs)[0]).unwrap();
    assert_eq!(compared.name, "safe");
    let strategy = Strategy {
        claims: strategy::find("fenced").unwrap().claims,
        ..*unclaimed.strategy
    };
    unclaimed.strategy = Box::leak(Box::new(strategy));
    let compared = unclaimed.to_compare(&rows(&runs)[0]).unwrap();
    assert_eq!(compared.name, "fenced");
}

#[test]
fn without_a_reference_nothing_is_explained() {
    let mut untimed = theirs();
    untimed.kind.hold = super::super::kind::EndsWith::Untimed;
    assert_eq!(name(&untimed, &[run(true)], &[]), LabelName::Unexplained);
}

#[test]
fn the_scenarios_are_summed_up_under_their_labels() {
    let runs = [met(Scenario::Pause, "safe", 1_500.0)];
    let rows = rows(&runs);
    let labels = ours("safe").labels(&rows, &[]);
    let rows = labelled(&rows, &labels);
    assert_eq!(summary(&rows), ["limit of its kind: pause"]);
}
