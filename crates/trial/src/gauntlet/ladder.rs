//! The ladder: the same faults for locks of ours, from the simplest to the strongest, and then for the lock on trial.

use super::{Gauntlet, GauntletPlan, Kind, Row, Untried, rows};
use crate::matrix::Run;
use crate::strategy;
use crate::verdict::Outcome;

/// Our locks on the ladder, from the simplest. Each withstands a fault that the one before does not.
const OURS: [&str; 4] = ["naive", "safe", "watchdog", "fenced"];

/// Returns the gauntlets of a ladder: one for each of our locks that fits the store, and last that of the lock on trial.
pub fn rungs(on_trial: &Gauntlet) -> Vec<Gauntlet> {
    let ours = OURS.into_iter().filter_map(strategy::find);
    let others = ours.filter(|rung| {
        rung.stores.include(&on_trial.store) && !std::ptr::eq(*rung, on_trial.strategy)
    });
    let mut rungs: Vec<Gauntlet> = others
        .map(|strategy| Gauntlet {
            strategy,
            kind: Kind::of_ours(strategy.claims),
            limits: Vec::new(),
            cannot_buy: None,
            ..on_trial.clone()
        })
        .collect();
    rungs.push(on_trial.clone());
    rungs
}

/// Returns the command that runs the ladder again.
pub fn command(on_trial: &Gauntlet) -> String {
    format!("{} --ladder", on_trial.command())
}

/// The results of one lock on the ladder.
#[derive(Debug)]
pub struct Rung<'a> {
    /// Its settings.
    pub gauntlet: &'a Gauntlet,
    /// One row per scenario that was tried.
    pub rows: Vec<Row<'a>>,
    /// The scenarios that were not.
    pub untried: &'a [Untried],
}

impl<'a> Rung<'a> {
    /// Returns the results of these runs.
    pub fn new(gauntlet: &'a Gauntlet, plan: &'a GauntletPlan, runs: &'a [Run]) -> Self {
        Self {
            gauntlet,
            rows: rows(runs),
            untried: &plan.untried,
        }
    }

    /// Returns the verdict in a scenario; `None` if it was not tried.
    pub fn outcome(&self, scenario: &str) -> Option<Outcome> {
        let row = self
            .rows
            .iter()
            .find(|row| row.worst.scenario() == scenario);
        row.map(Row::outcome)
    }
}

/// Returns the scenarios that at least one lock was tried in, in the order of the gauntlet.
pub fn scenarios(rungs: &[Rung<'_>]) -> Vec<&'static str> {
    let names = super::SCENARIOS.map(|scenario| scenario.name());
    let is_tried = |name: &&str| rungs.iter().any(|rung| rung.outcome(name).is_some());
    names.into_iter().filter(is_tried).collect()
}

/// Returns the first lock on the ladder that held in a scenario in which a lock before it did not. `None` if there is no such lock.
pub fn first_to_hold<'a>(rungs: &[Rung<'a>], scenario: &str) -> Option<&'a str> {
    let of = |rung: &Rung<'a>| Some((rung.gauntlet.strategy.name, rung.outcome(scenario)?));
    let tried: Vec<_> = rungs.iter().filter_map(of).collect();
    let first = tried
        .iter()
        .position(|(_, outcome)| *outcome == Outcome::Held)?;
    let fell = tried[..first]
        .iter()
        .any(|(_, outcome)| outcome.is_conviction());
    fell.then(|| tried[first].0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gauntlet::SCENARIOS;
    use crate::store::TrialStore;

    fn names(lock: &str, store: &str) -> Vec<&'static str> {
        let on_trial = Gauntlet {
            strategy: strategy::find(lock).unwrap(),
            kind: Kind::of_ours(strategy::find(lock).unwrap().claims),
            limits: Vec::new(),
            store: TrialStore::named(store).unwrap(),
            ttl_ms: None,
            seed: 7,
            runs: 1,
            chosen: SCENARIOS.to_vec(),
            cannot_buy: None,
        };
        let rungs = rungs(&on_trial);
        rungs.iter().map(|rung| rung.strategy.name).collect()
    }

    #[test]
    fn the_lock_on_trial_is_last_and_nobody_is_tried_twice() {
        let below = ["naive", "safe", "watchdog", "fenced"];
        assert_eq!(names("blind-delete", "sqlite")[..4], below);
        assert_eq!(names("blind-delete", "sqlite")[4], "blind-delete");
        assert_eq!(
            names("safe", "redis"),
            ["naive", "watchdog", "fenced", "safe"]
        );
    }
}
