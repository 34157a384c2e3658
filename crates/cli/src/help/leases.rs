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
    let mut others: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    let is_other = |scenario: &Scenario| scenario.ttl_ms() != usual;
    for scenario in Scenario::ALL.into_iter().filter(is_other) {
        let names = others.entry(scenario.ttl_ms()).or_default();
        names.push(scenario.name());
    }
    let mut text = usual.to_string();
    for (ttl_ms, names) in others {
        text.push(';');
        for line in lines(&names.join(", "), ttl_ms) {
            text.push_str(&format!("\n{:INDENT$}{line}", ""));
        }
    }
    text
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
