//! `fencepost oversell`: many buyers at one stock, with one strategy or with all of them.

use std::fs::File;
use std::process::ExitCode;

use clap::Args;
use fencepost_rig::Interrupt;
use fencepost_trial::matrix::REPETITIONS;
use fencepost_trial::processes::NoVerdict;
use fencepost_trial::protocol::Resource;
use fencepost_trial::report::html::Page;
use fencepost_trial::report::json::sale as json;
use fencepost_trial::report::terminal::sale::{Columns, figures, title};
use fencepost_trial::report::terminal::{sales, verdict};
use fencepost_trial::sale::facts::Attempt;
use fencepost_trial::sale::{self, Judged, Sale, SaleWatch};
use fencepost_trial::strategy;

use crate::command_error::CommandError;
use crate::contender::{Contender, LockArgument};
use crate::no_verdict::{UsedFlags, explain};
use crate::results::{Drawings, EndedTrial, FileFlags, Files, OutputFile};
use crate::screen::{OutputFlags, Screen};
use crate::trial_flags::TrialFlags;
use crate::values::{concurrency, delay, random_seed, seed, stock, wait};

/// The TTL that an external lock is given when it is asked for its claims. In the sale the lease is longer than the work.
const LEASE_MS: u64 = 10_000;

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Oversell {
    #[arg(long, default_value = "none", value_parser = LockArgument::parse)]
    lock: LockArgument,
    #[arg(long, conflicts_with_all = ["lock", "history"])]
    all: bool,
    #[arg(long, allow_hyphen_values = true, default_value_t = Sale::STOCK, value_parser = stock)]
    stock: u32,
    #[arg(long, allow_hyphen_values = true, default_value_t = Sale::CONCURRENCY, value_parser = concurrency)]
    concurrency: usize,
    #[arg(long, allow_hyphen_values = true, default_value_t = Sale::DELAY_US, value_parser = delay)]
    delay: u64,
    #[arg(long, allow_hyphen_values = true, default_value_t = 0, value_parser = wait)]
    wait: u64,
    #[arg(long, allow_hyphen_values = true, value_parser = seed)]
    seed: Option<u64>,
    #[command(flatten)]
    files: FileFlags,
    #[command(flatten)]
    trial: TrialFlags,
}

/// Runs `fencepost oversell`.
pub(crate) fn run(arguments: Oversell, interrupt: Interrupt) -> Result<ExitCode, CommandError> {
    let LockArgument::Lock(lock) = &arguments.lock else {
        return arguments.trial.list_locks();
    };
    let opened = arguments.trial.open_store(Some(lock))?;
    let contender = Contender::of(lock, &opened.store, LEASE_MS, Resource::Stock, interrupt)?;
    let strategy = contender.strategy;
    let sale = Sale {
        strategy,
        stock: arguments.stock,
        concurrency: arguments.concurrency,
        delay_us: arguments.delay,
        wait_ms: arguments.wait,
        store: opened.store.clone(),
        ..Sale::new(strategy, arguments.seed.unwrap_or_else(random_seed))
    };
    if arguments.all {
        all(&arguments, &sale, interrupt)
    } else {
        one(&arguments, &sale, &contender, interrupt)
    }
}

fn one(
    arguments: &Oversell,
    sale: &Sale,
    contender: &Contender,
    interrupt: Interrupt,
) -> Result<ExitCode, CommandError> {
    let &OutputFlags { json, quiet, .. } = &arguments.trial.output_flags;
    let files = Files::open(&arguments.files)?;
    let file = files.recording()?;
    let mut screen = arguments.trial.screen();
    let ink = screen.ink;
    if !json {
        screen.print(&format!("{}\n", title(sale)));
    }
    let columns = (!json && !quiet).then(|| Columns::of(sale, ink));
    let mut watch = SaleProgress {
        screen: &mut screen,
        columns,
        begun: false,
    };
    let judged = run_and_judge(sale, contender, file, &mut watch, interrupt)
        .map_err(|no_verdict| files.explain(&no_verdict, true))?;
    let ended = EndedTrial {
        report: json::report(&judged),
        verdict: &judged.verdict,
        events: judged.events.len(),
        page: Page::of_sales(std::slice::from_ref(&judged)),
        lock_trial: None,
        is_recorded: true,
    };
    arguments.trial.conclude(screen, files, &ended, |ink| {
        let gap = if quiet { "" } else { "\n" };
        let figures = figures(&judged, ink);
        let verdict = verdict::text(&judged.verdict, quiet, ink);
        format!("{gap}{figures}\n{verdict}")
    })
}

fn all(arguments: &Oversell, sale: &Sale, interrupt: Interrupt) -> Result<ExitCode, CommandError> {
    let output = arguments.files.output.as_deref();
    let drawings = Drawings::open(
        &arguments.files.drawings,
        &[("--output", "FILE.json", output)],
    )?;
    let output = output
        .map(|path| OutputFile::open("--output", path))
        .transpose()?;
    let &OutputFlags { json, quiet, .. } = &arguments.trial.output_flags;
    let mut screen = arguments.trial.screen();
    if !json {
        screen.print(&format!(
            "{}\n",
            sales::title(sale, strategy::at(&sale.store).count())
        ));
    }
    let mut runs = Vec::new();
    let mut repeated = Vec::new();
    for strategy in strategy::at(&sale.store) {
        let sale = Sale {
            strategy,
            ..sale.clone()
        };
        let mut judged = one_of_all(&sale, &mut screen, interrupt)?;
        if judged.showed_nothing() {
            repeated.push(strategy.name);
        }
        for _ in 0..REPETITIONS {
            if judged.showed_nothing() {
                judged = one_of_all(&sale, &mut screen, interrupt)?;
            }
        }
        runs.push(judged);
    }
    let report = json::reports(&runs, &repeated);
    if json {
        screen.print_json(&report);
    } else {
        screen.print(&sales::table(&runs, &repeated, quiet, screen.ink));
    }
    if let Some(output) = output {
        output.fill(&report)?;
    }
    drawings.fill(&Page::of_sales(&runs))?;
    Ok(screen.end(u8::from(!runs.iter().all(Judged::as_expected))))
}

fn one_of_all(
    sale: &Sale,
    screen: &mut Screen,
    interrupt: Interrupt,
) -> Result<Judged, CommandError> {
    let mut watch = SaleProgress {
        screen,
        columns: None,
        begun: false,
    };
    let judged = Contender::ours(sale.strategy)
        .and_then(|ours| run_and_judge(sale, &ours, None, &mut watch, interrupt));
    let flags = UsedFlags {
        history: None,
        has_concurrency: true,
    };
    judged.map_err(|no_verdict| explain(&no_verdict, flags))
}

/// Runs a sale and judges it.
pub(crate) fn run_and_judge(
    sale: &Sale,
    contender: &Contender,
    file: Option<File>,
    watch: &mut dyn SaleWatch,
    interrupt: Interrupt,
) -> Result<Judged, NoVerdict> {
    let subject = || contender.command();
    let history = sale::run(sale, &subject, file, watch, interrupt)?;
    Ok(Judged::of(sale, history))
}

/// Shows the progress of a sale.
pub(crate) struct SaleProgress<'a> {
    pub(crate) screen: &'a mut Screen,
    /// How to show answers; `None` if they are not shown.
    pub(crate) columns: Option<Columns>,
    pub(crate) begun: bool,
}

impl SaleWatch for SaleProgress<'_> {
    fn starting(&mut self, ready: usize, of: usize) {
        self.screen
            .suspense(&format!("  {ready} of {of} processes are ready"));
    }

    fn answered(&mut self, attempt: &Attempt, sold: i64) {
        let Some(columns) = self.columns else { return };
        if !std::mem::replace(&mut self.begun, true) {
            self.screen.print(&columns.heading());
        }
        self.screen.print(&columns.line(attempt, sold));
    }

    fn waiting(&mut self, answered: usize, of: usize) {
        self.screen
            .suspense(&format!("  {answered} of {of} attempts are answered"));
    }
}
