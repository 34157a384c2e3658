//! A sale trial: many real processes buy from one stock at once.
//!
//! [`run`] makes a history of it, [`facts`] and [`check`] read that history, and [`verdict`] judges it.

use std::time::Duration;

use fencepost::random::{Random, SeededRandom};

use crate::history::{self, Header};
use crate::protocol::Retry;
use crate::store::TrialStore;
use crate::strategy::{self, Strategy};

#[cfg(test)]
pub(crate) mod by_hand;
pub mod check;
pub mod expectation;
pub mod facts;
mod judged;
pub mod remark;
mod run;
pub mod verdict;

pub use crate::processes::Stopped;
pub use judged::Judged;
pub(crate) use run::record;
pub use run::{Watch, run};

/// Its name in histories.
pub const SCENARIO: &str = "oversell";
/// What is sold; also the name of the lock that protects it.
pub const PRODUCT: &str = "product_A";

/// What to try.
#[derive(Debug, Clone)]
pub struct Sale {
    /// The strategy on trial.
    pub strategy: &'static Strategy,
    /// Units at the start.
    pub stock: u32,
    /// Processes, each with one attempt.
    pub concurrency: usize,
    /// Work between reading and writing the stock.
    pub delay_us: u64,
    /// How long an attempt waits for the lock; 0 is one attempt.
    pub wait_ms: u64,
    /// Where it takes place.
    pub store: TrialStore,
    /// The random seed: it decides in which order the processes are asked.
    pub seed: u64,
    /// How attempts go on when the lock is taken, instead of waiting.
    pub retry: Option<Retry>,
    /// How long a lock may be held without being renewed; if not told, far longer than the work.
    pub lease_ms: Option<u64>,
}

impl Sale {
    /// Units at the start, by default.
    pub const STOCK: u32 = 1;
    /// Processes, by default.
    pub const CONCURRENCY: usize = 50;
    /// Work between reading and writing the stock, by default.
    pub const DELAY_US: u64 = 5_000;

    /// A race with the default settings.
    pub fn new(strategy: &'static Strategy, seed: u64) -> Self {
        let (stock, concurrency, delay_us) = (Self::STOCK, Self::CONCURRENCY, Self::DELAY_US);
        Self {
            strategy,
            stock,
            concurrency,
            delay_us,
            wait_ms: 0,
            store: TrialStore::default(),
            seed,
            retry: None,
            lease_ms: None,
        }
    }

    /// The sale that a history is of; `None` if it is of another scenario, or its strategy or store is not one of ours.
    pub fn of(header: &Header) -> Option<Self> {
        let strategy = strategy::find(&header.strategy)?;
        (header.scenario == SCENARIO).then_some(Self {
            strategy,
            stock: u32::try_from(header.stock).ok()?,
            concurrency: header.concurrency,
            delay_us: header.delay_us,
            wait_ms: header.wait_ms,
            store: TrialStore::named(&header.store)?,
            seed: header.seed,
            retry: None,
            lease_ms: None,
        })
    }

    /// Far longer than the work, unless told otherwise: what happens beyond the lease is not the question of this trial.
    fn ttl_ms(&self) -> u64 {
        self.lease_ms.unwrap_or(10_000 + 2 * self.delay_us / 1_000)
    }

    /// How long an attempt takes at most, by its settings.
    fn told(&self) -> Duration {
        let patience_ms = self.retry.map_or(self.wait_ms, |retry| retry.budget_ms);
        Duration::from_millis(patience_ms) + Duration::from_micros(self.delay_us)
    }

    /// The header of a history of this sale.
    pub fn header(&self) -> Header {
        Header {
            schema: history::SCHEMA.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            recorded: history::now(),
            scenario: SCENARIO.into(),
            strategy: self.strategy.name.into(),
            promise: self.strategy.promise,
            store: self.store.name().into(),
            seed: self.seed,
            stock: self.stock.into(),
            concurrency: self.concurrency,
            delay_us: self.delay_us,
            wait_ms: self.wait_ms,
            ttl_ms: self.ttl_ms(),
            holds: None,
        }
    }

    /// The order in which the processes are asked: the lab's one choice.
    fn start_order(&self) -> Vec<usize> {
        let random = SeededRandom::new(self.seed);
        let mut order: Vec<usize> = (0..self.concurrency).collect();
        for last in (1..order.len()).rev() {
            let chosen = random.next_u64() % (last as u64 + 1);
            order.swap(last, chosen as usize);
        }
        order
    }

    /// The command that runs this race again.
    pub fn reproduce(&self) -> String {
        format!("{} --seed {}", self.command(self.strategy.name), self.seed)
    }

    /// The command that runs this race with another strategy. Flags appear only where they differ from the default.
    pub fn command(&self, strategy: &str) -> String {
        let mut text = format!("fencepost oversell --lock={strategy}{}", self.settings());
        if self.wait_ms > 0 {
            text.push_str(&format!(" --wait {}", self.wait_ms));
        }
        text
    }

    /// The flags that both a single race and `--all` take.
    pub(crate) fn settings(&self) -> String {
        let mut text = format!(" --stock={} --concurrency={}", self.stock, self.concurrency);
        if self.store != TrialStore::sqlite() {
            text.push_str(&format!(" --store {}", self.store.typed()));
        }
        if self.delay_us != Self::DELAY_US {
            text.push_str(&format!(" --delay={}", self.delay_us));
        }
        text
    }
}
