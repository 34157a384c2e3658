//! A lock trial: two or three real processes take locks, and the lab does bad things to them.
//!
//! The lab keeps the clock and the number that the locks protect. It follows a script for every process, asks one act after
//! the other, carries out on the number what a process says it does, and sends the signals itself, each witnessed before it is
//! written down. What came of it is judged from the history alone.

use std::fs::File;
use std::process::Command;
use std::time::Duration;

use fencepost_rig::Interrupt;

use crate::ground::Place;
use crate::history::{self, Event, Header, History, HoldSettings};
use crate::protocol::Claims;
use crate::stopped::Stopped;
use crate::strategy::{self, Strategy};
use crate::subjects::PATIENCE;

pub mod check;
pub mod facts;
mod register;
mod script;
mod servers;
mod stage;
pub mod verdict;

pub use script::{FIRST, NAMES, SECOND};

/// What happens to the holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// It is killed.
    Crash,
    /// It works longer than its lease.
    TtlEdge,
    /// Two take two locks in opposite order.
    Deadlock,
    /// Two take two locks in the same order.
    Sorted,
    /// It is paused beyond its lease, and then gives the lock back.
    StaleRelease,
    /// It finds nothing to sell.
    ShortStock,
    /// The primary dies before its replica has the lock, and the replica takes over.
    Failover,
    /// The server dies and comes back without its data.
    RestartEmpty,
    /// It gives the lock back just when another is about to wait for it.
    LostWakeup,
}

impl Scenario {
    /// Every scenario.
    pub const ALL: [Self; 9] = [
        Self::Deadlock,
        Self::Sorted,
        Self::Crash,
        Self::TtlEdge,
        Self::StaleRelease,
        Self::ShortStock,
        Self::Failover,
        Self::RestartEmpty,
        Self::LostWakeup,
    ];

    /// What histories call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::TtlEdge => "ttl-edge",
            Self::Deadlock => "deadlock",
            Self::Sorted => "deadlock-sorted",
            Self::StaleRelease => "stale-release",
            Self::ShortStock => "short-stock",
            Self::Failover => "failover",
            Self::RestartEmpty => "restart-empty",
            Self::LostWakeup => "lost-wakeup",
        }
    }

    /// The words that run it, after `fencepost`.
    pub fn command(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::TtlEdge => "crash --ttl-edge",
            Self::Deadlock => "deadlock",
            Self::Sorted => "deadlock --mitigate",
            Self::StaleRelease => "trial stale-release",
            Self::ShortStock => "trial short-stock",
            Self::Failover => "trial failover",
            Self::RestartEmpty => "trial restart-empty",
            Self::LostWakeup => "trial lost-wakeup",
        }
    }

    /// The scenario that a history names.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|scenario| scenario.name() == name)
    }

    /// How long a lock lasts, unless told otherwise.
    pub fn ttl_ms(self) -> u64 {
        match self {
            Self::Crash | Self::TtlEdge => 2_000,
            Self::Deadlock | Self::Sorted => 3_000,
            Self::StaleRelease | Self::ShortStock | Self::LostWakeup => 500,
            // Nobody waits for it to end: what is shown happens within it.
            Self::Failover | Self::RestartEmpty => 10_000,
        }
    }

    /// The same at a place whose leases cannot be as short.
    pub fn ttl_ms_at(self, place: &Place) -> u64 {
        self.ttl_ms().max(place.shortest_ttl_ms())
    }

    /// Whether the lab makes servers fail: then they are its own, started for this one trial.
    pub fn fails_servers(self) -> bool {
        matches!(self, Self::Failover | Self::RestartEmpty)
    }

    /// Where it takes place unless told otherwise.
    pub fn place(self) -> Place {
        match self.fails_servers() {
            true => Place::named("redis"),
            false => Place::default(),
        }
    }

    /// How many processes take part.
    pub fn processes(self) -> usize {
        match self {
            Self::StaleRelease => 3,
            _ => 2,
        }
    }
}

/// What to try.
#[derive(Debug, Clone)]
pub struct Trial {
    /// What happens.
    pub scenario: Scenario,
    /// The strategy on trial; one that has a lock.
    pub strategy: &'static Strategy,
    /// How long a lock may be held without being renewed.
    pub ttl_ms: u64,
    /// How long the holder works, where that is the question.
    pub work_ms: u64,
    /// Where.
    pub place: Place,
    /// The random seed: it decides who is asked first where both are ready.
    pub seed: u64,
}

impl Trial {
    /// Work between reading and writing, unless told otherwise.
    pub const WORK_MS: u64 = 3_000;

    /// The same at a place whose leases cannot be as short.
    pub fn work_ms_at(place: &Place) -> u64 {
        Self::WORK_MS.max(place.shortest_ttl_ms() * 3 / 2)
    }

    /// The trial as it is run when nothing else is asked for.
    pub fn new(scenario: Scenario, strategy: &'static Strategy, seed: u64) -> Self {
        Self {
            scenario,
            strategy,
            ttl_ms: scenario.ttl_ms(),
            work_ms: Self::WORK_MS,
            place: scenario.place(),
            seed,
        }
    }

    /// What a history says was tried; `None` when it was no lock trial, or its strategy is not one of ours.
    pub fn of(header: &Header) -> Option<Self> {
        Some(Self {
            scenario: Scenario::find(&header.scenario)?,
            strategy: strategy::find(&header.strategy)?,
            ttl_ms: header.ttl_ms,
            work_ms: header.holds?.work_ms,
            place: Place::named(&header.store),
            seed: header.seed,
        })
    }

    /// What a history of this trial starts with, when its processes promise what the strategy is known to.
    pub fn header(&self) -> Header {
        self.header_with(self.strategy.claims)
    }

    /// What a history of this trial starts with, when its processes promise this.
    fn header_with(&self, claims: Claims) -> Header {
        Header {
            schema: history::SCHEMA.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            recorded: history::now(),
            scenario: self.scenario.name().into(),
            strategy: self.strategy.name.into(),
            claim: self.strategy.claim,
            store: self.place.name().into(),
            seed: self.seed,
            stock: 0,
            concurrency: self.scenario.processes(),
            delay_us: 0,
            wait_ms: 0,
            ttl_ms: self.ttl_ms,
            holds: Some(HoldSettings {
                work_ms: self.work_ms,
                claims,
            }),
        }
    }

    fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    /// When the lease of a grant begins to run.
    fn lease(&self, claims: Claims) -> Lease {
        match self.strategy.name {
            "late-expiry" => Lease::FromWrite,
            _ if claims.untimed => Lease::Never,
            _ if claims.keep_alive => Lease::Renewed,
            _ => Lease::FromGrant,
        }
    }

    /// The command that runs this with another strategy; what differs from the defaults is named.
    pub fn command(&self, strategy: &str) -> String {
        let mut text = format!("fencepost {} --lock={strategy}", self.scenario.command());
        if self.ttl_ms != self.scenario.ttl_ms_at(&self.place) {
            text.push_str(&format!(" --ttl {}", self.ttl_ms));
        }
        if self.scenario == Scenario::TtlEdge && self.work_ms != Self::work_ms_at(&self.place) {
            text.push_str(&format!(" --work {}", self.work_ms));
        }
        if self.place.name() != self.scenario.place().name() {
            text.push_str(&format!(" --store {}", self.place.typed()));
        }
        text
    }

    /// The name of its files, without their ending.
    pub fn file_stem(&self) -> String {
        format!("{}_{}", self.scenario.name(), self.strategy.name)
    }

    /// The command that runs this again.
    pub fn reproduce(&self) -> String {
        format!("{} --seed {}", self.command(self.strategy.name), self.seed)
    }
}

/// The lock trials of the matrix, scenario by scenario: every lock there is.
///
/// Trials mostly sleep; most of them sleep less than by default. Two rows keep the default times.
pub fn cells(place: &Place, seed: u64) -> Vec<Trial> {
    const DEFAULT_TIMES: [&str; 2] = ["naive", "safe"];
    let able = |strategy: &&'static Strategy| strategy.lock.is_some();
    let mut cells = Vec::new();
    let anywhere = Scenario::ALL.into_iter().filter(|all| !all.fails_servers());
    for scenario in anywhere {
        for strategy in strategy::at(place).filter(able) {
            let mut trial = Trial::new(scenario, strategy, seed);
            trial.place = place.clone();
            if !DEFAULT_TIMES.contains(&strategy.name) {
                (trial.ttl_ms, trial.work_ms) = (500, 750);
            }
            cells.push(trial);
        }
    }
    cells
}

/// When a lease begins to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lease {
    /// With the grant.
    FromGrant,
    /// Only once the work is done.
    FromWrite,
    /// Again and again, as long as the process runs.
    Renewed,
    /// There is none.
    Never,
}

/// Somebody who looks on.
pub trait Watch {
    /// How long a process may say nothing while it starts, or longer than it was told to wait.
    fn patience(&self) -> Duration {
        PATIENCE
    }

    /// So many of the processes are ready.
    fn starting(&mut self, ready: usize, of: usize) {
        let _ = (ready, of);
    }

    /// Called whenever something happened, and now and then: the history so far, and the time.
    fn look(&mut self, header: &Header, events: &[Event], now_ns: u64) {
        let _ = (header, events, now_ns);
    }
}

/// Looks away.
impl Watch for () {}

/// Runs a lock trial.
///
/// `subject` makes the command of each process; `file` receives the history as it happens.
///
/// Call it from a thread that outlives the run (see [`fencepost_rig::Child::spawn`]). Whatever the outcome, no process and no
/// temporary file is left when it returns.
///
/// # Errors
/// [`Stopped`] says why there is nothing to judge.
pub fn run(
    trial: &Trial,
    subject: &dyn Fn() -> Command,
    file: Option<File>,
    watch: &mut dyn Watch,
    interrupt: Interrupt,
) -> Result<History, Stopped> {
    stage::run(trial, subject, file, watch, interrupt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_is_tried_in_every_scenario() {
        let cells = cells(&Place::Sqlite, 7);
        assert_eq!(cells.len(), 7 * 7);
        let mut stems: Vec<String> = cells.iter().map(Trial::file_stem).collect();
        stems.sort();
        stems.dedup();
        assert_eq!(stems.len(), cells.len());
        for cell in cells {
            let header = cell.header();
            let again = Trial::of(&header).unwrap();
            assert_eq!(again.reproduce(), cell.reproduce());
            let expected = crate::expectation::holds(cell.scenario, cell.strategy.name);
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
