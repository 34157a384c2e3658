//! The matrix of `run-all`: every strategy that fits in seven scenarios, and the comparison of ways of waiting.
//!
//! It contains the scenarios of [`COLUMNS`]; `fencepost trial` runs the others.

use crate::any_scenario::AnyScenario;
use crate::holds::{Scenario, Trial};
use crate::retry::{self, Comparison};
use crate::sale::{self, Sale};
use crate::store::TrialStore;
use crate::strategy::{self, Strategy};

mod run;
mod unready;

pub use run::{REPETITIONS, Run, Summary};

/// The rows that run with the default settings, except work beyond the lease. The other rows use settings that take less time and
/// tolerate a busy machine.
pub const DEFAULT_TIMES: [&str; 3] = ["none", "naive", "safe"];
/// The lease in the other rows.
const TTL_MS: u64 = 500;
/// The work of a sale in the other rows: longer than a process waits for its turn on a busy machine.
const DELAY_US: u64 = 20_000;
/// How long a process may wait in the comparison.
const RETRY_BUDGET_MS: u64 = 8_000;
/// The lock that the comparison uses.
const RETRY_LOCK: &str = "safe";

/// The scenarios of the matrix, in the order of the columns.
pub const COLUMNS: [AnyScenario; 7] = [
    AnyScenario::Sale,
    AnyScenario::Lock(Scenario::Deadlock),
    AnyScenario::Lock(Scenario::DeadlockSorted),
    AnyScenario::Lock(Scenario::Crash),
    AnyScenario::Lock(Scenario::TtlEdge),
    AnyScenario::Lock(Scenario::StaleRelease),
    AnyScenario::Lock(Scenario::ShortStock),
];

impl AnyScenario {
    /// Returns the arguments of `fencepost` that run it on this store with the settings of the other rows, without `--lock`,
    /// `--store` and `--seed`.
    pub fn command(self, store: &TrialStore) -> String {
        let Self::Lock(scenario) = self else {
            return format!("{} --delay={DELAY_US}", sale::SCENARIO);
        };
        let mut text = scenario.command().to_owned();
        let (ttl_ms, work_ms) = times(store);
        if scenario.ttl_ms_at(store) != ttl_ms {
            text.push_str(&format!(" --ttl {ttl_ms}"));
        }
        if scenario == Scenario::TtlEdge && work_ms != Trial::work_ms_at(store) {
            text.push_str(&format!(" --work {work_ms}"));
        }
        text
    }

    /// Returns its trial with the settings of the other rows.
    pub fn cell(self, strategy: &'static Strategy, store: &TrialStore, seed: u64) -> Cell {
        let store = store.clone();
        let Self::Lock(scenario) = self else {
            return Cell::Sale(Sale {
                store,
                delay_us: DELAY_US,
                ..Sale::new(strategy, seed)
            });
        };
        let (ttl_ms, work_ms) = times(&store);
        Cell::Lock(Trial {
            ttl_ms,
            work_ms,
            ..Trial::on(scenario, strategy, store, seed)
        })
    }
}

/// Returns the lease of the other rows, and the work that exceeds it: by so much that a lock which renews its lease only once or twice
/// is convicted too.
fn times(store: &TrialStore) -> (u64, u64) {
    let ttl_ms = default_ttl_ms(store);
    (ttl_ms, ttl_ms * 7 / 2)
}

/// Returns the lease of the other rows, which the gauntlet uses too unless it is told another one.
pub fn default_ttl_ms(store: &TrialStore) -> u64 {
    store.shortest_ttl_ms().max(TTL_MS)
}

/// One entry in the list of runs.
#[derive(Debug, Clone)]
pub enum Cell {
    /// A sale, which uses all cores for a moment.
    Sale(Sale),
    /// A lock trial, which sleeps most of the time.
    Lock(Trial),
    /// The comparison, which sleeps most of the time.
    Retry(Comparison),
}

/// Returns everything that can be run on this store, column by column.
pub fn cells(store: &TrialStore, seed: u64) -> Vec<Cell> {
    let mut cells = Vec::new();
    for scenario in COLUMNS {
        let all = strategy::at(store);
        cells.extend(all.filter_map(|strategy| cell(scenario, strategy, store, seed)));
    }
    cells.extend(strategy::find(RETRY_LOCK).map(|strategy| {
        Cell::Retry(Comparison {
            budget_ms: RETRY_BUDGET_MS,
            store: store.clone(),
            ..Comparison::new(strategy, seed)
        })
    }));
    cells
}

fn cell(
    tried: AnyScenario,
    strategy: &'static Strategy,
    store: &TrialStore,
    seed: u64,
) -> Option<Cell> {
    if let AnyScenario::Lock(scenario) = tried {
        strategy.lock?;
        if has_default_times(scenario, strategy) {
            let trial = Trial::on(scenario, strategy, store.clone(), seed);
            return Some(Cell::Lock(trial));
        }
    }
    let mut cell = tried.cell(strategy, store, seed);
    if let Cell::Sale(sale) = &mut cell
        && DEFAULT_TIMES.contains(&strategy.name)
    {
        sale.delay_us = Sale::DELAY_US;
    }
    Some(cell)
}

/// Returns whether a trial of this lock keeps the default times. Work beyond the lease never does: it would take seven seconds.
fn has_default_times(scenario: Scenario, strategy: &Strategy) -> bool {
    DEFAULT_TIMES.contains(&strategy.name) && scenario != Scenario::TtlEdge
}

impl Cell {
    /// Returns the strategy on trial.
    pub fn strategy(&self) -> &'static Strategy {
        match self {
            Self::Sale(sale) => sale.strategy,
            Self::Lock(trial) => trial.strategy,
            Self::Retry(comparison) => comparison.strategy,
        }
    }

    /// Returns the name of its scenario in histories.
    pub fn scenario(&self) -> &'static str {
        match self {
            Self::Sale(_) => sale::SCENARIO,
            Self::Lock(trial) => trial.scenario.name(),
            Self::Retry(_) => retry::SCENARIO,
        }
    }

    /// Returns its scenario; a comparison consists of sales.
    pub fn any_scenario(&self) -> AnyScenario {
        match self {
            Self::Lock(trial) => AnyScenario::Lock(trial.scenario),
            Self::Sale(_) | Self::Retry(_) => AnyScenario::Sale,
        }
    }

    /// Returns the name of its files, without the extension.
    pub fn file_stem(&self) -> String {
        format!("{}_{}", self.scenario(), self.strategy().name)
    }

    /// Returns the number of verdicts that it produces.
    pub fn verdicts(&self) -> usize {
        match self {
            Self::Retry(comparison) => comparison.ways().len(),
            _ => 1,
        }
    }

    /// Returns roughly how long it takes, as far as that is known in advance. The longest entries start first.
    pub fn likely_ms(&self) -> u64 {
        match self {
            Self::Sale(_) => 400,
            Self::Retry(_) => 4_000,
            Self::Lock(trial) => trial.likely_ms(),
        }
    }

    /// Returns its index in [`COLUMNS`]; `None` for the comparison.
    fn column(&self) -> Option<usize> {
        if let Self::Retry(_) = self {
            return None;
        }
        let own = self.any_scenario();
        COLUMNS.iter().position(|known| *known == own)
    }

    /// Returns whether it belongs in this row and this column of [`COLUMNS`].
    pub fn is_at(&self, strategy: &Strategy, column: usize) -> bool {
        self.column() == Some(column) && self.strategy().name == strategy.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_has_files_of_its_own_and_an_expectation() {
        let cells = cells(&TrialStore::sqlite(), 1);
        let mut stems: Vec<String> = cells.iter().map(Cell::file_stem).collect();
        assert_eq!(stems[0], "oversell_none");
        assert!(stems.contains(&"crash_naive".to_owned()));
        stems.sort();
        stems.dedup();
        assert_eq!(stems.len(), cells.len());
        let verdicts: usize = cells.iter().map(Cell::verdicts).sum();
        assert_eq!(verdicts, 16 + 7 * 6 + 4);
    }

    #[test]
    fn a_column_says_how_its_short_cells_are_run() {
        let stores = ["sqlite", "etcd", "zk://10.0.0.1", "redlock"]
            .map(|name| TrialStore::named(name).unwrap());
        for cell in stores.iter().flat_map(|store| cells(store, 1)) {
            let Cell::Lock(trial) = &cell else { continue };
            let (at, name) = (cell.column().unwrap(), trial.strategy.name);
            let mut words = COLUMNS[at].command(&trial.store);
            if has_default_times(trial.scenario, trial.strategy) {
                words = trial.scenario.command().to_owned();
            }
            let said: Vec<&str> = words.split(' ').collect();
            let store = format!(" --store {}", trial.store.name());
            let runs = trial.command(name).replace(&format!(" --lock={name}"), "");
            let runs = runs.replace(&store, "");
            let runs: Vec<&str> = runs.split(' ').skip(1).collect();
            assert_eq!(said, runs);
        }
    }

    #[test]
    fn work_goes_on_long_enough_to_convict_a_lock_that_renews_only_twice() {
        for name in [
            "sqlite",
            "redis",
            "postgres",
            "etcd",
            "zk://10.0.0.1",
            "redlock",
        ] {
            let cells = cells(&TrialStore::named(name).unwrap(), 1);
            let mut edges = 0;
            for cell in &cells {
                let Cell::Lock(trial) = cell else { continue };
                if trial.scenario == Scenario::TtlEdge {
                    edges += 1;
                    let least_ms = trial.ttl_ms * 7 / 2;
                    assert!(trial.work_ms >= least_ms, "{}", trial.reproduce());
                }
            }
            assert!(edges > 0);
        }
    }

    #[test]
    fn on_redis_the_same_is_run() {
        let cells = cells(&TrialStore::named("redis").unwrap(), 1);
        let verdicts: usize = cells.iter().map(Cell::verdicts).sum();
        assert_eq!(verdicts, 16 + 7 * 6 + 4);
    }

    #[test]
    fn on_postgres_its_own_locks_are_run_too() {
        let cells = cells(&TrialStore::named("postgres").unwrap(), 1);
        let verdicts: usize = cells.iter().map(Cell::verdicts).sum();
        assert_eq!(verdicts, 21 + 12 * 6 + 4);
        let of = |name| {
            cells
                .iter()
                .filter(move |cell| cell.strategy().name == name)
        };
        assert_eq!(of("row").count(), COLUMNS.len());
        assert_eq!(of("fenced").count(), COLUMNS.len());
    }
}
