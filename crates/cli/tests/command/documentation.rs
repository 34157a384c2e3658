//! Compares the verdicts that the documentation promises for commands with the table of expectations.

use std::path::{Path, PathBuf};

use fencepost_trial::holds::{self, Scenario, Trial};
use fencepost_trial::protocol::{PROTOCOL, Reply, Request, Resource};
use fencepost_trial::sale::{self, Sale};
use fencepost_trial::store::TrialStore;
use fencepost_trial::strategy::{self, Strategy};
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
    let matrix = page.find("| | race | deadlock |").unwrap();
    let mut rows = page[matrix..]
        .lines()
        .take_while(|line| line.starts_with('|'));
    let titles = cells(rows.next().unwrap());
    // `None` is the race.
    let columns: Vec<Option<Scenario>> = titles[1..]
        .iter()
        .map(|title| match *title {
            "race" => None,
            "deadlock" => Some(Scenario::Deadlock),
            "the same, sorted" => Some(Scenario::DeadlockSorted),
            "holder killed" => Some(Scenario::Crash),
            "work beyond the lease" => Some(Scenario::TtlEdge),
            "stale release" => Some(Scenario::StaleRelease),
            "short stock" => Some(Scenario::ShortStock),
            other => panic!("no scenario is called '{other}'"),
        })
        .collect();
    let mut seen = 0;
    for row in rows.skip(1) {
        let cells = cells(row);
        assert_eq!(cells.len(), titles.len(), "{row}");
        for lock in spans(cells[0]) {
            seen += 1;
            for (cell, column) in cells[1..].iter().zip(&columns) {
                let expected = match column {
                    None => sale(lock),
                    Some(scenario) => holds::expectation::of_strategy(*scenario, lock),
                };
                let expected = expected.map_or("–".to_owned(), |outcome| outcome.to_string());
                assert_eq!(bare(cell), expected, "{lock}: {row}");
            }
        }
    }
    assert_eq!(seen, strategy::ALL.len());
}

/// Every cell of the table of properties is the expected verdict of the trial in its row.
#[test]
fn the_properties_are_the_verdicts() {
    let page = std::fs::read_to_string(root().join("docs/lock-comparison.md")).unwrap();
    let table = page.find("| property | none |").unwrap();
    let mut rows = page[table..]
        .lines()
        .take_while(|line| line.starts_with('|'));
    let titles = cells(rows.next().unwrap());
    let locks = &titles[1..titles.len() - 1];
    let mut compared = 0;
    for row in rows.skip(1) {
        let cells = cells(row);
        assert_eq!(cells.len(), titles.len(), "{row}");
        let command = spans(cells[cells.len() - 1])[0];
        let mut scenarios = Scenario::ALL.into_iter();
        let scenario = scenarios.find(|scenario| scenario.command() == command);
        assert!(scenario.is_some() || command == "oversell", "{row}");
        for (cell, lock) in cells[1..].iter().zip(locks) {
            let expected = match scenario {
                Some(scenario) => holds::expectation::of_strategy(scenario, lock),
                None => sale(lock),
            };
            let word = match expected {
                None => "–",
                Some(Outcome::Held) => "yes",
                Some(_) => "no",
            };
            assert_eq!(*cell, word, "{lock}: {row}");
            compared += 1;
        }
    }
    assert!(compared >= 60, "{compared}");
}

/// Returns the cells of a row of a table.
fn cells(row: &str) -> Vec<&str> {
    let row = row.strip_prefix('|').unwrap().strip_suffix('|').unwrap();
    row.split('|').map(str::trim).collect()
}

/// Returns the text of a cell without emphasis and references to notes.
fn bare(cell: &str) -> String {
    cell.replace(['*', '\\'], "").trim().to_owned()
}

/// Returns the trial that a row is about: a command, or another store for the command of the row before it.
fn trial_of(cell: &str, before: Option<Scenario>) -> (Scenario, Option<TrialStore>) {
    let spans = spans(cell);
    let [command] = spans.as_slice() else {
        panic!("one command: {cell}");
    };
    let (words, store) = match command.split_once("--store ") {
        Some((words, store)) => (words, Some(store.trim_matches('\''))),
        None => (*command, None),
    };
    let words = words.trim().trim_start_matches("fencepost ");
    let scenario = match words.strip_prefix("trial ") {
        Some(name) => Scenario::find(name).unwrap_or_else(|| panic!("{cell}")),
        None => before.filter(|_| words.is_empty()).unwrap(),
    };
    (
        scenario,
        store.map(|name| TrialStore::named(name).unwrap_or_else(|| panic!("{cell}"))),
    )
}

#[test]
fn the_verdicts_of_the_scenarios_are_those_of_the_table_of_expectations() {
    let page = std::fs::read_to_string(root().join("docs/scenarios.md")).unwrap();
    let mut locks: Vec<&'static Strategy> = Vec::new();
    let (mut before, mut tables, mut checked) = (None, 0, 0);
    let mut last = "";
    for line in page.lines() {
        if line.starts_with('|') && !last.starts_with('|') {
            let titles = cells(line);
            let named = titles.iter().flat_map(|title| spans(title));
            locks = named.filter_map(strategy::find).collect();
            assert!(
                locks.is_empty() || titles.len() == 2 + locks.len(),
                "{line}"
            );
            (before, tables) = (None, tables + usize::from(!locks.is_empty()));
        } else if line.starts_with('|') && !locks.is_empty() && !line.starts_with("|---") {
            let cells = cells(line);
            assert_eq!(cells.len(), 2 + locks.len(), "{line}");
            let (scenario, store) = trial_of(cells[0], before);
            before = Some(scenario);
            for (cell, strategy) in cells[2..].iter().zip(&locks) {
                let store = store.clone().unwrap_or_else(|| scenario.store());
                let trial = Trial::on(scenario, strategy, store, 1);
                let expected = holds::expectation::expected(&trial).unwrap();
                assert_eq!(
                    bare(cell),
                    expected.to_string(),
                    "{}: {line}",
                    strategy.name
                );
                checked += 1;
            }
        }
        last = line;
    }
    assert!(tables >= 6, "only {tables} tables were found");
    assert!(checked >= 100, "only {checked} verdicts were found");
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
        ("deadlock", ["--sorted"]) => Scenario::DeadlockSorted,
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

/// Who writes a program by the page sees the messages that the lab sends.
#[test]
fn the_conversation_on_the_page_is_one_that_the_lab_has() {
    let page = std::fs::read_to_string(root().join("docs/lab.md")).unwrap();
    let (_, below) = page.split_once("The same on the wire").unwrap();
    let (_, block) = below.split_once("```text\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    for line in block.lines() {
        if let Some(text) = line.strip_prefix("> ") {
            let request: Request = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&request).unwrap(), text);
        } else {
            // A program may leave out what it has nothing to say about.
            let text = line.strip_prefix("< ").unwrap();
            assert!(serde_json::from_str::<Reply>(text).is_ok(), "{text}");
        }
    }
    let ground = TrialStore::default().ground(Path::new("/tmp/…"));
    let init = Request::Init {
        protocol: PROTOCOL,
        id: "A".into(),
        incarnation: 1,
        keys: vec![holds::FIRST_LOCK.into()],
        ttl_ms: 2_000,
        endpoints: ground.endpoints_of_each_server(),
        resource: Resource::Register,
        start: None,
    };
    let first = format!("> {}", serde_json::to_string(&init).unwrap());
    assert_eq!(block.lines().next(), Some(&*first));
    // The names of buyers, as a recorded sale has them.
    let histories = root().join("crates/trial/tests/histories");
    let sale = std::fs::read_to_string(histories.join("sale-held.jsonl")).unwrap();
    assert!(page.contains("in a sale `proc_0`, `proc_1`, …"));
    assert!(sale.contains("\"proc_0\"") && sale.contains("\"proc_1\""));
}
