//! The page of a saved history: drawn from the file alone, like the page that its run has written or could have written.

use super::comparison::Compared;
use super::page::{sale_title, trial_title};
use super::{Page, PageRun};
use crate::history::History;
use crate::holds::{self, Scenario, Trial};
use crate::retry::{self, Comparison};
use crate::sale::{self, Sale};
use crate::saved::Rejudged;

impl<'a> Page<'a> {
    /// Returns the page of a history that was judged again. If its lock or its store is not one of ours, the page shows no command that
    /// repeats the run, and no verdict that is expected.
    pub fn of_saved(rejudged: &'a Rejudged) -> Self {
        let History { header, events } = &rejudged.saved.history;
        let verdict = &rejudged.verdict;
        let command = rejudged.reproduce();
        match (header.scenario.as_str(), Scenario::find(&header.scenario)) {
            (sale::SCENARIO, _) => {
                let sale = Sale::of(header);
                let run = PageRun {
                    command,
                    expected: sale.and_then(|sale| sale::expectation::expected(&sale)),
                    ..PageRun::selling(header, verdict, events)
                };
                Self::of_run(sale_title(header.concurrency, header.stock), run)
            }
            (retry::SCENARIO, _) => {
                let comparison = Comparison::of(&rejudged.saved.history);
                let compared = Compared {
                    header,
                    events,
                    rounds: &rejudged.rounds,
                    verdict,
                    expected: comparison.and_then(|comparison| comparison.expected()),
                };
                Self::of_compared(compared, command)
            }
            (_, Some(scenario)) => {
                let trial = Trial::of(header);
                let run = PageRun {
                    command,
                    expected: trial.and_then(|trial| holds::expectation::expected(&trial)),
                    ..PageRun::in_scenario(scenario, header, verdict, events)
                };
                Self::of_run(trial_title(&run), run)
            }
            (name, None) => Self::of_run(name.to_owned(), PageRun::new(header, verdict, events)),
        }
    }
}
