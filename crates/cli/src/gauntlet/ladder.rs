//! `fencepost gauntlet --ladder`: the same faults for locks of ours and for the lock on trial.

use std::process::ExitCode;
use std::time::Instant;

use fencepost_rig::Interrupt;
use fencepost_trial::gauntlet::ladder::{Rung, rungs};
use fencepost_trial::gauntlet::{Gauntlet, GauntletPlan};
use fencepost_trial::matrix::{Cell, Run};
use fencepost_trial::report::html::Page;
use fencepost_trial::report::json::gauntlet::report_of_ladder;
use fencepost_trial::report::terminal::ladder::{text, title};

use super::{RunGauntlet, afterwards, open_outputs, stems};
use crate::batch::{Batch, nanoseconds};
use crate::command_error::CommandError;
use crate::contender::Contender;
use crate::screen::Screen;

/// The name of the lock on trial in the names of files: its own may contain anything.
const ON_TRIAL: &str = "on-trial";

/// Runs every lock of the ladder in the chosen scenarios. The exit code is that of the lock on trial.
pub(super) fn run(
    arguments: &RunGauntlet,
    contender: &Contender,
    on_trial: &Gauntlet,
    interrupt: Interrupt,
) -> Result<ExitCode, CommandError> {
    let page = open_outputs(arguments)?;
    let mut screen = arguments.trial.screen();
    let flags = &arguments.trial.output_flags;
    if !flags.json {
        screen.print(&format!("{}\n", title(on_trial)));
    }
    let gauntlets = rungs(on_trial);
    let plans: Vec<GauntletPlan> = gauntlets.iter().map(Gauntlet::plan).collect();
    let started = Instant::now();
    let mut climb = Climb {
        arguments,
        contender,
        interrupt,
        started,
        repeated: Vec::new(),
    };
    let runs = climb.all(&gauntlets, &plans, &mut screen)?;
    let results = gauntlets.iter().zip(&plans).zip(&runs);
    let rungs: Vec<Rung<'_>> = results
        .map(|((gauntlet, plan), runs)| Rung::new(gauntlet, plan, runs))
        .collect();
    screen.clear_live();
    let verdict = match rungs.last() {
        Some(last) => on_trial.verdict(&last.rows, last.untried),
        None => on_trial.verdict(&[], &[]),
    };
    if flags.json {
        screen.print_json(&report_of_ladder(&rungs, &climb.repeated));
    } else {
        let took_ns = nanoseconds(started.elapsed());
        let trials = runs.iter().map(Vec::len).sum();
        let more = afterwards(arguments, trials, &climb.repeated, screen.ink);
        screen.print(&(text(&rungs, took_ns, flags.quiet, screen.ink) + &more));
    }
    if let Some(page) = page {
        let drawn = Page::of_ladder(&rungs, on_trial, &verdict);
        page.fill_with(&drawn.render())?;
    }
    Ok(screen.end(verdict.outcome.exit_code()))
}

/// How the trials of a ladder are run.
struct Climb<'a> {
    arguments: &'a RunGauntlet,
    contender: &'a Contender,
    interrupt: Interrupt,
    started: Instant,
    /// The trials that were run more than once.
    repeated: Vec<String>,
}

impl Climb<'_> {
    /// Returns the runs of each lock. Ours run first, all together, and then the lock on trial.
    fn all(
        &mut self,
        gauntlets: &[Gauntlet],
        plans: &[GauntletPlan],
        screen: &mut Screen,
    ) -> Result<Vec<Vec<Run>>, CommandError> {
        let last = plans.len() - 1;
        let cells = |plan: &GauntletPlan| plan.cells.clone();
        let ours: Vec<Cell> = plans[..last].iter().flat_map(cells).collect();
        let each = self.arguments.runs;
        let named = |at: usize| stems(&plans[at].cells, each).into_iter();
        let our_stems = (0..last).flat_map(|at| {
            let name = gauntlets[at].strategy.name;
            named(at).map(move |stem| format!("{name}-{stem}"))
        });
        let mut left = self.batch(&ours, &our_stems.collect::<Vec<_>>(), None, screen)?;
        let mut runs = Vec::new();
        for plan in &plans[..last] {
            let later = left.split_off(plan.cells.len());
            runs.push(std::mem::replace(&mut left, later));
        }
        let stems: Vec<String> = named(last)
            .map(|stem| format!("{ON_TRIAL}-{stem}"))
            .collect();
        let contender = Some(self.contender);
        runs.push(self.batch(&plans[last].cells, &stems, contender, screen)?);
        Ok(runs)
    }

    fn batch(
        &mut self,
        cells: &[Cell],
        stems: &[String],
        contender: Option<&Contender>,
        screen: &mut Screen,
    ) -> Result<Vec<Run>, CommandError> {
        let flags = &self.arguments.trial.output_flags;
        let batch = Batch {
            cells,
            stems,
            contender,
            tolerant: true,
            folder: self.arguments.output.as_deref(),
            side_by_side: self.arguments.jobs,
            logs: !flags.quiet && !flags.json && !screen.is_live(),
            interrupt: self.interrupt,
            what: "trials",
        };
        let (runs, repeated) = batch.run(screen, self.started).complete()?;
        self.repeated.extend(repeated);
        Ok(runs)
    }
}
