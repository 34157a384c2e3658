//! The list of faults in `docs/scenarios.md`: every row names a command that exists, and cases of this courtroom that try its fault.

use fencepost_trial::holds::Scenario;
use fencepost_trial::strategy;
use libtest_mimic::Failed;

use crate::{bad, good};

const PAGE: &str = include_str!("../../../../docs/scenarios.md");
const HEADING: &str = "## Fifty-one ways to break a lock";
const FAULTS: usize = 51;

/// Returns the cells of each row.
fn rows() -> Vec<Vec<&'static str>> {
    let (_, section) = PAGE.split_once(HEADING).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| {
        let number = line.trim_start_matches("| ");
        line.starts_with("| ") && number.starts_with(|c: char| c.is_ascii_digit())
    });
    rows.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect()
}

/// Returns the texts in backticks.
fn code(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

pub(crate) fn every_fault_is_tried() -> Result<(), Failed> {
    let rows = rows();
    let numbers: Vec<usize> = rows.iter().map(|row| row[0].parse().unwrap()).collect();
    let due: Vec<usize> = (1..=FAULTS).collect();
    if numbers != due {
        return Err(format!("the rows are {numbers:?}").into());
    }
    let bad =
        bad::cases().map(|(part, ordeal, _)| format!("bad::{}::{}", part.name(), ordeal.name()));
    let good = good::cases().into_iter();
    let good = good.map(|(part, ordeal)| format!("good::{}::{}", part.name(), ordeal.name()));
    let cases: Vec<String> = bad.chain(good).collect();
    for row in &rows {
        let [number, _, commands, tests] = row[..] else {
            return Err(format!("a row has other cells: {row:?}").into());
        };
        if let Some(unknown) = code(commands).find(|command| !is_command(command)) {
            return Err(format!("{number}: there is no {unknown}").into());
        }
        let is_missing = |name: &&str| !cases.iter().any(|case| case == name);
        if let Some(missing) = code(tests).find(is_missing) {
            return Err(format!("{number}: there is no case {missing}").into());
        }
        // Ways of waiting are measured, and convict nobody.
        if code(tests).next().is_none() && !commands.contains("`retry`") {
            return Err(format!("{number}: no case tries it").into());
        }
    }
    Ok(())
}

/// Returns whether this is `oversell`, `retry` or the command of a scenario, and its lock one of ours.
fn is_command(command: &str) -> bool {
    let (name, flags) = match command.split_once(" --") {
        Some((name, flags)) => (name, flags),
        None => (command, ""),
    };
    let edge = "crash --ttl-edge";
    let is_scenario = Scenario::ALL.iter().any(|one| one.command() == name);
    let is_known =
        is_scenario || ["oversell", "retry"].contains(&name) || command.starts_with(edge);
    let lock = flags
        .split([' ', '-'])
        .find_map(|flag| flag.strip_prefix("lock="));
    let lock = lock.map(|_| {
        flags
            .split("lock=")
            .nth(1)
            .unwrap()
            .split(' ')
            .next()
            .unwrap()
    });
    is_known && lock.is_none_or(|lock| strategy::find(lock).is_some())
}
