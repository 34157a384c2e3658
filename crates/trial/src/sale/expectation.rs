//! The expected verdict of every sale, as a committed table that `run-all` and `--all` compare their results with.
//!
//! The table is a hypothesis, not a rule: the trial decides, and a deviation is reported as a surprise.

use super::Sale;
use crate::verdict::Outcome;

/// In a sale nothing crashes and nothing takes too long. Locks whose flaw needs either hold like any other.
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

/// Returns the expected verdict of a sale with this strategy, given enough processes and work for a race to occur.
pub fn expected(sale: &Sale) -> Option<Outcome> {
    let name = sale.strategy.name;
    // Its subtraction loses nothing. It fails only if the stock is too small for all buyers.
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
