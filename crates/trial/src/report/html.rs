//! Runs as a single, self-contained HTML page that needs no server, network or other file.
//!
//! A [`Page`] borrows what was recorded and judged, and [`render`] turns it into text. The page only draws: its script lays out
//! the events on a time axis, and all verdicts come from the checks. The script and the styles are in `html/assets`, one file
//! per topic, and are joined with those of the [viewer](fencepost_viewer) when the page is written.

use crate::history::{Event, Header, What};
use crate::protocol::{Claims, Promise};
use crate::strategy;
use crate::verdict::{Outcome, Verdict};

mod comparison;
mod data;
mod document;
mod events;
mod everything;
mod holds;
mod sale;

pub use comparison::{ComparisonRow, ComparisonTable, Turn, page_of_comparison, table_of};
pub use data::data as page_data;
pub use document::render;
pub use everything::{page_of_everything, page_of_gauntlet, page_of_ladder};
pub use holds::{page_of_trial, run_of_trial};
pub use sale::{page_of_sales, run_of_sale};

/// The contents of a page.
#[derive(Debug)]
pub struct Page<'a> {
    /// The title, such as `oversell: 10 processes, stock 1`.
    pub title: String,
    /// The command that reproduces it.
    pub command: String,
    /// When it was made, in UTC.
    pub generated: String,
    /// The random seed.
    pub seed: u64,
    /// The verdict on all runs together, if it is more than a count.
    pub verdict: Option<&'a Verdict>,
    /// The runs, in the order of the strategies. A page with several runs has a matrix.
    pub runs: Vec<PageRun<'a>>,
    /// The comparison of ways of waiting, if there is one.
    pub retry: Option<ComparisonTable>,
}

/// One trial on a page.
#[derive(Debug)]
pub struct PageRun<'a> {
    /// The identifier in links, unique on the page: `safe.ttl-edge`.
    pub id: String,
    /// The heading of its column.
    pub scenario: String,
    /// What happens in the scenario, in a few words.
    pub about: String,
    /// The command that runs it again.
    pub command: String,
    /// The verdict that the committed table expects.
    pub expected: Option<Outcome>,
    /// The settings, as label and value. Runs with the same settings can be compared.
    pub settings: Vec<(&'static str, String)>,
    /// What the lock promises.
    pub claims: Claims,
    /// The settings, as recorded.
    pub header: &'a Header,
    /// The verdict.
    pub verdict: &'a Verdict,
    /// The events of the run.
    pub events: &'a [Event],
}

impl<'a> PageRun<'a> {
    /// Creates a run from its record and its verdict only. The claims are those of the strategy, if it is one of ours.
    pub fn new(header: &'a Header, verdict: &'a Verdict, events: &'a [Event]) -> Self {
        Self {
            id: format!("{}.{}", header.strategy, header.scenario),
            scenario: header.scenario.clone(),
            about: String::new(),
            command: String::new(),
            expected: None,
            settings: Vec::new(),
            claims: strategy::claims_of(header),
            header,
            verdict,
            events,
        }
    }

    /// Returns whether the run is a sale, in which no holds are recorded.
    fn is_sale(&self) -> bool {
        let has = |wanted: fn(&What) -> bool| self.events.iter().any(|event| wanted(&event.what));
        has(|what| matches!(what, What::Purchase { .. }))
            && !has(|what| matches!(what, What::Acquire { .. }))
    }

    /// Returns how long a lease lasts from its grant; zero if the lease does not begin with the grant.
    fn lease_us(&self) -> u64 {
        if self.claims.expires_after_work {
            return 0;
        }
        self.header.ttl_ms.saturating_mul(1000)
    }

    fn claims_exclusion(&self) -> bool {
        self.header.promise == Promise::Exclusion
    }
}
