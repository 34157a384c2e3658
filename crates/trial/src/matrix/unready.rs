//! The result of a cell whose program did not get ready: the run is INCONCLUSIVE, and the other cells go on.

use super::{Cell, Run};
use crate::history::{Event, Header, History, What};
use crate::processes::NoVerdict;
use crate::{holds, sale};

impl Cell {
    /// Returns the result of this cell if its program did not get ready. `None` if the run ended for another reason, which concerns the
    /// other cells as well.
    pub fn unready(&self, no_verdict: &NoVerdict) -> Option<Run> {
        match self {
            Self::Sale(sale) => {
                let history = history(sale.header(), no_verdict)?;
                Some(Run::Sale(sale::Judged::of(sale, history)))
            }
            Self::Lock(trial) => {
                let history = history(trial.header(), no_verdict)?;
                Some(Run::Lock(holds::Judged::of(trial, history)))
            }
            Self::Retry(_) => None,
        }
    }
}

/// Returns a history in which a process did not get ready.
fn history(header: Header, no_verdict: &NoVerdict) -> Option<History> {
    let (who, instead) = no_verdict.not_ready()?;
    let subject = who.unwrap_or("the program");
    let why = format!("{subject} did not get ready: {instead}");
    let event = Event {
        n: 1,
        at_ns: 0,
        who: who.map(str::to_owned),
        what: What::GaveUp { why },
    };
    Some(History {
        header,
        events: vec![event],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gauntlet::SCENARIOS;
    use crate::store::TrialStore;
    use crate::strategy;
    use crate::verdict::Outcome;

    fn not_ready() -> NoVerdict {
        NoVerdict::NotReady {
            who: "B".into(),
            what: "ended with 4 before it was ready".into(),
            last_words: vec!["starting".into(), "no database".into()],
        }
    }

    #[test]
    fn a_program_that_does_not_get_ready_shows_nothing_in_any_scenario_and_the_reason_is_told() {
        let safe = strategy::find("safe").unwrap();
        for scenario in SCENARIOS {
            let cell = scenario.cell(safe, &TrialStore::sqlite(), 7);
            let run = cell.unready(&not_ready()).unwrap();
            let verdict = run.verdict();
            assert_eq!(verdict.outcome, Outcome::Inconclusive, "{scenario:?}");
            assert_eq!(
                verdict.because,
                "Nothing was tried: B did not get ready: it ended with 4 before it was ready (no database).",
                "{scenario:?}"
            );
        }
    }

    #[test]
    fn a_store_that_is_gone_concerns_every_cell() {
        let safe = strategy::find("safe").unwrap();
        let cell = SCENARIOS[0].cell(safe, &TrialStore::sqlite(), 7);
        let gone = NoVerdict::Store("connection refused".into());
        assert!(cell.unready(&gone).is_none());
    }
}
