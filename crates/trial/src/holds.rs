//! A lock trial: a few real processes take locks while the lab injects faults.
//!
//! The lab owns the clock and the number that the locks protect. It follows a script for each process, requests one act at a
//! time, and executes on the number the steps that a process takes. It also sends the signals itself, and records each one only
//! after observing its effect. The verdict rests on the history alone.

use std::time::Duration;

use crate::history::{self, FaultKind, Header, HoldSettings, StormSettings};
use crate::protocol::Claims;
use crate::store::{ServerFault, TrialStore};
use crate::strategy::{self, Strategy};

#[cfg(test)]
mod brute_force;
#[cfg(test)]
pub(crate) mod by_hand;
pub mod check;
pub mod expectation;
pub mod facts;
mod judged;
mod lookup;
pub(crate) mod many_leases;
pub mod names;
mod register;
mod run;
mod scenario;
mod shortest;
pub mod storm;
pub(crate) mod turns;
pub mod verdict;

pub use crate::store::{FIRST_LOCK, SECOND_LOCK};
pub use judged::{Judged, Shortest, is_refused_overlap};
pub(crate) use run::{HOLDER, OTHER, THIRD};
pub use run::{LockWatch, NAMES, run};
pub use scenario::Scenario;
use storm::Plan;

/// The settings of a lock trial.
#[derive(Debug, Clone)]
pub struct Trial {
    /// What happens in the trial.
    pub scenario: Scenario,
    /// The strategy on trial. It must have a lock.
    pub strategy: &'static Strategy,
    /// How long a lock may be held without being renewed.
    pub ttl_ms: u64,
    /// How long the holder works, in scenarios that depend on it.
    pub work_ms: u64,
    /// How long the fault lasts, if it has a length that is searched for: a pause, a cut, the time until a grant is learned. `None`: beyond
    /// the lease.
    pub length_ms: Option<u64>,
    /// The settings of a storm; `None` in other scenarios.
    pub storm: Option<StormSettings>,
    /// The faults of a storm; `None` for those that belong to the seed.
    pub plan: Option<Plan>,
    /// The store that keeps the locks.
    pub store: TrialStore,
    /// The random seed. It decides which process is asked first when several are ready, and short lengths of time: of pauses, of the
    /// work before a kill, and until a process asks.
    pub seed: u64,
}

impl Trial {
    /// The strategy that a command tries by default.
    const DEFAULT_LOCK: &str = "safe";
    /// The default duration of the work between reading and writing.
    pub const WORK_MS: u64 = 3_000;

    /// Returns the default for this store. Some stores do not support leases short enough for the general default.
    pub fn work_ms_at(store: &TrialStore) -> u64 {
        Self::WORK_MS.max(store.shortest_ttl_ms() * 3 / 2)
    }

    /// Returns roughly how long a run takes, as far as that is known in advance.
    pub(crate) fn likely_ms(&self) -> u64 {
        self.scenario.likely_ms(self)
    }

    /// Creates a trial with the default settings.
    pub fn new(scenario: Scenario, strategy: &'static Strategy, seed: u64) -> Self {
        Self::on(scenario, strategy, scenario.store(), seed)
    }

    /// Creates a trial on this store with the default settings, whose times depend on the store.
    pub fn on(
        scenario: Scenario,
        strategy: &'static Strategy,
        store: TrialStore,
        seed: u64,
    ) -> Self {
        Self {
            scenario,
            strategy,
            ttl_ms: scenario.ttl_ms_at(&store),
            work_ms: Self::work_ms_at(&store),
            length_ms: None,
            storm: (scenario == Scenario::Storm).then(|| storm::default_at(&store)),
            plan: None,
            store,
            seed,
        }
    }

    /// Returns the trial that a history belongs to. Returns `None` if it belongs to another scenario, or if its strategy or
    /// store is not one of ours.
    pub fn of(header: &Header) -> Option<Self> {
        Some(Self {
            scenario: Scenario::find(&header.scenario)?,
            strategy: strategy::of_run(header)?,
            ttl_ms: header.ttl_ms,
            work_ms: header.holds?.work_ms,
            length_ms: None,
            storm: header.holds?.storm,
            plan: None,
            store: TrialStore::named(&header.store)?,
            seed: header.seed,
        })
    }

    /// Returns the header for a history of this trial, with the claims listed for the strategy.
    pub fn header(&self) -> Header {
        self.header_with(self.strategy.claims)
    }

    /// Returns the header for a history of this trial, with the claims that its processes made.
    fn header_with(&self, claims: Claims) -> Header {
        Header {
            schema: history::SCHEMA.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            recorded: history::now(),
            scenario: self.scenario.name().into(),
            strategy: self.strategy.name.into(),
            external: Some(self.strategy.is_external()),
            promise: self.strategy.promise,
            store: self.store.name().into(),
            seed: self.seed,
            stock: 0,
            concurrency: self.processes(),
            delay_us: 0,
            wait_ms: 0,
            ttl_ms: self.ttl_ms,
            holds: Some(HoldSettings {
                work_ms: self.work_ms,
                claims,
                storm: self.storm,
            }),
            claims: None,
        }
    }

    /// Returns whether each process reaches the store through proxies of its own: because the lab makes its network fail, or to see that a
    /// program of the user reaches the store at all. The lab does not come between such a program and servers of the user without need:
    /// their certificates may name other addresses.
    fn has_roads(&self) -> bool {
        let can_come_between = self.store.facts().connection == ServerFault::Available;
        let must_see = self.strategy.is_external()
            && self.store.is_private()
            && (!self.scenario.fails_servers() || self.scenario.keeps_servers());
        let comes_between = self.scenario.comes_between()
            || self.has_faults(FaultKind::Cut)
            || self.has_faults(FaultKind::Delay);
        // Processes reach different servers there.
        let is_split = self.scenario == Scenario::Deposed;
        comes_between || is_split || (must_see && can_come_between)
    }

    /// Returns whether it is a storm with this kind of faults.
    fn has_faults(&self, kind: FaultKind) -> bool {
        self.storm.is_some_and(|storm| storm.faults.has(kind))
    }

    /// Returns whether the lab makes servers fail. Such a trial uses servers of its own.
    pub fn fails_servers(&self) -> bool {
        self.scenario.fails_servers() || self.has_faults(FaultKind::Server)
    }

    /// Returns the faults of a storm: those of its own, or those that belong to its seed. `None` in other scenarios.
    pub fn plan(&self) -> Option<Plan> {
        let settings = self.storm?;
        let own = self.plan.clone();
        Some(own.unwrap_or_else(|| Plan::draw(self.seed, settings, self.ttl())))
    }

    /// Returns a storm with the faults of this plan, which lasts as long as the plan. The seed decides the rest.
    #[must_use]
    pub fn with_plan(&self, plan: &Plan, seed: u64) -> Self {
        Self {
            storm: self.storm.map(|storm| StormSettings {
                for_ms: plan.for_ms,
                ..storm
            }),
            plan: Some(plan.clone()),
            seed,
            ..self.clone()
        }
    }

    /// Returns the number of processes that take part.
    pub fn processes(&self) -> usize {
        let storm = self.storm.map(|storm| storm.processes);
        storm.unwrap_or_else(|| self.scenario.processes())
    }

    /// Returns the same trial with a fault of this length.
    #[must_use]
    pub fn with_length(mut self, length_ms: u64) -> Self {
        if self.scenario == Scenario::TtlEdge {
            self.work_ms = length_ms;
        } else {
            self.length_ms = Some(length_ms);
        }
        self
    }

    fn length(&self) -> Option<Duration> {
        self.length_ms.map(Duration::from_millis)
    }

    fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    /// Returns the command that runs this trial with another strategy. Flags appear only where they differ from the default.
    pub fn command(&self, strategy: &str) -> String {
        format!(
            "fencepost {} --lock={strategy}{}",
            self.scenario.command(),
            self.settings()
        )
    }

    /// Returns the command that runs this trial. The default strategy is not named.
    pub(crate) fn brief_command(&self) -> String {
        if self.strategy.name == Self::DEFAULT_LOCK {
            format!("fencepost {}{}", self.scenario.command(), self.settings())
        } else {
            self.command(self.strategy.argument())
        }
    }

    /// Returns the flags for settings that differ from the default.
    fn settings(&self) -> String {
        let mut text = String::new();
        if self.ttl_ms != self.scenario.ttl_ms_at(&self.store) {
            text.push_str(&format!(" --ttl {}", self.ttl_ms));
        }
        if self.scenario == Scenario::TtlEdge && self.work_ms != Self::work_ms_at(&self.store) {
            text.push_str(&format!(" --work {}", self.work_ms));
        }
        if let Some(settings) = self.storm {
            text.push_str(&storm::flags(settings, &self.store));
        }
        if self.store.name() != self.scenario.store().name() {
            text.push_str(&format!(" --store {}", self.store.typed()));
        }
        text
    }

    /// Returns the name of the trial's files, without the extension.
    pub fn file_stem(&self) -> String {
        format!("{}_{}", self.scenario.name(), self.strategy.name)
    }

    /// Returns the command that runs this trial again.
    pub fn reproduce(&self) -> String {
        format!(
            "{} --seed {}",
            self.command(self.strategy.argument()),
            self.seed
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_is_tried_in_every_scenario() {
        let able = |strategy: &&'static Strategy| strategy.lock.is_some();
        let sqlite = TrialStore::sqlite();
        let locks = || strategy::at(&sqlite).filter(able);
        let anywhere = Scenario::ALL.into_iter().filter(|all| !all.needs_server());
        let cells =
            anywhere.flat_map(|scenario| locks().map(move |lock| Trial::new(scenario, lock, 7)));
        let cells: Vec<Trial> = cells.collect();
        assert_eq!(cells.len(), 19 * 7);
        let mut stems: Vec<String> = cells.iter().map(Trial::file_stem).collect();
        stems.sort();
        stems.dedup();
        assert_eq!(stems.len(), cells.len());
        for cell in cells {
            let header = cell.header();
            let again = Trial::of(&header).unwrap();
            assert_eq!(again.reproduce(), cell.reproduce());
            let expected = expectation::of_strategy(cell.scenario, cell.strategy.name);
            assert!(expected.is_some(), "{}", cell.reproduce());
        }
    }

    #[test]
    fn a_command_names_what_differs_from_the_defaults() {
        let safe = strategy::find("safe").unwrap();
        let mut trial = Trial::new(Scenario::TtlEdge, safe, 7041);
        assert_eq!(
            trial.reproduce(),
            "fencepost crash --ttl-edge --lock=safe --seed 7041"
        );
        (trial.ttl_ms, trial.work_ms) = (500, 750);
        assert_eq!(
            trial.command("fenced"),
            "fencepost crash --ttl-edge --lock=fenced --ttl 500 --work 750"
        );
        trial.scenario = Scenario::StaleRelease;
        assert_eq!(
            trial.command("safe"),
            "fencepost trial stale-release --lock=safe"
        );
    }
}
