//! `cargo xtask test`: runs all tests and checks, and prints one count at the end.

mod beside;
mod disk;

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;

use self::beside::{Beside, Done, Step};
use self::disk::DiskWatch;
use crate::counts::{Counts, Tally, TestRunner};
use crate::doc;
use crate::older::Older;
use crate::package;
use crate::prepare;
use crate::runner;
use crate::servers::Servers;
use crate::terminal::{self, Output, SummaryLine};
use crate::tidy;
use crate::tree;

#[derive(Args)]
pub(crate) struct Options {
    /// Install missing system packages through sudo (as root they are installed without asking)
    #[arg(long, conflicts_with = "offline")]
    install: bool,
    /// Install and download nothing, neither packages nor the programs in .tools: tests that need what is missing are skipped.
    /// Cargo has a setting of its own: CARGO_NET_OFFLINE=true
    #[arg(long)]
    offline: bool,
    /// Only the test program with this name or, if there is none, tests and checks whose name contains it
    #[arg(long, value_name = "NAME")]
    filter: Option<String>,
}

/// Runs everything. Returns whether something ran and nothing failed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    if options.offline {
        prepare::stay_offline()?;
    } else {
        prepare::run(options.install)?;
    }
    let filter = options.filter.as_deref();
    let mut report = Report::default();
    let disk = DiskWatch::start();
    let older = Older::build(filter);
    let tests = WorkspaceTests::new(filter)?;
    terminal::headline("build");
    let is_built = tests.build()?;
    let beside = Beside::start(steps_beside(filter)?);
    let tested = report.add("tests of the workspace", || {
        if is_built {
            tests.run(&Servers::start()?, &older)
        } else {
            Ok(Counts::FAILED)
        }
    });
    // Wait even after a failure, so that no step is left running.
    let beside = beside.join()?;
    tested?;
    report.add("tree", || tidy::run(filter))?;
    for done in beside {
        report.add_done(done)?;
    }
    report.print(&disk.stop());
    Ok(report.sum().are_good())
}

/// The tests of the workspace, run by nextest if it is installed, and otherwise by cargo.
struct WorkspaceTests<'a> {
    selection: Selection<'a>,
    has_nextest: bool,
}

/// Which tests of the workspace run.
#[derive(Debug, PartialEq, Eq)]
enum Selection<'a> {
    All,
    /// Every test of the test programs with this name.
    Program(&'a str),
    /// Tests whose name contains this.
    Named(&'a str),
}

impl<'a> Selection<'a> {
    /// Creates the selection. A name that a test program has means the whole program: the names of its tests need not contain it.
    fn new(filter: Option<&'a str>, programs: &[String]) -> Self {
        match filter {
            None => Self::All,
            Some(name) if programs.iter().any(|program| program == name) => Self::Program(name),
            Some(name) => Self::Named(name),
        }
    }
}

impl<'a> WorkspaceTests<'a> {
    fn new(filter: Option<&'a str>) -> Result<Self> {
        Ok(Self {
            selection: Selection::new(filter, &test_programs()?),
            has_nextest: has_nextest(),
        })
    }

    /// Builds the tests first, so that the steps that run beside the tests do not compete with their compilation.
    fn build(&self) -> Result<bool> {
        let mut command = runner::cargo(self.arguments());
        command.arg("--no-run");
        Ok(runner::run(&mut command, |_| {})?.success())
    }

    fn run(&self, servers: &Servers, older: &Older) -> Result<Counts> {
        let slots = slots().to_string();
        let mut command = runner::cargo(self.arguments());
        command.arg("--no-fail-fast");
        if let Selection::Named(name) = self.selection {
            command.arg(name);
        }
        servers.set_env(&mut command);
        older.set_env(&mut command);
        if self.has_nextest {
            command.args(["--profile", "xtask", "--test-threads", &slots]);
            command.arg("--no-tests=pass");
            count(TestRunner::Nextest, &mut command)
        } else {
            // Targets that set their own number of threads keep it.
            command.env("RUST_TEST_THREADS", &slots);
            count(TestRunner::Libtest, &mut command)
        }
    }

    fn arguments(&self) -> Vec<&'a str> {
        let mut arguments = if self.has_nextest {
            vec!["nextest", "run"]
        } else {
            vec!["test"]
        };
        arguments.extend(["--workspace", "--all-features"]);
        if let Selection::Program(name) = self.selection {
            arguments.extend(["--test", name]);
        } else if !self.has_nextest {
            // The targets are named one by one, because the examples in the documentation run in a separate step.
            arguments.extend(["--lib", "--bins", "--tests", "--examples"]);
        }
        arguments
    }
}

/// Returns how many tests run at once: twice the number of processors, because most tests wait for a lease to end. Tests that compute count
/// as two (`.config/nextest.toml`).
fn slots() -> usize {
    2 * std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the steps that mostly compile.
fn steps_beside(filter: Option<&str>) -> Result<Vec<Step>> {
    let filter = filter.map(str::to_owned);
    let step = |name: &str, run: fn(&str, Option<&str>) -> Result<Counts>| -> Step {
        let (filter, of) = (filter.clone(), name.to_owned());
        let run = move || run(&of, filter.as_deref());
        (name.to_owned(), Box::new(run))
    };
    let mut steps = vec![
        step("examples in the documentation", |_, filter| {
            doc_tests(filter)
        }),
        step("documentation", |_, filter| doc::run(filter)),
        step("package", |_, filter| package::run(filter)),
    ];
    for snippet in snippets()? {
        steps.push(step(&snippet, snippet_tests));
    }
    Ok(steps)
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
        TestRunner::Libtest,
        &mut runner::cargo(arguments.into_iter().chain(filter)),
    )
}

fn snippet_tests(folder: &str, filter: Option<&str>) -> Result<Counts> {
    let manifest = format!("{folder}/Cargo.toml");
    let arguments = [
        "test",
        "--locked",
        "--no-fail-fast",
        "--manifest-path",
        &manifest,
    ];
    count(
        TestRunner::Libtest,
        &mut runner::cargo(arguments.into_iter().chain(filter)),
    )
}

fn count(runner: TestRunner, command: &mut Command) -> Result<Counts> {
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

/// Returns the names of the workspace's test programs: the files and folders in the `tests` folders of its packages. A folder `tests` below
/// `src` contains modules.
fn test_programs() -> Result<Vec<String>> {
    let name_of = |path: &str| {
        if path.contains("/src/") {
            return None;
        }
        let mut parts = path.rsplit('/');
        match (parts.next()?, parts.next()?, parts.next()) {
            ("main.rs", name, Some("tests")) => Some(name.to_owned()),
            (file, "tests", _) => file.strip_suffix(".rs").map(str::to_owned),
            _ => None,
        }
    };
    let files = tree::files()?;
    Ok(files
        .iter()
        .filter_map(|file| name_of(&file.path))
        .collect())
}

fn snippets() -> Result<Vec<String>> {
    let folder = tree::root().join("docs/snippets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).context("docs/snippets")? {
        let entry = entry?;
        if entry.path().join("Cargo.toml").is_file() {
            let name = entry.file_name();
            names.push(format!("docs/snippets/{}", name.to_string_lossy()));
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

    /// Prints the output of a step that ran beside the tests, and adds its counts.
    fn add_done(&mut self, done: Done) -> Result<()> {
        terminal::headline(&done.name);
        Output::Shown.write(std::io::stdout(), &done.output);
        self.steps.push((done.name, done.counts?, done.took));
        Ok(())
    }

    fn sum(&self) -> Counts {
        let mut sum = Counts::default();
        self.steps.iter().for_each(|(_, counts, _)| sum += *counts);
        sum
    }

    /// Prints the warnings, and the count as the last line, so that programs can read it, too.
    fn print(&self, warnings: &[String]) {
        let line = |(name, counts, took): &(String, Counts, Duration)| SummaryLine {
            name: name.clone(),
            result: counts.to_string(),
            took: *took,
        };
        terminal::summary(self.steps.iter().map(line));
        for warning in warnings {
            terminal::say(format!("\n{}", terminal::red(warning)));
        }
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
    fn the_name_of_a_test_program_selects_all_its_tests() {
        let programs = test_programs().unwrap();
        // A folder and a file.
        for name in ["deploy", "conformance", "tasks"] {
            assert_eq!(
                Selection::new(Some(name), &programs),
                Selection::Program(name)
            );
        }
        // A module of a test program, a part of a name, and modules in folders named `tests` of a library.
        for name in ["fuzz", "deplo", "pause", "storm", "buried"] {
            assert_eq!(
                Selection::new(Some(name), &programs),
                Selection::Named(name)
            );
        }
        assert_eq!(Selection::new(None, &programs), Selection::All);
    }

    #[test]
    fn every_module_that_nextest_selects_exists() {
        let settings = fs::read_to_string(tree::root().join(".config/nextest.toml")).unwrap();
        let files = tree::files().unwrap();
        let exists = |folder: &str, module: &str| {
            [format!("{module}.rs"), format!("{module}/mod.rs")]
                .iter()
                .any(|file| {
                    files
                        .iter()
                        .any(|one| one.path.ends_with(&format!("{folder}/{file}")))
                })
        };
        let programs = test_programs().unwrap();
        // What the last `binary(…)` or `package(…)` before a module selects.
        let mut selected: Vec<String> = Vec::new();
        let mut seen = 0;
        for word in settings.split([' ', '\n']) {
            let word = word.trim_start_matches('(').trim_end_matches(')');
            if let Some(name) = word.strip_prefix("binary(") {
                selected = vec![name.to_owned()];
                assert!(programs.iter().any(|program| program == name), "{name}");
            } else if let Some(name) = word.strip_prefix("package(") {
                let folder = name.trim_start_matches("fencepost-");
                let of_package = |program: &&String| {
                    let path = format!("crates/{folder}/tests/{program}/main.rs");
                    files.iter().any(|file| file.path == path)
                };
                selected = programs.iter().filter(of_package).cloned().collect();
            } else if let Some(module) = word.strip_prefix("test(/^") {
                let module = module.strip_suffix("::/").unwrap();
                let is_there = |program: &String| exists(&format!("tests/{program}"), module);
                assert!(selected.iter().any(is_there), "{module} in {selected:?}");
                seen += 1;
            }
        }
        assert!(seen >= 10, "only {seen} modules were found");
    }

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
