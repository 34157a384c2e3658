//! The default TTLs of lock trials, as the help texts name them.

use std::collections::BTreeMap;

use fencepost_trial::holds::Scenario;

use super::stores::INDENT;

/// The widest line of a help text.
const COLUMNS: usize = 100;

/// Returns the default TTL of a scenario.
pub(super) fn ttl(scenario: Scenario) -> String {
    scenario.ttl_ms().to_string()
}

/// Returns the default TTLs of all scenarios: that of most of them, and then the others with their names.
pub(super) fn ttls() -> String {
    let usual = Scenario::Pause.ttl_ms();
    let all = Scenario::ALL.into_iter();
    let others = all.filter(|scenario| scenario.ttl_ms() != usual);
    format!("{usual};{}", by_ttl(others))
}

/// Returns the scenarios whose TTL the gauntlet does not change, with their TTLs.
pub(super) fn kept_ttls() -> String {
    let all = Scenario::ALL.into_iter();
    by_ttl(all.filter(|scenario| scenario.keeps_its_ttl()))
}

/// Returns the names of these scenarios with their default TTLs, each TTL on a line of its own.
fn by_ttl(scenarios: impl Iterator<Item = Scenario>) -> String {
    let mut names: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for scenario in scenarios {
        let alike = names.entry(scenario.ttl_ms()).or_default();
        alike.push(scenario.name());
    }
    let group = |(ttl_ms, names): (u64, Vec<&str>)| {
        let lines = lines(&names.join(", "), ttl_ms).into_iter();
        let indented = lines.map(|line| format!("\n{:INDENT$}{line}", ""));
        indented.collect::<String>()
    };
    let groups: Vec<String> = names.into_iter().map(group).collect();
    groups.join(";")
}

/// Returns the names and their TTL in lines that fit beside the flags.
fn lines(names: &str, ttl_ms: u64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in format!("{names}: {ttl_ms}").split(' ') {
        let last = lines.last_mut().expect("there is always a line");
        if last.is_empty() {
            last.push_str(word);
        } else if INDENT + last.len() + 1 + word.len() <= COLUMNS {
            last.push_str(&format!(" {word}"));
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}
