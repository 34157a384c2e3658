//! Tests that a suggested command can show something.

use crate::holds::by_hand::HistoryBuilder;
use crate::holds::verdict::{Court, Findings};
use crate::holds::{Scenario, Trial};
use crate::strategy;

/// Work that is shorter than the lease shows nothing about the time after it.
#[test]
fn another_scenario_is_suggested_with_its_own_times() {
    let locks = strategy::ALL.into_iter().filter(|all| all.lock.is_some());
    for lock in locks {
        for scenario in Scenario::ALL {
            let history = HistoryBuilder::of(scenario).with(lock.name).ttl(700);
            let (header, facts) = (history.header(), history.facts());
            let mut trial = Trial::of(&header).unwrap();
            trial.work_ms = 100;
            let court = Court {
                header: &header,
                facts: &facts,
                findings: Findings::of(&header, &facts),
                claims: lock.claims,
                trial: Some(trial),
            };
            for other in Scenario::ALL {
                let next = court.next_scenario(other, "").unwrap();
                let words: Vec<&str> = next.command.split(' ').collect();
                let odd = ["--work", "--ttl"].iter().any(|odd| words.contains(odd));
                assert!(!odd, "{}", next.command);
            }
        }
    }
}
