//! What came out of the cells of the matrix: a judged run, and each of its verdicts in a line.

use crate::any_scenario::AnyScenario;
use crate::history::{Event, History};
use crate::verdict::{Outcome, Verdict};
use crate::{holds, retry, sale};

/// How often a trial that [showed nothing](Run::showed_nothing) is repeated.
pub const REPETITIONS: usize = 2;

/// The result of a cell.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there are some dozens at most")]
pub enum Run {
    /// A sale.
    Sale(sale::Judged),
    /// A lock trial.
    Lock(holds::Judged),
    /// The comparison.
    Retry(retry::Judged),
}

impl Run {
    /// Returns the verdict on the whole run.
    pub fn verdict(&self) -> &Verdict {
        match self {
            Self::Sale(judged) => &judged.verdict,
            Self::Lock(judged) => &judged.verdict,
            Self::Retry(judged) => &judged.verdict,
        }
    }

    /// Returns the command that repeats it.
    pub fn reproduce(&self) -> String {
        match self {
            Self::Sale(judged) => judged.reproduce(),
            Self::Lock(judged) => judged.reproduce(),
            Self::Retry(judged) => judged.reproduce(),
        }
    }

    /// Returns the name of its scenario in histories.
    pub fn scenario(&self) -> &str {
        match self {
            Self::Sale(judged) => &judged.header.scenario,
            Self::Lock(judged) => &judged.header.scenario,
            Self::Retry(judged) => &judged.header.scenario,
        }
    }

    /// Returns its scenario; a comparison consists of sales.
    pub fn any_scenario(&self) -> AnyScenario {
        match self {
            Self::Lock(judged) => AnyScenario::Lock(judged.trial.scenario),
            Self::Sale(_) | Self::Retry(_) => AnyScenario::Sale,
        }
    }

    /// Returns the events of the run.
    pub fn events(&self) -> &[Event] {
        match self {
            Self::Sale(judged) => &judged.events,
            Self::Lock(judged) => &judged.events,
            Self::Retry(judged) => &judged.events,
        }
    }

    /// Returns the recorded run.
    pub fn history(&self) -> History {
        let header = match self {
            Self::Sale(judged) => &judged.header,
            Self::Lock(judged) => &judged.header,
            Self::Retry(judged) => &judged.header,
        };
        History {
            header: header.clone(),
            events: self.events().to_vec(),
        }
    }

    /// Returns each verdict of the run.
    pub fn summaries(&self) -> Vec<Summary> {
        match self {
            Self::Sale(judged) => vec![Summary::of_sale(judged)],
            Self::Lock(judged) => vec![Summary::of_trial(judged)],
            Self::Retry(judged) => {
                let rounds = judged.rounds.iter();
                rounds
                    .map(|round| Summary::of_round(judged, round))
                    .collect()
            }
        }
    }

    /// Returns whether every verdict is the expected one.
    pub fn as_expected(&self) -> bool {
        self.summaries().iter().all(Summary::as_expected)
    }

    /// Returns whether the run as a whole is INCONCLUSIVE, although the expectation is another verdict. Another run may test it. A
    /// comparison with a round that is BROKEN has shown enough, whatever its other rounds were.
    pub fn showed_nothing(&self) -> bool {
        self.verdict().outcome == Outcome::Inconclusive && !self.as_expected()
    }

    /// Returns whether two processes believed that they held a lock at the same time, and no harm was done because the resource
    /// refused one of them.
    pub fn is_refused_overlap(&self) -> bool {
        let Self::Lock(judged) = self else {
            return false;
        };
        judged.is_refused_overlap()
    }
}

/// A verdict with what lists and totals need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The scenario and, for the comparison, the way of waiting.
    pub scenario: String,
    /// The strategy.
    pub strategy: &'static str,
    /// The verdict.
    pub outcome: Outcome,
    /// The verdict that the committed table expects.
    pub expected: Option<Outcome>,
    /// How long it took, if that was measured separately.
    pub took_ns: Option<u64>,
    /// The command that runs it again.
    pub reproduce: String,
}

impl Summary {
    pub(crate) fn of_sale(judged: &sale::Judged) -> Self {
        Self {
            scenario: judged.header.scenario.clone(),
            strategy: judged.sale.strategy.name,
            outcome: judged.verdict.outcome,
            expected: judged.expected(),
            took_ns: None,
            reproduce: judged.reproduce(),
        }
    }

    fn of_trial(judged: &holds::Judged) -> Self {
        Self {
            scenario: judged.header.scenario.clone(),
            strategy: judged.trial.strategy.name,
            outcome: judged.verdict.outcome,
            expected: judged.expected(),
            took_ns: None,
            reproduce: judged.reproduce(),
        }
    }

    fn of_round(judged: &retry::Judged, round: &retry::Round) -> Self {
        Self {
            scenario: format!("{} {}", judged.header.scenario, round.retry.pauses.short()),
            strategy: judged.comparison.strategy.name,
            outcome: round.verdict.outcome,
            expected: judged.expected(),
            took_ns: Some(round.figures.duration_ns),
            reproduce: judged.reproduce(),
        }
    }

    /// Returns whether the verdict is the expected one.
    pub fn as_expected(&self) -> bool {
        self.expected == Some(self.outcome)
    }

    /// Returns whether the table expects another verdict. Of an external lock it expects nothing.
    pub fn is_surprise(&self) -> bool {
        self.expected
            .is_some_and(|expected| expected != self.outcome)
    }
}
