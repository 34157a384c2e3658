//! `fencepost gauntlet --envelope`: searches for the length of a fault at which the lock breaks.

use std::process::ExitCode;

use fencepost_rig::Interrupt;
use fencepost_trial::gauntlet::Gauntlet;
use fencepost_trial::gauntlet::envelope::{Probe, Search, fault};
use fencepost_trial::holds::Trial;
use fencepost_trial::matrix::Cell;
use fencepost_trial::report::json::envelope::report;
use fencepost_trial::report::terminal::envelope::{limits, result, title};
use fencepost_trial::text::numbers::plural;
use fencepost_trial::verdict::Outcome;

use super::RunGauntlet;
use crate::command_error::CommandError;
use crate::contender::Contender;
use crate::exit;
use crate::holds::run_and_judge;
use crate::no_verdict::{UsedFlags, explain};
use crate::screen::Screen;

/// Searches the edge in every chosen scenario whose fault has a length. The exit code says only whether all were found.
pub(super) fn run(
    arguments: &RunGauntlet,
    contender: &Contender,
    gauntlet: &Gauntlet,
    interrupt: Interrupt,
) -> Result<ExitCode, CommandError> {
    let cells = gauntlet.plan().cells;
    let trials: Vec<&Trial> = cells.iter().filter_map(with_length).collect();
    if trials.is_empty() {
        return Err(nothing_to_search());
    }
    let flags = &arguments.trial.output_flags;
    let mut screen = arguments.trial.screen();
    if !flags.json {
        screen.print(&format!("{}\n", title(gauntlet)));
    }
    let mut searches = Vec::new();
    for trial in trials {
        let search = search(trial, contender, &mut screen, interrupt)?;
        if !flags.json {
            let text = result(&search, screen.ink);
            screen.print(&text);
        }
        searches.push(search);
    }
    let is_unclear = searches.iter().any(Search::gave_up);
    let outcome = if is_unclear {
        Outcome::Inconclusive
    } else {
        Outcome::Held
    };
    if flags.json {
        screen.print_json(&report(gauntlet, &searches, outcome.exit_code()));
    } else if !flags.quiet {
        let text = limits(screen.ink);
        screen.print(&format!("\n{text}"));
    }
    Ok(screen.end(outcome.exit_code()))
}

fn with_length(cell: &Cell) -> Option<&Trial> {
    match cell {
        Cell::Lock(trial) => fault(trial.scenario).map(|_| trial),
        Cell::Sale(_) | Cell::Retry(_) => None,
    }
}

fn nothing_to_search() -> CommandError {
    let what = "no scenario with a length can be tried here";
    CommandError::new(exit::USAGE, what)
        .at("--envelope")
        .effect("none: no trial was run")
        .try_this("--scenario pause or ttl-edge; on stores with a server also cut and slow-replies")
}

fn search(
    trial: &Trial,
    contender: &Contender,
    screen: &mut Screen,
    interrupt: Interrupt,
) -> Result<Search, CommandError> {
    let mut search = Search::new(trial);
    while let Some(length_ms) = search.next_ms() {
        let runs = plural(search.probes.len(), "run", "runs");
        let name = trial.scenario.name();
        screen.live(&format!("  {name}   {length_ms} ms, after {runs}"));
        let mut next = trial.clone().with_length(length_ms);
        next.seed += search.probes.len() as u64;
        let probe = match run_and_judge(&next, contender, None, &mut (), interrupt) {
            Ok(judged) => Probe::of(&judged, length_ms),
            Err(no_verdict) if no_verdict.not_ready().is_some() => Probe::without_result(length_ms),
            Err(no_verdict) => return Err(explain(&no_verdict, UsedFlags::default())),
        };
        search.probes.push(probe);
    }
    Ok(search)
}
