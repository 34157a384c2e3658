//! Runs a table of named cargo commands and prints a summary; shared by `soak` and `bench`.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::counts::{Runner, Tally};
use crate::runner;
use crate::terminal;

/// One run in the table.
pub(crate) struct Job {
    pub(crate) name: &'static str,
    /// The arguments of cargo.
    pub(crate) arguments: &'static [&'static str],
    /// What the run shows.
    pub(crate) shows: &'static str,
    /// Whether the output must report a passed test. Otherwise, a filter that no longer matches any test would succeed.
    pub(crate) counts_tests: bool,
}

struct Outcome {
    name: &'static str,
    result: Result<(), String>,
    took: Duration,
}

/// The runs whose name contains the filter.
///
/// # Errors
/// Returns an error if there are none.
pub(crate) fn chosen<'a>(jobs: &'a [Job], filter: Option<&str>) -> Result<Vec<&'a Job>> {
    let filter = filter.unwrap_or_default();
    let chosen: Vec<_> = jobs
        .iter()
        .filter(|job| job.name.contains(filter))
        .collect();
    if chosen.is_empty() {
        let names: Vec<_> = jobs.iter().map(|job| job.name).collect();
        bail!(
            "no name contains '{filter}'; there are: {}",
            names.join(", ")
        );
    }
    Ok(chosen)
}

/// Prints names and purposes.
pub(crate) fn list(jobs: &[&Job]) {
    let row = |job: &&Job| vec![job.name.to_owned(), job.shows.to_owned()];
    terminal::say(terminal::table(&jobs.iter().map(row).collect::<Vec<_>>()));
}

/// Runs the jobs one after the other and prints a summary. Returns whether all succeeded.
pub(crate) fn run(jobs: &[&Job], prepare: impl Fn(&mut Command)) -> Result<bool> {
    let mut outcomes = Vec::new();
    for job in jobs {
        terminal::headline(&format!("{}: {}", job.name, job.shows));
        outcomes.push(run_one(job, &prepare)?);
    }
    terminal::headline("results");
    terminal::say(terminal::table(
        &outcomes.iter().map(row).collect::<Vec<_>>(),
    ));
    Ok(outcomes.iter().all(|outcome| outcome.result.is_ok()))
}

fn run_one(job: &Job, prepare: impl Fn(&mut Command)) -> Result<Outcome> {
    let started = Instant::now();
    let mut command = runner::cargo(job.arguments.iter().copied());
    prepare(&mut command);
    let mut tally = Tally::new(Runner::Libtest);
    let status = runner::run(&mut command, |line| tally.read(line))?;
    let counts = tally.close(status.success());
    let result = if !status.success() {
        Err(format!("FAILED ({status})"))
    } else if job.counts_tests && !counts.are_good() {
        Err("FAILED (no test ran)".into())
    } else {
        Ok(())
    };
    Ok(Outcome {
        name: job.name,
        result,
        took: started.elapsed(),
    })
}

fn row(outcome: &Outcome) -> Vec<String> {
    let result = match &outcome.result {
        Ok(()) => terminal::green("ok"),
        Err(why) => terminal::red(why),
    };
    vec![
        outcome.name.into(),
        result,
        terminal::duration(outcome.took),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOBS: &[Job] = &[
        Job {
            name: "here",
            arguments: &["--version"],
            shows: "cargo is there",
            counts_tests: false,
        },
        Job {
            name: "nothing",
            arguments: &["--version"],
            shows: "no test runs",
            counts_tests: true,
        },
        Job {
            name: "broken",
            arguments: &["no-such-command"],
            shows: "a failure",
            counts_tests: false,
        },
    ];

    fn run_named(filter: &str) -> bool {
        run(&chosen(JOBS, Some(filter)).unwrap(), |_| {}).unwrap()
    }

    #[test]
    fn a_run_is_good_only_when_it_succeeds_and_tested_something() {
        assert!(run_named("here"));
        assert!(!run_named("nothing"));
        assert!(!run_named("broken"));
        assert!(!run_named(""));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_list() {
        let error = chosen(JOBS, Some("elsewhere")).err().unwrap().to_string();
        assert!(error.ends_with("here, nothing, broken"), "{error}");
    }
}
