//! `fencepost retry`: what each way of waiting for a lock costs.

use std::fs::File;
use std::process::ExitCode;

use fencepost_rig::Interrupt;
use fencepost_trial::history::History;
use fencepost_trial::processes::Stopped;
use fencepost_trial::protocol::{Pauses, Promise};
use fencepost_trial::report::html;
use fencepost_trial::report::json::retry as json;
use fencepost_trial::report::terminal::{grounds, retry as terminal};
use fencepost_trial::retry::{self, Comparison, Judged, Watch};
use fencepost_trial::strategy::Strategy;

use crate::arguments::{Lock, Retry, random_seed};
use crate::contender::{Contender, fits};
use crate::exit;
use crate::fault::Fault;
use crate::help;
use crate::oversell::explain;
use crate::results::Files;
use crate::screen::Screen;
use crate::stranger::Stranger;

/// Runs the command.
pub(crate) fn run(arguments: Retry, interrupt: Interrupt) -> Result<ExitCode, Fault> {
    let strategy = match &arguments.lock {
        Lock::Help => return Ok(arguments.common.screen().finish(&help::strategies())),
        Lock::Stranger(stranger) => return Err(not_for_strangers(stranger)),
        Lock::Strategy(strategy) | Lock::Of(_, strategy) => *strategy,
    };
    if strategy.promise != Promise::Exclusion {
        return Err(nothing_to_wait_for(strategy));
    }
    let site = arguments.common.open_store(Some(&arguments.lock))?;
    fits(strategy, &site.place)?;
    let comparison = Comparison {
        stock: arguments.stock,
        concurrency: arguments.concurrency,
        delay_us: arguments.delay,
        max_retries: arguments.max_retries,
        ttl_ms: arguments.ttl.max(site.place.shortest_ttl_ms()),
        budget_ms: arguments.budget,
        place: site.place.clone(),
        ..Comparison::new(strategy, arguments.seed.unwrap_or_else(random_seed))
    };
    let files = Files::open(
        arguments.output.as_deref(),
        arguments.history.as_deref(),
        &arguments.drawings,
    )?;
    let file = files.history()?;
    let mut screen = arguments.common.screen();
    if !arguments.common.json {
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
        .map_err(|stopped| explain(&stopped, files.history_path()))?;
    let Some(judged) = retry::judge(&recorded) else {
        return Err(Fault::new(exit::INTERNAL, "the lab lost its own history"));
    };
    if arguments.common.json {
        screen.print_json(&json::report(&judged));
    } else {
        show(&arguments, &judged, &mut screen);
    }
    files.fill(
        &json::report(&judged),
        &judged.verdict,
        judged.events,
        &html::page_of_comparison(&judged, &recorded),
    )?;
    Ok(screen.end(judged.verdict.outcome.exit_code()))
}

/// Makes a comparison with processes of this program, and judges it, without showing anything. None: its history is none.
pub(crate) fn quietly(
    comparison: &Comparison,
    file: Option<File>,
    interrupt: Interrupt,
) -> Result<Option<(Judged, History)>, Stopped> {
    let ours = Contender::ours(comparison.strategy)?;
    let subject = || ours.command();
    let history = retry::run(comparison, &subject, file, &mut (), interrupt)?;
    Ok(retry::judge(&history).map(|judged| (judged, history)))
}

fn show(arguments: &Retry, judged: &Judged, screen: &mut Screen) {
    let (ink, quiet) = (screen.ink, arguments.common.quiet);
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

/// The pauses are ours, between tries of a lock of ours.
fn not_for_strangers(stranger: &Stranger) -> Fault {
    let flag = stranger.flag();
    Fault::new(exit::USAGE, "retry compares the lab's own ways of waiting")
        .at(&flag)
        .try_this(format_args!("fencepost oversell --wait 20000 {flag}"))
}

fn nothing_to_wait_for(strategy: &Strategy) -> Fault {
    let what = format!("{} has no lock to wait for", strategy.name);
    Fault::new(exit::USAGE, what)
        .at(format_args!("--lock={}", strategy.name))
        .try_this("--lock=safe      or --lock help for all, a line each")
}

/// Counts answers on the live line.
struct Counter<'a> {
    screen: &'a mut Screen,
    pauses: Option<Pauses>,
}

impl Watch for Counter<'_> {
    fn round(&mut self, pauses: Pauses) {
        self.pauses = Some(pauses);
    }

    fn answered(&mut self, answered: usize, of: usize) {
        let name = self.pauses.map(Pauses::name).unwrap_or_default();
        self.screen
            .suspense(&format!("  {name}: {answered} of {of} are answered"));
    }
}
