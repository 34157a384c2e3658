//! `fencepost oversell`: many buyers at one stock, with one strategy or with all of them.

use std::fs::File;
use std::process::ExitCode;

use clap::Args;
use fencepost_rig::Interrupt;
use fencepost_trial::processes::Stopped;
use fencepost_trial::protocol::Resource;
use fencepost_trial::report::html;
use fencepost_trial::report::json::sale as json;
use fencepost_trial::report::terminal::sale::{Columns, figures, title};
use fencepost_trial::report::terminal::{grounds, table};
use fencepost_trial::sale::facts::Attempt;
use fencepost_trial::sale::{self, Judged, Sale, SaleWatch};
use fencepost_trial::strategy;

use crate::command_error::CommandError;
use crate::contender::{Contender, LockArgument};
use crate::results::{Drawings, FileFlags, Files, OutputFile};
use crate::screen::{OutputFlags, Screen};
use crate::stopped::{UsedFlags, explain};
use crate::trial_flags::{EndedTrial, TrialFlags};
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
    let site = arguments.trial.open_store(Some(lock))?;
    let contender = Contender::of(lock, &site.store, LEASE_MS, Resource::Stock, interrupt)?;
    let strategy = contender.strategy;
    let sale = Sale {
        strategy,
        stock: arguments.stock,
        concurrency: arguments.concurrency,
        delay_us: arguments.delay,
        wait_ms: arguments.wait,
        store: site.store.clone(),
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
    let file = files.history()?;
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
    let judged = run_sale(sale, contender, file, &mut watch, interrupt).map_err(|stopped| {
        let flags = UsedFlags {
            history: files.history_flag(),
            has_concurrency: true,
        };
        explain(&stopped, flags)
    })?;
    let ended = EndedTrial {
        report: json::report(&judged),
        verdict: &judged.verdict,
        events: judged.events.len(),
        page: html::page_of_sales(std::slice::from_ref(&judged)),
    };
    arguments.trial.conclude(screen, files, &ended, |ink| {
        let gap = if quiet { "" } else { "\n" };
        let figures = figures(&judged, ink);
        let grounds = grounds::text(&judged.verdict, quiet, ink);
        format!("{gap}{figures}\n{grounds}")
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
            table::all_title(sale, strategy::at(&sale.store).count())
        ));
    }
    let mut runs = Vec::new();
    for strategy in strategy::at(&sale.store) {
        let sale = Sale {
            strategy,
            ..sale.clone()
        };
        let mut watch = SaleProgress {
            screen: &mut screen,
            columns: None,
            begun: false,
        };
        let judged = Contender::ours(strategy)
            .and_then(|ours| run_sale(&sale, &ours, None, &mut watch, interrupt));
        let flags = UsedFlags {
            history: None,
            has_concurrency: true,
        };
        runs.push(judged.map_err(|stopped| explain(&stopped, flags))?);
    }
    if json {
        screen.print_json(&json::reports(&runs));
    } else {
        screen.print(&table::all(&runs, quiet, screen.ink));
    }
    if let Some(output) = output {
        output.fill(&json::reports(&runs))?;
    }
    drawings.fill(&html::page_of_sales(&runs))?;
    Ok(screen.end(u8::from(!runs.iter().all(Judged::as_expected))))
}

/// Runs a sale and judges it.
pub(crate) fn run_sale(
    sale: &Sale,
    contender: &Contender,
    file: Option<File>,
    watch: &mut dyn SaleWatch,
    interrupt: Interrupt,
) -> Result<Judged, Stopped> {
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
