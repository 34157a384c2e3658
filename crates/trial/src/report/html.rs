//! Runs as one page of HTML that needs nothing else: no server, no network, no other file.
//!
//! A [`Page`] borrows what was recorded and judged; [`render`] turns it into text. The page only draws: its script lays the
//! events out on a time axis, and every verdict in it was made by the checks. The script and the styles lie in `html/assets`,
//! a file for each idea, and are joined with the [viewer](fencepost_viewer)'s when the page is written.

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
mod retry;
mod sale;

pub use comparison::{page_of_comparison, retry_of};
pub use data::data as page_data;
pub use document::render;
pub use everything::page_of_everything;
pub use holds::{page_of_trial, run_of_trial};
pub use retry::{Retry, RetryRow, Turn};
pub use sale::{page_of_sales, run_of_sale};

/// What a page is about.
#[derive(Debug)]
pub struct Page<'a> {
    /// What was done, such as `oversell: 10 processes, stock 1`.
    pub title: String,
    /// The command that does it again.
    pub command: String,
    /// When it was done, in UTC.
    pub generated: String,
    /// The random seed.
    pub seed: u64,
    /// What was decided about all runs together, where that is more than a count.
    pub verdict: Option<&'a Verdict>,
    /// What was tried, in the order of the strategies; with several, the page has a matrix.
    pub runs: Vec<PageRun<'a>>,
    /// Ways of waiting compared, if they were.
    pub retry: Option<Retry>,
}

/// One trial on a page.
#[derive(Debug)]
pub struct PageRun<'a> {
    /// What links call it, unique on the page: `safe.ttl-edge`.
    pub id: String,
    /// The heading of its column.
    pub scenario: String,
    /// What happens in the scenario, in a few words.
    pub about: String,
    /// The command that runs it again.
    pub command: String,
    /// What the committed table expects.
    pub expected: Option<Outcome>,
    /// What was set, as label and value; runs that are set alike can be compared.
    pub settings: Vec<(&'static str, String)>,
    /// What the lock promises.
    pub claims: Claims,
    /// What was set, as recorded.
    pub header: &'a Header,
    /// What was decided.
    pub verdict: &'a Verdict,
    /// What happened.
    pub events: &'a [Event],
}

impl<'a> PageRun<'a> {
    /// A run of which nothing else is known than its record and its verdict. The claims are those of the strategy, where it is one
    /// of ours.
    pub fn new(header: &'a Header, verdict: &'a Verdict, events: &'a [Event]) -> Self {
        let ours = || strategy::find(&header.strategy).map(|strategy| strategy.claims);
        let claims = strategy::claims_in(header).or_else(ours);
        Self {
            id: format!("{}.{}", header.strategy, header.scenario),
            scenario: header.scenario.clone(),
            about: String::new(),
            command: String::new(),
            expected: None,
            settings: Vec::new(),
            claims: claims.unwrap_or_default(),
            header,
            verdict,
            events,
        }
    }

    /// Whether something is sold, and nobody is seen to hold a lock.
    fn is_sale(&self) -> bool {
        let has = |wanted: fn(&What) -> bool| self.events.iter().any(|event| wanted(&event.what));
        has(|what| matches!(what, What::Purchase { .. }))
            && !has(|what| matches!(what, What::Acquire { .. }))
    }

    /// How long a lease lasts from its grant; none where that is not known.
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
