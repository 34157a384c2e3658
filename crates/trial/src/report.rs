//! What people and programs get to see: terminal text, JSON, a page and a trace.

pub mod checks;
pub(crate) mod decision;
pub mod grounds;
pub mod holds;
pub mod html;
pub mod ink;
pub mod json;
pub mod lanes;
pub mod matrix;
pub mod numbers;
pub mod race;
pub mod table;
pub mod trace;
pub mod wrap;

use crate::expectation;
use crate::facts::Facts;
use crate::ground::Place;
use crate::history::{Event, Header};
use crate::sale::Sale;
use crate::verdict::{Outcome, Verdict};

/// A run that was judged: what every report is made of.
#[derive(Debug, Clone)]
pub struct Judged {
    /// What was tried.
    pub sale: Sale,
    /// What was set.
    pub header: Header,
    /// What was recorded.
    pub events: Vec<Event>,
    /// What happened.
    pub facts: Facts,
    /// What was decided.
    pub verdict: Verdict,
}

impl Judged {
    /// What the committed table expects of this strategy.
    pub fn expected(&self) -> Option<Outcome> {
        expectation::oversell(&self.sale)
    }

    /// Whether the table expected this verdict.
    pub fn as_expected(&self) -> bool {
        self.expected() == Some(self.verdict.outcome)
    }

    /// From the start of the race to the lab's last reading.
    pub fn duration_ns(&self) -> u64 {
        let last = self
            .facts
            .attempts
            .last()
            .map_or(0, |attempt| attempt.answered_ns);
        self.facts
            .final_reading
            .map_or(last, |reading| reading.at_ns)
    }

    /// The command that runs this again.
    pub fn reproduce(&self) -> String {
        reproduce(&self.sale)
    }
}

/// The command that runs this race again.
pub(crate) fn reproduce(sale: &Sale) -> String {
    let command = command(sale, sale.strategy.name);
    format!("{command} --seed {}", sale.seed)
}

/// The command of this race with another strategy; what differs from the defaults is named.
pub(crate) fn command(sale: &Sale, strategy: &str) -> String {
    let mut text = format!("fencepost oversell --lock={strategy}{}", settings(sale));
    if sale.wait_ms > 0 {
        text.push_str(&format!(" --wait {}", sale.wait_ms));
    }
    text
}

/// The flags that both a single race and `--all` take.
pub(crate) fn settings(sale: &Sale) -> String {
    let mut text = format!(" --stock={} --concurrency={}", sale.stock, sale.concurrency);
    if sale.place != Place::Sqlite {
        text.push_str(&format!(" --store {}", sale.place.typed()));
    }
    if sale.delay_us != Sale::DELAY_US {
        text.push_str(&format!(" --delay={}", sale.delay_us));
    }
    text
}
