//! Runs jobs, named cargo commands in a table, and prints a summary. The loops of `soak` are jobs, and the benchmarks of `bench`.

use std::io::{self, Write};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::counts::{Tally, TestRunner};
use crate::filter;
use crate::interrupt;
use crate::runner;
use crate::terminal::{self, SummaryLine};

/// One entry of the table.
pub(crate) struct Job {
    pub(crate) name: &'static str,
    /// The arguments of cargo.
    pub(crate) arguments: &'static [&'static str],
    /// What the job shows.
    pub(crate) shows: &'static str,
    /// Whether the output must report a passed test. Otherwise, a filter that no longer matches any test would succeed.
    pub(crate) counts_tests: bool,
}

struct Outcome {
    name: &'static str,
    result: Result<(), String>,
    took: Duration,
}

/// Returns the jobs that the filters select.
///
/// # Errors
/// Returns an error if a filter selects none.
pub(crate) fn chosen<'a>(jobs: &'a [Job], filters: &[String]) -> Result<Vec<&'a Job>> {
    filter::chosen(jobs, |job| job.name, filters)
}

/// Prints names and purposes.
pub(crate) fn list(jobs: &[&Job]) {
    let row = |job: &&Job| vec![job.name.to_owned(), job.shows.to_owned()];
    terminal::say(terminal::table(&jobs.iter().map(row).collect::<Vec<_>>()));
}

/// Runs the jobs, at most `at_once` side by side, and prints a summary. Returns whether all succeeded. After an interruption, no further
/// job starts, and the summary contains those that did.
///
/// A job that runs alone is shown line by line. Of jobs side by side, each is shown when it has ended.
pub(crate) fn run(
    jobs: &[&Job],
    at_once: usize,
    prepare: impl Fn(&mut Command) + Sync,
) -> Result<bool> {
    let outcomes = if at_once > 1 {
        side_by_side(jobs, at_once, &prepare)
    } else {
        let due = jobs.iter().take_while(|_| !interrupt::happened());
        due.map(|job| announced(job, &prepare)).collect()
    };
    terminal::summary(outcomes.iter().map(line));
    Ok(outcomes.iter().all(|outcome| outcome.result.is_ok()))
}

/// Runs a job below its headline. If it could not be run to its end, the outcome says why.
fn announced(job: &Job, prepare: impl Fn(&mut Command)) -> Outcome {
    terminal::headline(&format!("{}: {}", job.name, job.shows));
    let started = Instant::now();
    let ran = run_one(job, prepare);
    Outcome {
        name: job.name,
        result: ran.unwrap_or_else(|error| Err(format!("{error:#}"))),
        took: started.elapsed(),
    }
}

/// Runs the jobs in their order on several threads. Returns the outcomes in the order in which the jobs ended.
fn side_by_side(
    jobs: &[&Job],
    at_once: usize,
    prepare: &(impl Fn(&mut Command) + Sync),
) -> Vec<Outcome> {
    let waiting = Mutex::new(jobs.iter());
    let ended = Mutex::new(Vec::new());
    let next = || {
        waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .next()
    };
    let work = || {
        while let Some(job) = next().filter(|_| !interrupt::happened()) {
            let output = terminal::keep_output();
            let outcome = announced(job, prepare);
            let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
            // Under the mutex, so that outputs do not mix.
            let _ = io::stdout().write_all(&output.take());
            ended.push(outcome);
        }
    };
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(work);
        }
    });
    ended.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn run_one(job: &Job, prepare: impl Fn(&mut Command)) -> Result<Result<(), String>> {
    let mut command = runner::cargo(job.arguments.iter().copied());
    prepare(&mut command);
    let mut tally = Tally::new(TestRunner::Libtest);
    let status = runner::run(&mut command, |line| tally.read(line))?;
    let counts = tally.close(status.success());
    let result = if !status.success() {
        Err(format!("FAILED ({status})"))
    } else if job.counts_tests && !counts.are_good() {
        Err("FAILED (no test ran)".into())
    } else {
        Ok(())
    };
    Ok(result)
}

fn line(outcome: &Outcome) -> SummaryLine {
    let result = match &outcome.result {
        Ok(()) => terminal::green("ok"),
        Err(why) => terminal::red(why),
    };
    SummaryLine {
        name: outcome.name.into(),
        result,
        took: outcome.took,
    }
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

    fn run_named(filters: &[&str]) -> bool {
        let filters: Vec<String> = filters.iter().map(|filter| (*filter).into()).collect();
        run(&chosen(JOBS, &filters).unwrap(), 1, |_| {}).unwrap()
    }

    #[test]
    fn jobs_side_by_side_are_judged_like_jobs_in_a_row() {
        let good = [&JOBS[0], &JOBS[0], &JOBS[0]];
        assert!(run(&good, 2, |_| {}).unwrap());
        let mut outcomes = side_by_side(&[&JOBS[0], &JOBS[1], &JOBS[2]], 2, &|_: &mut Command| {});
        outcomes.sort_by_key(|outcome| outcome.name);
        let names: Vec<_> = outcomes.iter().map(|outcome| outcome.name).collect();
        assert_eq!(names, ["broken", "here", "nothing"]);
        let good: Vec<_> = outcomes
            .iter()
            .map(|outcome| outcome.result.is_ok())
            .collect();
        assert_eq!(good, [false, true, false]);
    }

    #[test]
    fn a_run_is_good_only_when_it_succeeds_and_tested_something() {
        assert!(run_named(&["here"]));
        assert!(!run_named(&["nothing"]));
        assert!(!run_named(&["broken"]));
        assert!(!run_named(&[]));
    }
}
