//! `fencepost retry`: compares what the ways of waiting for a lock cost.

use std::fs::File;
use std::process::ExitCode;

use clap::Args;
use fencepost_rig::Interrupt;
use fencepost_trial::processes::Stopped;
use fencepost_trial::protocol::{Pauses, Promise};
use fencepost_trial::report::html;
use fencepost_trial::report::json::retry as json;
use fencepost_trial::report::terminal::{grounds, retry as terminal};
use fencepost_trial::retry::{self, Comparison, Judged, RetryWatch};
use fencepost_trial::sale::Sale;
use fencepost_trial::strategy::Strategy;

use crate::command_error::CommandError;
use crate::contender::{Contender, ExternalLock, Lock, LockArgument, fits, strategies};
use crate::exit;
use crate::results::{FileFlags, Files};
use crate::screen::Screen;
use crate::stopped::{UsedFlags, explain};
use crate::trial_flags::TrialFlags;
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
    #[arg(long, allow_hyphen_values = true, default_value_t = Comparison::TTL_MS, value_parser = ttl)]
    ttl: u64,
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
        return Ok(arguments.trial.screen().finish(&strategies()));
    };
    let strategy = match lock {
        Lock::External(external) => return Err(not_for_external_locks(external)),
        Lock::Strategy(strategy) | Lock::LibraryOn(_, strategy) => *strategy,
    };
    if strategy.promise != Promise::Exclusion {
        return Err(nothing_to_wait_for(strategy));
    }
    let site = arguments.trial.open_store(Some(lock))?;
    fits(strategy, &site.store)?;
    let comparison = Comparison {
        stock: arguments.stock,
        concurrency: arguments.concurrency,
        delay_us: arguments.delay,
        max_retries: arguments.max_retries,
        ttl_ms: arguments.ttl.max(site.store.shortest_ttl_ms()),
        budget_ms: arguments.budget,
        store: site.store.clone(),
        ..Comparison::new(strategy, arguments.seed.unwrap_or_else(random_seed))
    };
    let files = Files::open(&arguments.files)?;
    let file = files.history()?;
    let mut screen = arguments.trial.screen();
    if !arguments.trial.output_flags.json {
        screen.print(&format!("{}\n", terminal::title(&comparison)));
    }
    let mut counter = Counter {
        screen: &mut screen,
        pauses: None,
    };
    let recorded = Contender::ours(strategy)
        .and_then(|ours| {
            let subject = || ours.command();
            retry::run(&comparison, &subject, file, &mut counter, interrupt)
        })
        .map_err(|stopped| {
            let flags = UsedFlags {
                history: files.history_flag(),
                has_concurrency: true,
            };
            explain(&stopped, flags)
        })?;
    let judged = Judged::of(&comparison, recorded);
    if arguments.trial.output_flags.json {
        screen.print_json(&json::report(&judged));
    } else {
        show(&arguments, &judged, &mut screen);
    }
    files.fill(
        &json::report(&judged),
        &judged.verdict,
        judged.events.len(),
        &html::page_of_comparison(&judged),
    )?;
    Ok(screen.end(judged.verdict.outcome.exit_code()))
}

/// Runs a comparison with processes of this program and judges it. Shows nothing.
pub(crate) fn run_without_output(
    comparison: &Comparison,
    file: Option<File>,
    interrupt: Interrupt,
) -> Result<Judged, Stopped> {
    let ours = Contender::ours(comparison.strategy)?;
    let subject = || ours.command();
    let history = retry::run(comparison, &subject, file, &mut (), interrupt)?;
    Ok(Judged::of(comparison, history))
}

fn show(arguments: &Retry, judged: &Judged, screen: &mut Screen) {
    let (ink, quiet) = (screen.ink, arguments.trial.output_flags.quiet);
    let mut blocks = Vec::new();
    if arguments.verbose {
        blocks.push(terminal::attempts(judged, ink));
    }
    blocks.push(terminal::table(judged, ink));
    if !quiet {
        blocks.push(terminal::bars_and_legend(judged, ink));
    }
    blocks.push(grounds::text(&judged.verdict, quiet, ink));
    screen.print(&blocks.join("\n"));
}

/// The error for an external lock: `retry` does not accept them, because the lab's own client makes the pauses.
fn not_for_external_locks(external: &ExternalLock) -> CommandError {
    let flag = external.flag();
    CommandError::new(exit::USAGE, "retry compares the lab's own ways of waiting")
        .at(&flag)
        .try_this(format_args!("fencepost oversell --wait 20000 {flag}"))
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
