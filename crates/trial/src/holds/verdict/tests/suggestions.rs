//! Tests that a suggested command is accepted and can show something.

use crate::holds::by_hand::HistoryBuilder;
use crate::holds::verdict::{Checks, Court};
use crate::holds::{Scenario, Trial};
use crate::store::one_of_each;
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
                checks: Checks::of(&header, &facts),
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

/// A store may not support leases as short as those of another.
#[test]
fn no_suggested_lease_is_too_short_for_its_store() {
    for store in one_of_each() {
        for lock in strategy::at(&store).filter(|all| all.lock.is_some()) {
            for scenario in Scenario::ALL {
                let history = HistoryBuilder::of(scenario).with(lock.name);
                let facts = history.facts();
                let trial = Trial::on(scenario, lock, store.clone(), 7041);
                let header = trial.header();
                let court = Court {
                    header: &header,
                    facts: &facts,
                    checks: Checks::of(&header, &facts),
                    claims: lock.claims,
                    trial: Some(trial),
                };
                let mut suggested: Vec<_> = Scenario::ALL
                    .into_iter()
                    .filter_map(|other| court.next_scenario(other, ""))
                    .collect();
                suggested.extend(
                    strategy::ALL
                        .into_iter()
                        .filter_map(|all| court.next(all.name, "")),
                );
                for next in suggested {
                    let mut words = next.command.split(' ').skip_while(|word| *word != "--ttl");
                    let ttl_ms: Option<u64> = words.nth(1).map(|ttl| ttl.parse().unwrap());
                    let is_enough = ttl_ms.is_none_or(|ttl_ms| ttl_ms >= store.shortest_ttl_ms());
                    assert!(is_enough, "{}", next.command);
                }
            }
        }
    }
}
