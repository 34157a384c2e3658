//! What waiting costs: the same sale in rounds, in each of which the buyers wait for the lock in another way.
//!
//! Every round has processes, a store and a stock of its own. A round is judged like any other sale; the figures beside
//! that ([`facts`]) compare the ways of waiting, and what is concluded from them ([`check`]) rests on this run alone.

use crate::history::{Header, History, What};
use crate::protocol::{Pauses, Retry};
use crate::sale::{self, Sale};
use crate::store::TrialStore;
use crate::strategy::{self, Group, Strategy};
use crate::text::numbers::count;
use crate::verdict::Outcome;

pub mod check;
pub mod facts;
mod judged;
mod run;
mod verdict;

pub use judged::{Judged, Round, judge, verdict};
pub use run::{Watch, run};

/// Its name in histories.
pub const SCENARIO: &str = "retry";

/// What to compare.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The lock that is waited for.
    pub strategy: &'static Strategy,
    /// Units at the start of each round.
    pub stock: u32,
    /// Processes in each round, each with one attempt.
    pub concurrency: usize,
    /// Work between reading and writing the stock.
    pub delay_us: u64,
    /// How often a process tries again.
    pub max_retries: u32,
    /// How long a lock may be held without being renewed.
    pub ttl_ms: u64,
    /// How long a process waits in all before it gives up.
    pub budget_ms: u64,
    /// Where it takes place.
    pub store: TrialStore,
    /// The random seed: it decides the order in which processes are asked, and their jitter.
    pub seed: u64,
}

impl Comparison {
    /// Units at the start, by default.
    pub const STOCK: u32 = 10;
    /// Processes, by default.
    pub const CONCURRENCY: usize = 20;
    /// Retries, by default.
    pub const MAX_RETRIES: u32 = 15;
    /// The lease, by default.
    pub const TTL_MS: u64 = 2_000;
    /// The budget, by default: longer than all retries of the slowest schedule take.
    pub const BUDGET_MS: u64 = 60_000;

    /// A comparison with the default settings.
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

    /// The ways of waiting that are compared. Only the library's locks and those of a database's sessions have a line to wait in.
    pub fn ways(&self) -> Vec<Pauses> {
        let strategy = self.strategy;
        let has_line = strategy.group == Group::Locks || strategy.claims.ends_with_holder();
        Pauses::ALL
            .into_iter()
            .filter(|pauses| *pauses != Pauses::Line || has_line)
            .collect()
    }

    /// What the committed table expects of each round: the same as of a race.
    pub fn expected(&self) -> Option<Outcome> {
        sale::expectation::expected(&Sale {
            stock: self.stock,
            concurrency: self.concurrency,
            ..Sale::new(self.strategy, self.seed)
        })
    }

    /// How long a process waits in all, as short as it can be said.
    pub(crate) fn budget(&self) -> String {
        let ms = self.budget_ms;
        if ms.is_multiple_of(1_000) {
            format!("{} s", count((ms / 1_000) as i64))
        } else {
            format!("{} ms", count(ms as i64))
        }
    }

    /// One round.
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

    /// The header of a history of this comparison.
    pub fn header(&self) -> Header {
        Header {
            scenario: SCENARIO.into(),
            ..self.sale(Pauses::Line).header()
        }
    }

    /// The comparison that a history is of; `None` if it is of another scenario, or its strategy or store is not one of ours.
    pub fn of(history: &History) -> Option<Self> {
        let header = &history.header;
        let strategy = strategy::find(&header.strategy)?;
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

    /// The command that makes this comparison again.
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

#[cfg(test)]
mod tests;
