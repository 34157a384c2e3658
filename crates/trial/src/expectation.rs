//! What every cell is expected to say: the committed table that `run-all` and `--all` are held against.
//!
//! A hypothesis, not a rule: the trial decides, and a surprise is reported as one.

use crate::verdict::Outcome;

/// Nothing crashes and nothing takes too long in a race: locks whose flaw needs that hold like any other.
const OVERSELL: [(&str, Outcome); 16] = [
    ("none", Outcome::Broken),
    ("decrement", Outcome::Broken),
    ("mutex", Outcome::Broken),
    ("reentrant", Outcome::Broken),
    ("early-unlock", Outcome::Broken),
    ("naive", Outcome::Held),
    ("blind-delete", Outcome::Held),
    ("get-then-delete", Outcome::Held),
    ("late-expiry", Outcome::Held),
    ("safe", Outcome::Held),
    ("watchdog", Outcome::Held),
    ("fenced", Outcome::Held),
    ("atomic", Outcome::Held),
    ("optimistic", Outcome::Held),
    ("constraint", Outcome::Held),
    ("queue", Outcome::Held),
];

/// What a race with this strategy is expected to say, with enough processes and work for a race to happen.
pub fn oversell(strategy: &str) -> Option<Outcome> {
    let row = OVERSELL.iter().find(|(name, _)| *name == strategy);
    row.map(|(_, outcome)| *outcome)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_strategy_has_an_expectation() {
        for strategy in crate::strategy::ALL {
            assert!(
                super::oversell(strategy.name).is_some(),
                "{}",
                strategy.name
            );
        }
    }
}
