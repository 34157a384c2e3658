//! What every sale is expected to say: the committed table that `run-all` and `--all` are held against.
//!
//! A hypothesis, not a rule: the trial decides, and a surprise is reported as one.

use super::Sale;
use crate::verdict::Outcome;

/// Nothing crashes and nothing takes too long in a race: locks whose flaw needs that hold like any other.
const OVERSELL: [(&str, Outcome); 22] = [
    ("none", Outcome::Broken),
    ("decrement", Outcome::Broken),
    ("mutex", Outcome::Broken),
    ("reentrant", Outcome::Broken),
    ("early-unlock", Outcome::Broken),
    ("naive", Outcome::Held),
    ("blind-delete", Outcome::Held),
    ("get-then-delete", Outcome::Held),
    ("late-expiry", Outcome::Held),
    ("late-watch", Outcome::Held),
    ("safe", Outcome::Held),
    ("watchdog", Outcome::Held),
    ("fenced", Outcome::Held),
    ("row", Outcome::Held),
    ("table", Outcome::Held),
    ("advisory", Outcome::Held),
    ("unique-index", Outcome::Held),
    ("lease", Outcome::Held),
    ("atomic", Outcome::Held),
    ("optimistic", Outcome::Held),
    ("constraint", Outcome::Held),
    ("queue", Outcome::Held),
];

/// What a race with this strategy is expected to say, with enough processes and work for a race to happen.
pub fn expected(sale: &Sale) -> Option<Outcome> {
    let name = sale.strategy.name;
    // Its subtraction loses nothing: it goes wrong only when there is not enough for everybody.
    if name == "decrement" && u64::from(sale.stock) >= sale.concurrency as u64 {
        return Some(Outcome::Inconclusive);
    }
    let row = OVERSELL.iter().find(|(known, _)| *known == name);
    row.map(|(_, outcome)| *outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy;

    #[test]
    fn every_strategy_has_an_expectation() {
        for strategy in strategy::ALL {
            let sale = Sale::new(strategy, 1);
            assert!(expected(&sale).is_some(), "{}", strategy.name);
        }
    }

    #[test]
    fn where_there_is_enough_for_all_a_decrement_cannot_go_wrong() {
        let decrement = strategy::find("decrement").unwrap();
        let mut sale = Sale::new(decrement, 1);
        assert_eq!(expected(&sale), Some(Outcome::Broken));
        sale.stock = 50;
        assert_eq!(expected(&sale), Some(Outcome::Inconclusive));
        sale.stock = 49;
        assert_eq!(expected(&sale), Some(Outcome::Broken));
    }
}
