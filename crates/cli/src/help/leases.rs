//! The default TTLs of lock trials, as the help texts name them.

use std::collections::BTreeMap;

use fencepost_trial::holds::Scenario;

use super::stores::INDENT;

/// Returns the default TTL of a scenario.
pub(super) fn ttl(scenario: Scenario) -> String {
    scenario.ttl_ms().to_string()
}

/// Returns the default TTLs of all scenarios: that of most of them, and then the others with their names.
pub(super) fn ttls() -> String {
    let usual = Scenario::Pause.ttl_ms();
    let mut others: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    let is_other = |scenario: &Scenario| scenario.ttl_ms() != usual;
    for scenario in Scenario::ALL.into_iter().filter(is_other) {
        let names = others.entry(scenario.ttl_ms()).or_default();
        names.push(scenario.name());
    }
    let mut text = usual.to_string();
    for (ttl_ms, names) in others {
        let names = names.join(", ");
        text.push_str(&format!(";\n{:INDENT$}{names}: {ttl_ms}", ""));
    }
    text
}
