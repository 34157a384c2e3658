//! `fencepost retry`: compares what the ways of waiting for a lock cost.

use std::fs::File;
use std::process::ExitCode;

use clap::Args;
use fencepost_rig::Interrupt;
use fencepost_trial::processes::NoVerdict;
use fencepost_trial::protocol::{Pauses, Promise};
use fencepost_trial::report::html::Page;
use fencepost_trial::report::json::retry as json;
use fencepost_trial::report::terminal::{retry as terminal, verdict};
use fencepost_trial::retry::{self, Comparison, Judged, RetryWatch};
use fencepost_trial::sale::Sale;
use fencepost_trial::store::TrialStore;
use fencepost_trial::strategy::Strategy;
use fencepost_trial::text::ink::Ink;

use crate::command_error::CommandError;
use crate::contender::{Contender, ExternalLock, Lock, LockArgument, fits};
use crate::exit;
use crate::results::{EndedTrial, FileFlags, Files};
use crate::screen::Screen;
use crate::trial_flags::{TrialFlags, lasts_long_enough};
use crate::values::{budget, concurrency, delay, random_seed, retries, seed, stock, ttl};

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Retry {
    #[arg(long, default_value = "safe", value_parser = LockArgument::parse)]
    lock: LockArgument,
    #[arg(long, allow_hyphen_values = true, default_value_t = Comparison::STOCK, value_parser = stock)]
    stock: u32,
    #[arg(long, allow_hyphen_values = true, default_value_t = Comparison::CONCURRENCY, value_parser = concurrency)]
    concurrency: usize,
    #[arg(long, allow_hyphen_values = true, default_value_t = Sale::DELAY_US, value_parser = delay)]
    delay: u64,
    #[arg(long, allow_hyphen_values = true, default_value_t = Comparison::MAX_RETRIES, value_parser = retries)]
    max_retries: u32,
    #[arg(long, allow_hyphen_values = true, value_parser = ttl)]
    ttl: Option<u64>,
    #[arg(long, allow_hyphen_values = true, default_value_t = Comparison::BUDGET_MS, value_parser = budget)]
    budget: u64,
    #[arg(long, allow_hyphen_values = true, value_parser = seed)]
    seed: Option<u64>,
    #[command(flatten)]
    files: FileFlags,
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    trial: TrialFlags,
}

/// Runs `fencepost retry`.
pub(crate) fn run(arguments: Retry, interrupt: Interrupt) -> Result<ExitCode, CommandError> {
    let LockArgument::Lock(lock) = &arguments.lock else {
        return arguments.trial.list_locks();
    };
    let strategy = match lock {
        Lock::External(external) => return Err(not_for_external_locks(external)),
        Lock::Strategy(strategy) | Lock::LibraryOn(_, strategy) => *strategy,
    };
    if strategy.promise != Promise::Exclusion {
        return Err(nothing_to_wait_for(strategy));
    }
    let opened = arguments.trial.open_store(Some(lock))?;
    fits(strategy, &opened.store)?;
    let ttl_ms = lease(&arguments, strategy, &opened.store)?;
    let comparison = Comparison {
        stock: arguments.stock,
        concurrency: arguments.concurrency,
        delay_us: arguments.delay,
        max_retries: arguments.max_retries,
        ttl_ms,
        budget_ms: arguments.budget,
        store: opened.store.clone(),
        ..Comparison::new(strategy, arguments.seed.unwrap_or_else(random_seed))
    };
    let files = Files::open(&arguments.files)?;
    let file = files.recording()?;
    let mut screen = arguments.trial.screen();
    if !arguments.trial.output_flags.json {
        screen.print(&format!("{}\n", terminal::title(&comparison)));
    }
    let mut counter = Counter {
        screen: &mut screen,
        pauses: None,
    };
    let judged = run_and_judge(&comparison, file, &mut counter, interrupt)
        .map_err(|no_verdict| files.explain(&no_verdict, true))?;
    let ended = EndedTrial {
        report: json::report(&judged),
        verdict: &judged.verdict,
        events: judged.events.len(),
        page: Page::of_comparison(&judged),
        lock_trial: None,
        is_recorded: true,
    };
    let text = |ink| text(&arguments, &judged, ink);
    arguments.trial.conclude(screen, files, &ended, text)
}

/// Returns the lease of each holder. It must be at least twice as long as the work, unless the lock outlasts its lease: the end of a lease
/// is not what this command is about.
fn lease(arguments: &Retry, strategy: &Strategy, store: &TrialStore) -> Result<u64, CommandError> {
    if let Some(ttl_ms) = arguments.ttl {
        lasts_long_enough(ttl_ms, store)?;
    }
    let usual = Comparison::TTL_MS.max(store.shortest_ttl_ms());
    let (ttl_ms, delay_us) = (arguments.ttl.unwrap_or(usual), arguments.delay);
    let claims = strategy.claims;
    let outlasts = claims.keep_alive || claims.untimed || claims.fencing;
    if outlasts || delay_us < ttl_ms * 1_000 / 2 {
        return Ok(ttl_ms);
    }
    let what = "the work takes longer than half the lease";
    Err(CommandError::new(exit::USAGE, what)
        .at(format_args!("--delay {delay_us} --ttl {ttl_ms}"))
        .effect("none: the trial had not begun")
        .try_this(format_args!("--ttl {}", delay_us / 500 + 1)))
}

/// Runs a comparison with processes of this program and judges it.
pub(crate) fn run_and_judge(
    comparison: &Comparison,
    file: Option<File>,
    watch: &mut dyn RetryWatch,
    interrupt: Interrupt,
) -> Result<Judged, NoVerdict> {
    let ours = Contender::ours(comparison.strategy)?;
    let subject = || ours.command();
    let history = retry::run(comparison, &subject, file, watch, interrupt)?;
    Ok(Judged::of(comparison, history))
}

/// Returns what is shown when all rounds are over.
fn text(arguments: &Retry, judged: &Judged, ink: Ink) -> String {
    let quiet = arguments.trial.output_flags.quiet;
    let mut blocks = Vec::new();
    if arguments.verbose {
        blocks.push(terminal::attempts(judged, ink));
    }
    blocks.push(terminal::table(judged, ink));
    if !quiet {
        blocks.push(terminal::bars_and_legend(judged, ink));
    }
    blocks.push(verdict::text(&judged.verdict, quiet, ink));
    blocks.join("\n")
}

/// Returns the error for an external lock: `retry` does not accept them, because the lab's own client makes the pauses.
fn not_for_external_locks(external: &ExternalLock) -> CommandError {
    let flag = external.flag();
    CommandError::new(exit::USAGE, "retry compares the lab's own ways of waiting")
        .at(&flag)
        .try_this(format_args!(
            "fencepost gauntlet {flag}      or fencepost oversell --wait 20000 {flag}"
        ))
}

fn nothing_to_wait_for(strategy: &Strategy) -> CommandError {
    let what = format!("{} has no lock to wait for", strategy.name);
    CommandError::new(exit::USAGE, what)
        .at(format_args!("--lock={}", strategy.name))
        .try_this("--lock=safe      or --lock help to list all")
}

/// Shows how many attempts were answered.
struct Counter<'a> {
    screen: &'a mut Screen,
    pauses: Option<Pauses>,
}

impl RetryWatch for Counter<'_> {
    fn round(&mut self, pauses: Pauses) {
        self.pauses = Some(pauses);
    }

    fn answered(&mut self, answered: usize, of: usize) {
        let name = self.pauses.map(Pauses::name).unwrap_or_default();
        self.screen
            .suspense(&format!("  {name}: {answered} of {of} are answered"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use fencepost_trial::strategy;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        retry: Retry,
    }

    fn lease_of(words: &[&str], lock: &str, store: &str) -> Result<u64, String> {
        let words = std::iter::once(&"retry").chain(words);
        let retry = Line::parse_from(words).retry;
        let store = TrialStore::named(store).unwrap();
        let ttl = lease(&retry, strategy::find(lock).unwrap(), &store);
        ttl.map_err(|error| error.text(Ink::PLAIN))
    }

    #[test]
    fn a_lease_that_is_too_short_for_the_store_is_refused_and_not_stretched() {
        assert_eq!(lease_of(&[], "safe", "sqlite"), Ok(Comparison::TTL_MS));
        assert_eq!(lease_of(&[], "safe", "zk://10.0.0.1"), Ok(4_000));
        assert_eq!(lease_of(&["--ttl", "100"], "safe", "sqlite"), Ok(100));
        let refused = lease_of(&["--ttl", "100"], "safe", "etcd").unwrap_err();
        let what = "error: a TTL of 100 ms is too short for etcd\n";
        assert!(refused.starts_with(what), "{refused}");
    }

    #[test]
    fn only_a_lock_that_outlasts_its_lease_may_work_for_longer() {
        let long = ["--ttl", "100", "--delay", "50000"];
        assert!(lease_of(&long, "safe", "sqlite").is_err());
        assert_eq!(lease_of(&long, "watchdog", "sqlite"), Ok(100));
        let shorter = ["--ttl", "100", "--delay", "49999"];
        assert_eq!(lease_of(&shorter, "safe", "sqlite"), Ok(100));
    }
}
