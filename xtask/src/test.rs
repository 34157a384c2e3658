//! `cargo xtask test`: runs all tests and checks, and prints one count at the end.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;

use crate::counts::{Counts, Runner, Tally};
use crate::doc;
use crate::older::Older;
use crate::prepare;
use crate::runner;
use crate::servers::Servers;
use crate::terminal;
use crate::tidy;
use crate::tree;

#[derive(Args)]
pub(crate) struct Options {
    /// Install missing system packages through sudo (as root they are installed without asking)
    #[arg(long)]
    install: bool,
    /// Only tests and checks whose name contains this; the others count as skipped
    #[arg(long, value_name = "PATTERN")]
    filter: Option<String>,
}

/// Runs everything. Returns whether something ran and nothing failed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    prepare::run(options.install)?;
    let filter = options.filter.as_deref();
    let mut report = Report::default();
    let older = Older::build(filter);
    report.add("tests of the workspace", || {
        workspace_tests(&Servers::start()?, &older, filter)
    })?;
    report.add("examples in the documentation", || doc_tests(filter))?;
    report.add("tree", || tidy::run(filter))?;
    report.add("documentation", || doc::run(filter))?;
    for snippet in snippets()? {
        report.add(&format!("docs/snippets/{snippet}"), || {
            snippet_tests(&snippet, filter)
        })?;
    }
    report.print();
    Ok(report.sum().are_good())
}

fn workspace_tests(servers: &Servers, older: &Older, filter: Option<&str>) -> Result<Counts> {
    let scope = ["--workspace", "--all-features", "--no-fail-fast"];
    if has_nextest() {
        let arguments = ["nextest", "run"]
            .into_iter()
            .chain(scope)
            .chain(["--no-tests=pass"]);
        let mut command = runner::cargo(arguments.chain(filter));
        servers.tell(&mut command);
        older.tell(&mut command);
        count(Runner::Nextest, &mut command)
    } else {
        // The targets are named one by one, because the examples in the documentation run in a separate step.
        let targets = ["--lib", "--bins", "--tests", "--examples"];
        let arguments = ["test"].into_iter().chain(scope).chain(targets);
        let mut command = runner::cargo(arguments.chain(filter));
        servers.tell(&mut command);
        older.tell(&mut command);
        count(Runner::Libtest, &mut command)
    }
}

/// Runs the examples in the documentation, which nextest does not run.
fn doc_tests(filter: Option<&str>) -> Result<Counts> {
    let arguments = [
        "test",
        "--workspace",
        "--all-features",
        "--no-fail-fast",
        "--doc",
    ];
    count(
        Runner::Libtest,
        &mut runner::cargo(arguments.into_iter().chain(filter)),
    )
}

fn snippet_tests(name: &str, filter: Option<&str>) -> Result<Counts> {
    let manifest = format!("docs/snippets/{name}/Cargo.toml");
    let arguments = [
        "test",
        "--locked",
        "--no-fail-fast",
        "--manifest-path",
        &manifest,
    ];
    count(
        Runner::Libtest,
        &mut runner::cargo(arguments.into_iter().chain(filter)),
    )
}

fn count(runner: Runner, command: &mut Command) -> Result<Counts> {
    prepare::no_skipping(command);
    let mut tally = Tally::new(runner);
    let status = runner::run(command, |line| tally.read(line))?;
    Ok(tally.close(status.success()))
}

fn has_nextest() -> bool {
    let mut command = runner::cargo(["nextest", "--version"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn snippets() -> Result<Vec<String>> {
    let folder = tree::root().join("docs/snippets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).context("docs/snippets")? {
        let entry = entry?;
        if entry.path().join("Cargo.toml").is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

#[derive(Default)]
struct Report {
    steps: Vec<(String, Counts, Duration)>,
}

impl Report {
    fn add(&mut self, name: &str, step: impl FnOnce() -> Result<Counts>) -> Result<()> {
        terminal::headline(name);
        let started = Instant::now();
        let counts = step()?;
        self.steps.push((name.into(), counts, started.elapsed()));
        Ok(())
    }

    fn sum(&self) -> Counts {
        let mut sum = Counts::default();
        self.steps.iter().for_each(|(_, counts, _)| sum += *counts);
        sum
    }

    /// Prints the count as the last line, so that programs can read it, too.
    fn print(&self) {
        terminal::headline("results");
        let row = |(name, counts, took): &(String, Counts, Duration)| {
            vec![name.clone(), counts.to_string(), terminal::duration(*took)]
        };
        terminal::say(terminal::table(
            &self.steps.iter().map(row).collect::<Vec<_>>(),
        ));
        let sum = self.sum();
        let colour = if sum.are_good() {
            terminal::green
        } else {
            terminal::red
        };
        terminal::say(format!("\n{}", colour(&sum.to_string())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_over_all_steps() {
        let mut report = Report::default();
        report
            .add("one", || {
                Ok(Counts {
                    passed: 3,
                    failed: 0,
                    skipped: 1,
                })
            })
            .unwrap();
        assert!(report.sum().are_good());
        report.add("two", || Ok(Counts::FAILED)).unwrap();
        assert_eq!(report.sum().to_string(), "3 passed, 1 failed, 1 skipped");
    }
}
