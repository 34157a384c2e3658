//! A comparison of ways of waiting for a lock: the same sale in several rounds, one per way.
//!
//! Every round has its own processes, store and stock. A round is judged like any other sale. In addition, figures ([`facts`])
//! compare the ways of waiting, and the verdict draws conclusions from them, which apply to this run only.

use crate::history::{Header, History, What};
use crate::protocol::{Pauses, Retry};
use crate::sale::{self, Sale};
use crate::store::TrialStore;
use crate::strategy::{self, Strategy};
use crate::text::numbers::count;
use crate::verdict::Outcome;

mod conclusions;
pub mod facts;
mod judged;
mod run;
pub mod verdict;

pub use judged::{Judged, Round};
pub use run::{RetryWatch, run};

/// The name of the scenario in histories.
pub const SCENARIO: &str = "retry";

/// The settings of a comparison.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The lock that the processes wait for.
    pub strategy: &'static Strategy,
    /// Units in stock at the start of each round.
    pub stock: u32,
    /// The number of processes in each round. Each makes one attempt.
    pub concurrency: usize,
    /// The duration of the work between reading and writing the stock.
    pub delay_us: u64,
    /// The number of times that a process tries again.
    pub max_retries: u32,
    /// How long a lock may be held without being renewed.
    pub ttl_ms: u64,
    /// How long a process waits in total before it gives up.
    pub budget_ms: u64,
    /// The store.
    pub store: TrialStore,
    /// The random seed. It decides the order in which processes are asked, and their jitter.
    pub seed: u64,
}

impl Comparison {
    /// The default stock.
    pub const STOCK: u32 = 10;
    /// The default number of processes.
    pub const CONCURRENCY: usize = 20;
    /// The default number of retries.
    pub const MAX_RETRIES: u32 = 15;
    /// The default lease.
    pub const TTL_MS: u64 = 2_000;
    /// The default total wait. Whoever sleeps longer than that gives up, and the report says so: plain exponential pauses may take several times as
    /// long as all other ways together.
    pub const BUDGET_MS: u64 = 10_000;
    /// A total wait in which every schedule is done.
    pub const PATIENT_MS: u64 = 60_000;

    /// Creates a comparison with the default settings.
    pub fn new(strategy: &'static Strategy, seed: u64) -> Self {
        Self {
            strategy,
            stock: Self::STOCK,
            concurrency: Self::CONCURRENCY,
            delay_us: Sale::DELAY_US,
            max_retries: Self::MAX_RETRIES,
            ttl_ms: Self::TTL_MS,
            budget_ms: Self::BUDGET_MS,
            store: TrialStore::default(),
            seed,
        }
    }

    /// Returns the ways of waiting to compare. The waiting line is one of them only if the lock has a line.
    pub fn ways(&self) -> Vec<Pauses> {
        Pauses::ALL
            .into_iter()
            .filter(|pauses| *pauses != Pauses::Line || self.strategy.has_line)
            .collect()
    }

    /// Returns the verdict that the committed table expects of each round, which is the same as for a sale.
    pub fn expected(&self) -> Option<Outcome> {
        sale::expectation::expected(&Sale {
            stock: self.stock,
            concurrency: self.concurrency,
            ..Sale::new(self.strategy, self.seed)
        })
    }

    /// Returns the sale of one round.
    fn sale(&self, pauses: Pauses) -> Sale {
        Sale {
            stock: self.stock,
            concurrency: self.concurrency,
            delay_us: self.delay_us,
            retry: Some(Retry {
                pauses,
                max_retries: self.max_retries,
                budget_ms: self.budget_ms,
                seed: self.seed,
            }),
            lease_ms: Some(self.ttl_ms),
            store: self.store.clone(),
            ..Sale::new(self.strategy, self.seed)
        }
    }

    /// Returns the header for a history of this comparison.
    pub fn header(&self) -> Header {
        Header {
            scenario: SCENARIO.into(),
            ..self.sale(Pauses::Line).header()
        }
    }

    /// Returns the comparison that a history belongs to. Returns `None` if it belongs to another scenario, or if its strategy
    /// or store is not one of ours.
    pub fn of(history: &History) -> Option<Self> {
        let header = &history.header;
        let strategy = strategy::of_run(header)?;
        let first = history.events.iter().find_map(|event| match event.what {
            What::Round { retry } => Some(retry),
            _ => None,
        })?;
        (header.scenario == SCENARIO).then_some(Self {
            strategy,
            stock: u32::try_from(header.stock).ok()?,
            concurrency: header.concurrency,
            delay_us: header.delay_us,
            max_retries: first.max_retries,
            ttl_ms: header.ttl_ms,
            budget_ms: first.budget_ms,
            store: TrialStore::named(&header.store)?,
            seed: header.seed,
        })
    }

    /// Returns the command that repeats this comparison.
    pub fn reproduce(&self) -> String {
        let mut text = format!(
            "fencepost retry --lock={} --stock={} --concurrency={}",
            self.strategy.name, self.stock, self.concurrency
        );
        let numbers = [
            (
                "--max-retries",
                self.max_retries.into(),
                Self::MAX_RETRIES.into(),
            ),
            ("--ttl", self.ttl_ms, Self::TTL_MS),
            ("--delay", self.delay_us, Sale::DELAY_US),
            ("--budget", self.budget_ms, Self::BUDGET_MS),
        ];
        for (flag, value, _) in numbers.iter().filter(|(_, value, usual)| value != usual) {
            text.push_str(&format!(" {flag} {value}"));
        }
        if self.store != TrialStore::sqlite() {
            text.push_str(&format!(" --store {}", self.store.typed()));
        }
        format!("{text} --seed {}", self.seed)
    }
}

/// Formats a total wait as briefly as possible.
pub(crate) fn budget_in_words(ms: u64) -> String {
    if ms.is_multiple_of(1_000) {
        format!("{} s", count((ms / 1_000) as i64))
    } else {
        format!("{} ms", count(ms as i64))
    }
}

#[cfg(test)]
mod tests;
