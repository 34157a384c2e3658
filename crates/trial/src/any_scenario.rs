//! A scenario of either kind: the sale, or a lock trial.

use crate::holds::Scenario;
use crate::sale;

/// What a strategy can be tried in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnyScenario {
    /// The sale, also in the rounds of a comparison.
    Sale,
    /// A lock trial.
    Lock(Scenario),
}

impl AnyScenario {
    /// Returns its name in histories.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sale => sale::SCENARIO,
            Self::Lock(scenario) => scenario.name(),
        }
    }

    /// Returns the scenario of the lock trial, if it is one.
    pub fn lock(self) -> Option<Scenario> {
        match self {
            Self::Sale => None,
            Self::Lock(scenario) => Some(scenario),
        }
    }
}
