//! Compares the verdicts that the documentation promises for commands with the table of expectations.

use std::path::{Path, PathBuf};

use fencepost_trial::holds::{self, Scenario};
use fencepost_trial::sale::{self, Sale};
use fencepost_trial::strategy;
use fencepost_trial::verdict::Outcome;

const VERDICTS: [Outcome; 4] = [
    Outcome::Held,
    Outcome::Broken,
    Outcome::Stuck,
    Outcome::Inconclusive,
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sale(lock: &str) -> Option<Outcome> {
    sale::expectation::expected(&Sale::new(strategy::find(lock)?, 1))
}

/// Returns the text between backticks.
fn spans(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_matrix_of_the_comparison_is_the_table_of_expectations() {
    let page = std::fs::read_to_string(root().join("docs/lock-comparison.md")).unwrap();
    let (_, after) = page.split_once("| | race | deadlock |").unwrap();
    let rows = after
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let mut seen = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        for lock in spans(cells[0]) {
            seen += 1;
            let scenarios =
                Scenario::ALL.map(|scenario| holds::expectation::of_strategy(scenario, lock));
            let expected = std::iter::once(sale(lock)).chain(scenarios);
            for (cell, expected) in cells[1..].iter().zip(expected) {
                let word = cell.replace(['*', '\\'], "");
                let expected = expected.map_or("–".to_owned(), |outcome| outcome.to_string());
                assert_eq!(word.trim(), expected, "{lock}: {row}");
            }
        }
    }
    assert_eq!(seen, strategy::ALL.len());
}

/// Returns the verdict that the table expects of a command, if all its arguments are known.
fn expected(command: &str) -> Option<Outcome> {
    let mut words = command.split(' ').skip(1);
    let name = words.next()?;
    let mut rest: Vec<&str> = words.collect();
    let lock = rest.iter().position(|word| word.starts_with("--lock="));
    let lock = lock.map(|at| rest.remove(at).trim_start_matches("--lock="));
    // These are locks of the database itself, for which the table expects the same on every store.
    if let [.., "--store", "postgres"] = rest.as_slice() {
        rest.truncate(rest.len() - 2);
    }
    let scenario = match (name, rest.as_slice()) {
        ("oversell", []) => return sale(lock?),
        ("crash", []) => Scenario::Crash,
        ("crash", ["--ttl-edge"]) => Scenario::TtlEdge,
        ("deadlock", []) => Scenario::Deadlock,
        ("deadlock", ["--mitigate"]) => Scenario::DeadlockSorted,
        // The table expects the same on ZooKeeper.
        ("trial", [name] | [name, "--store", "zk"]) => Scenario::find(name)?,
        _ => return None,
    };
    holds::expectation::of_strategy(scenario, lock.unwrap_or("safe"))
}

#[test]
fn a_verdict_beside_a_command_is_the_one_that_is_expected() {
    let mut checked = 0;
    for page in std::fs::read_dir(root().join("docs")).unwrap() {
        let page = page.unwrap().path();
        if page.extension().is_none_or(|ending| ending != "md") {
            continue;
        }
        let text = std::fs::read_to_string(&page).unwrap();
        for line in text.lines() {
            let commands = spans(line)
                .into_iter()
                .filter(|span| span.starts_with("fencepost "));
            let commands: Vec<&str> = commands.collect();
            let said = VERDICTS
                .iter()
                .filter(|word| line.contains(&word.to_string()));
            let said: Vec<&Outcome> = said.collect();
            let ([command], [said]) = (commands.as_slice(), said.as_slice()) else {
                continue;
            };
            if let Some(expected) = expected(command) {
                checked += 1;
                assert_eq!(**said, expected, "{}: {line}", page.display());
            }
        }
    }
    assert!(checked >= 17, "only {checked} were found");
}
