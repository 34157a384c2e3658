//! What every cell is expected to say: the committed table that `run-all` and `--all` are held against.
//!
//! A hypothesis, not a rule: the trial decides, and a surprise is reported as one.

use crate::ground::locks;
use crate::holds::{Scenario, Trial};
use crate::sale::Sale;
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
pub fn oversell(sale: &Sale) -> Option<Outcome> {
    let name = sale.strategy.name;
    // Its subtraction loses nothing: it goes wrong only when there is not enough for everybody.
    if name == "decrement" && u64::from(sale.stock) >= sale.concurrency as u64 {
        return Some(Outcome::Inconclusive);
    }
    let row = OVERSELL.iter().find(|(known, _)| *known == name);
    row.map(|(_, outcome)| *outcome)
}

/// What lock trials say of each lock, in the order of [`Scenario::ALL`], as far as the store itself does not fail: opposite order, same order, kill, work beyond the lease,
/// late release, nothing to sell.
const HOLDS: [(&str, [Outcome; 6]); 13] = {
    use Outcome::{Broken, Held, Stuck};
    [
        ("naive", [Broken, Held, Stuck, Broken, Broken, Held]),
        ("blind-delete", [Broken, Held, Held, Broken, Broken, Held]),
        (
            "get-then-delete",
            [Broken, Held, Held, Broken, Broken, Held],
        ),
        ("late-expiry", [Stuck, Held, Stuck, Held, Broken, Stuck]),
        // Nobody sees the deadlock, and the end of a session ends a hold.
        ("late-watch", [Stuck, Held, Held, Held, Held, Held]),
        ("safe", [Broken, Held, Held, Broken, Held, Held]),
        ("watchdog", [Stuck, Held, Held, Held, Held, Held]),
        ("fenced", [Held, Held, Held, Held, Held, Held]),
        // The database sees the deadlock, and the end of a session.
        ("row", [Held, Held, Held, Held, Held, Held]),
        ("table", [Held, Held, Held, Held, Held, Held]),
        ("advisory", [Held, Held, Held, Held, Held, Held]),
        ("unique-index", [Stuck, Held, Stuck, Held, Held, Held]),
        ("lease", [Broken, Held, Held, Broken, Held, Held]),
    ]
};

/// What a lock trial of this strategy is expected to say; none for strategies that have no lock.
pub fn holds(scenario: Scenario, strategy: &str) -> Option<Outcome> {
    let (_, row) = HOLDS.iter().find(|(name, _)| *name == strategy)?;
    if scenario == Scenario::LostWakeup {
        return Some(match strategy {
            "late-watch" => Outcome::Stuck,
            _ => Outcome::Held,
        });
    }
    let column = Scenario::ALL.iter().position(|known| *known == scenario)?;
    row.get(column).copied().or(Some(lost_store(strategy)))
}

/// The same for a whole trial: a majority forgets nothing.
pub fn trial(trial: &Trial) -> Option<Outcome> {
    let expected = holds(trial.scenario, trial.strategy.name)?;
    let survives = match trial.scenario {
        Scenario::Failover => trial.place.name() == "etcd",
        // Who has forgotten has no vote.
        Scenario::RestartEmpty => {
            let delay = locks::restart_delay(trial.place.name());
            delay.is_some_and(|delay| delay.as_millis() >= u128::from(trial.ttl_ms))
        }
        _ => false,
    };
    Some(if survives { Outcome::Held } else { expected })
}

/// What a lock comes to whose store forgets it: no care in taking it helps. What does is a resource that checks the fence, and, for writes
/// that come later, a lock that asks the server anew as soon as its connection has ended.
fn lost_store(strategy: &str) -> Outcome {
    match strategy {
        "fenced" | "watchdog" => Outcome::Held,
        _ => Outcome::Broken,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_strategy_has_an_expectation() {
        for strategy in crate::strategy::ALL {
            let sale = super::Sale::new(strategy, 1);
            assert!(super::oversell(&sale).is_some(), "{}", strategy.name);
        }
    }

    #[test]
    fn where_there_is_enough_for_all_a_decrement_cannot_go_wrong() {
        let decrement = crate::strategy::find("decrement").unwrap();
        let mut sale = super::Sale::new(decrement, 1);
        assert_eq!(super::oversell(&sale), Some(super::Outcome::Broken));
        sale.stock = 50;
        assert_eq!(super::oversell(&sale), Some(super::Outcome::Inconclusive));
        sale.stock = 49;
        assert_eq!(super::oversell(&sale), Some(super::Outcome::Broken));
    }

    #[test]
    fn every_lock_has_an_expectation_in_every_lock_trial() {
        for strategy in crate::strategy::ALL {
            for scenario in super::Scenario::ALL {
                let expected = super::holds(scenario, strategy.name);
                assert_eq!(
                    expected.is_some(),
                    strategy.lock.is_some(),
                    "{}",
                    strategy.name
                );
            }
        }
    }
}
