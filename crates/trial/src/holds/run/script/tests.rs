//! Tests of the scripts: what a seed changes, and what it leaves alone.

use super::*;
use crate::strategy;

fn of(scenario: Scenario, seed: u64) -> Vec<Vec<Act>> {
    // A lock that renews its leases and claims an order is tried everywhere.
    let trial = Trial::new(scenario, strategy::find("in-line").unwrap(), seed);
    scripts(&trial, trial.strategy.claims)
}

/// The scenarios with scripts. What the processes of a storm do is chosen while it goes on.
fn scripted() -> impl Iterator<Item = Scenario> {
    let all = Scenario::ALL.into_iter();
    all.filter(|scenario| *scenario != Scenario::Storm)
}

#[test]
fn seeds_of_the_same_parity_differ_and_each_repeats_itself() {
    for scenario in scripted() {
        let scripts = [1, 3, 5, 7, 9].map(|seed| of(scenario, seed));
        let [first, others @ ..] = &scripts;
        assert!(others.iter().any(|other| other != first), "{scenario:?}");
        assert_eq!(*first, of(scenario, 1));
    }
}

#[test]
fn a_deadlock_lasts_for_three_leases_whoever_asks_first() {
    for seed in 0..200 {
        let trial = Trial::new(Scenario::Deadlock, strategy::find("safe").unwrap(), seed);
        let asked = scripts(&trial, trial.strategy.claims)
            .into_iter()
            .map(|acts| {
                let [.., Act::Work(pause), Act::Acquire { wait, .. }] = acts[..4] else {
                    panic!("{acts:?}")
                };
                (pause, pause + wait)
            });
        let (closed, ended): (Vec<_>, Vec<_>) = asked.unzip();
        let lasted = *ended.iter().min().unwrap() - *closed.iter().max().unwrap();
        assert!(lasted >= 3 * trial.ttl() + MARGIN, "{seed}: {lasted:?}");
    }
}

#[test]
fn a_seed_changes_lengths_only_and_within_the_meaning_of_the_scenario() {
    let ttl = Duration::from_millis(Scenario::Crash.ttl_ms());
    let works = |acts: &[Act]| -> Vec<Duration> {
        let work = |act: &Act| match act {
            Act::Work(time) => Some(*time),
            _ => None,
        };
        acts.iter().filter_map(work).collect()
    };
    for seed in 0..200 {
        let renewed = works(&of(Scenario::Crash, seed)[0])[0];
        assert!(renewed >= 2 * ttl && renewed <= 3 * ttl, "{renewed:?}");
        let safe = Trial::new(Scenario::Crash, strategy::find("safe").unwrap(), seed);
        let plain = scripts(&safe, safe.strategy.claims);
        assert!(works(&plain[0])[0] <= ttl / 3);
        let beyond = works(&of(Scenario::StaleRelease, seed)[0])[0];
        let lease = Duration::from_millis(Scenario::StaleRelease.ttl_ms());
        assert!(beyond > lease && beyond < 2 * lease, "{beyond:?}");
        let paused = works(&of(Scenario::Pause, seed)[0])[0];
        let lease = Duration::from_millis(Scenario::Pause.ttl_ms());
        assert!(paused > lease && paused < 2 * lease, "{paused:?}");
        let edge = of(Scenario::TtlEdge, seed);
        assert_eq!(works(&edge[0]), [Duration::from_millis(Trial::WORK_MS)]);
        assert!(works(&edge[1])[0] < ttl / 2);
        for scenario in scripted() {
            let shape = |seed| -> Vec<usize> { of(scenario, seed).iter().map(Vec::len).collect() };
            assert_eq!(shape(seed), shape(0));
        }
    }
}
