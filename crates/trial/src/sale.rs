//! A sale trial: many real processes buy from one stock at the same time.
//!
//! [`run`] records a history, [`facts`] and [`check`] read it, and [`verdict`] judges it.

use std::time::Duration;

use fencepost::random::SeededRandom;

use crate::history::{self, Header};
use crate::processes::shuffled;
use crate::protocol::Retry;
use crate::store::{FIRST_LOCK, TrialStore};
use crate::strategy::{self, Strategy};

#[cfg(test)]
pub(crate) mod by_hand;
pub mod check;
pub mod contention;
pub mod expectation;
pub mod facts;
mod fences;
mod judged;
pub mod remark;
mod run;
pub mod verdict;

pub use judged::Judged;
pub(crate) use run::record;
pub use run::{SaleWatch, run};

/// The name of the scenario in histories.
pub const SCENARIO: &str = "oversell";
/// The product, which is also the name of the lock that protects it.
pub const PRODUCT: &str = FIRST_LOCK;

/// The settings of a sale.
#[derive(Debug, Clone)]
pub struct Sale {
    /// The strategy on trial.
    pub strategy: &'static Strategy,
    /// Units in stock at the start.
    pub stock: u32,
    /// The number of processes. Each makes one attempt.
    pub concurrency: usize,
    /// The duration of the work between reading and writing the stock.
    pub delay_us: u64,
    /// How long an attempt waits for the lock; 0 means a single attempt.
    pub wait_ms: u64,
    /// The store.
    pub store: TrialStore,
    /// The random seed. It decides the order in which processes are asked.
    pub seed: u64,
    /// How attempts retry when the lock is taken, instead of waiting.
    pub retry: Option<Retry>,
    /// How long a lock may be held without being renewed; by default far longer than the work.
    pub lease_ms: Option<u64>,
}

impl Sale {
    /// The default stock.
    pub const STOCK: u32 = 1;
    /// The default number of processes.
    pub const CONCURRENCY: usize = 50;
    /// The default duration of the work between reading and writing the stock.
    pub const DELAY_US: u64 = 5_000;

    /// Creates a sale with the default settings.
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

    /// Returns the sale that a history belongs to. Returns `None` if it belongs to another scenario, or if its strategy or
    /// store is not one of ours.
    pub fn of(header: &Header) -> Option<Self> {
        let strategy = strategy::of_run(header)?;
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

    /// Returns the TTL, by default far longer than the work: this trial is not about what happens beyond the lease.
    fn ttl_ms(&self) -> u64 {
        self.lease_ms.unwrap_or(10_000 + 2 * self.delay_us / 1_000)
    }

    /// Returns how long an attempt takes at most, according to the settings.
    fn longest_attempt(&self) -> Duration {
        let waits_ms = self.retry.map_or(self.wait_ms, |retry| retry.budget_ms);
        Duration::from_millis(waits_ms) + Duration::from_micros(self.delay_us)
    }

    /// Returns the header for a history of this sale.
    pub fn header(&self) -> Header {
        Header {
            schema: history::SCHEMA.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            recorded: history::now(),
            scenario: SCENARIO.into(),
            strategy: self.strategy.name.into(),
            external: Some(self.strategy.is_external()),
            promise: self.strategy.promise,
            store: self.store.name().into(),
            seed: self.seed,
            stock: self.stock.into(),
            concurrency: self.concurrency,
            delay_us: self.delay_us,
            wait_ms: self.wait_ms,
            ttl_ms: self.ttl_ms(),
            holds: None,
            claims: self.strategy.is_external().then_some(self.strategy.claims),
        }
    }

    /// Returns the order in which the processes are asked, which is the lab's only choice.
    fn start_order(&self) -> Vec<usize> {
        shuffled(&SeededRandom::new(self.seed), self.concurrency)
    }

    /// Returns the command that repeats this sale.
    pub fn reproduce(&self) -> String {
        format!(
            "{} --seed {}",
            self.command(self.strategy.argument()),
            self.seed
        )
    }

    /// Returns the command that runs this sale with another strategy. Flags appear only where they differ from the default.
    pub fn command(&self, strategy: &str) -> String {
        self.command_with(strategy, &self.settings())
    }

    /// Returns the command that runs this sale. The stock is not named if it is the default.
    pub(crate) fn brief_command(&self) -> String {
        let name = self.strategy.argument();
        if self.stock == Self::STOCK {
            self.command_with(name, &self.settings_without_stock())
        } else {
            self.command(name)
        }
    }

    fn command_with(&self, strategy: &str, settings: &str) -> String {
        let mut text = format!("fencepost oversell --lock={strategy}{settings}");
        if self.wait_ms > 0 {
            text.push_str(&format!(" --wait {}", self.wait_ms));
        }
        text
    }

    /// Returns the flags that both a single sale and `--all` accept.
    pub(crate) fn settings(&self) -> String {
        format!(" --stock={}{}", self.stock, self.settings_without_stock())
    }

    fn settings_without_stock(&self) -> String {
        let mut text = format!(" --concurrency={}", self.concurrency);
        if self.store != TrialStore::sqlite() {
            text.push_str(&format!(" --store {}", self.store.typed()));
        }
        if self.delay_us != Self::DELAY_US {
            text.push_str(&format!(" --delay={}", self.delay_us));
        }
        text
    }
}
