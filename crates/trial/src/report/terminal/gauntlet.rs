//! The terminal report of `gauntlet`: one entry per scenario, and what the lock withstood.

use super::verdict::{glyph, headline, role};
use crate::gauntlet::{Gauntlet, GauntletPlan, Prediction, Row, Untried, claims_in_words};
use crate::matrix::Cell;
use crate::report::fault;
use crate::story::scenarios::judged_by;
use crate::text::ink::{Ink, Role};
use crate::text::numbers::{count, decimal};
use crate::verdict::{Outcome, Verdict};

/// The widths of the first two columns: the verdict with its rate, and the scenario.
const VERDICT: usize = 24;
const SCENARIO: usize = 17;

/// Returns the title with the settings.
pub fn title(gauntlet: &Gauntlet) -> String {
    format!(
        "gauntlet   one lock, every scenario that applies\n{}  it claims: {}\n  its kind: {}\n",
        settings(gauntlet),
        claims_in_words(gauntlet.strategy.claims),
        gauntlet.kind.in_words(),
    )
}

/// Returns the line with the settings.
pub(super) fn settings(gauntlet: &Gauntlet) -> String {
    format!(
        "  lock {}   TTL {} ms   store {}   seed {}\n",
        gauntlet.strategy.name,
        count(gauntlet.lease_ms() as i64),
        gauntlet.store.title(),
        gauntlet.seed,
    )
}

/// Returns the list of scenarios, with what is tried and what is not.
pub fn list(plan: &GauntletPlan, ink: Ink) -> String {
    let mut text = String::new();
    for cell in &plan.cells {
        let (name, fault) = (cell.scenario(), fault::of_cell(cell));
        text.push_str(&format!("  {name:<SCENARIO$}{fault}\n"));
    }
    for Untried { scenario, why } in &plan.untried {
        let line = format!("  {scenario:<SCENARIO$}not tried: {why}");
        text.push_str(&format!("{}\n", ink.paint(Role::Label, line)));
    }
    text
}

/// What a user who predicts is told first.
pub const HOW_TO_PREDICT: &str = "Predict each verdict: held, broken, stuck or inconclusive. A letter is enough; Enter: no prediction.\n";

/// Returns a scenario before it is run: what happens, and what the lock is judged by.
pub fn question(gauntlet: &Gauntlet, cell: &Cell, ink: Ink) -> String {
    let name = cell.scenario();
    let fault = fault::of_cell(cell);
    let by = judged_by(cell.any_scenario(), gauntlet.strategy.claims);
    format!(
        "\n  {name:<SCENARIO$}{fault}\n{}",
        ink.sentence("judged by", &by)
    )
}

/// The results of a gauntlet to be shown.
#[derive(Debug, Clone, Copy)]
pub struct GauntletView<'a> {
    /// The settings.
    pub gauntlet: &'a Gauntlet,
    /// One row per scenario.
    pub rows: &'a [Row<'a>],
    /// What was left out.
    pub untried: &'a [Untried],
    /// What was predicted.
    pub predictions: &'a [Prediction],
    /// The total duration.
    pub took_ns: u64,
}

impl GauntletView<'_> {
    /// Returns the text that stays on the screen, except for the list of files.
    pub fn text(&self, quiet: bool, ink: Ink) -> String {
        let heading = format!("{:<VERDICT$}{:<SCENARIO$}fault", "verdict", "scenario");
        let mut text = format!("{}\n", ink.paint(Role::Label, heading));
        for row in self.rows {
            text.push_str(&entry(row, quiet, ink));
            text.push_str(&self.predicted(row, ink));
        }
        text.push('\n');
        text.push_str(&self.conclusion(ink));
        text
    }

    /// Returns what was predicted for a row, if anything was.
    fn predicted(&self, row: &Row<'_>, ink: Ink) -> String {
        match self.prediction(row) {
            Some(outcome) if outcome == row.outcome() => {
                ink.sentence("predicted", &format!("{outcome}, correct"))
            }
            Some(outcome) => {
                let came = row.outcome();
                ink.sentence("predicted", &format!("{outcome}, but it was {came}"))
            }
            None => String::new(),
        }
    }

    fn prediction(&self, row: &Row<'_>) -> Option<Outcome> {
        let mut all = self.predictions.iter();
        let own = all.find(|one| one.scenario == row.worst.scenario())?;
        Some(own.outcome)
    }

    /// Returns how many predictions came true; empty if there were none.
    fn score(&self, ink: Ink) -> String {
        let predicted = self.rows.iter().filter_map(|row| {
            let outcome = self.prediction(row)?;
            Some(outcome == row.outcome())
        });
        let came: Vec<bool> = predicted.collect();
        if came.is_empty() {
            return String::new();
        }
        let right = came.iter().filter(|is_right| **is_right).count();
        ink.sentence(
            "predicted",
            &format!("{right} of {} came as predicted", came.len()),
        )
    }

    /// Returns the verdict on all scenarios, then which held, which broke the lock, and which were not tried.
    fn conclusion(&self, ink: Ink) -> String {
        let Verdict {
            outcome, because, ..
        } = self.gauntlet.verdict(self.rows, self.untried);
        let took = decimal(self.took_ns as f64 / 1e9);
        let mut text = headline(outcome, &format!("{because} It took {took} s."), ink);
        for outcome in Outcome::WORST_FIRST.into_iter().rev() {
            let label = match outcome {
                Outcome::Held => "held",
                Outcome::Broken => "broke",
                Outcome::Stuck => "stuck",
                Outcome::Inconclusive => "unclear",
            };
            let names = self.of(outcome);
            if !names.is_empty() {
                text.push_str(&ink.sentence(label, &names.join(", ")));
            }
        }
        text.push_str(&self.score(ink));
        if let Some(names) = self.gauntlet.not_tried(self.untried) {
            text.push_str(&ink.sentence("not tried", &names));
        }
        text
    }

    fn of(&self, outcome: Outcome) -> Vec<String> {
        let all = self.rows.iter().filter(|row| row.outcome() == outcome);
        all.map(|row| {
            let (scenario, fault) = (row.worst.scenario(), fault::of_run(row.worst));
            match row.label {
                Some(label) => format!("{scenario} ({fault}; {})", label.name.in_words()),
                None => format!("{scenario} ({fault})"),
            }
        })
        .collect()
    }
}

fn entry(row: &Row<'_>, quiet: bool, ink: Ink) -> String {
    let outcome = row.outcome();
    let mut said = format!("{} {outcome}", glyph(outcome));
    if row.of > 1 {
        said.push_str(&format!(" {} of {}", row.times, row.of));
    }
    let verdict = ink.paint(role(outcome), format_args!("{said:<VERDICT$}"));
    let (scenario, fault) = (row.worst.scenario(), fault::of_run(row.worst));
    let mut text = format!("{verdict}{scenario:<SCENARIO$}{fault}\n");
    if !quiet {
        let (label, basis) = basis(row.worst.verdict());
        text.push_str(&ink.sentence("judged by", &row.judged_by()));
        text.push_str(&ink.sentence(label, &basis));
        if let Some(label) = row.label {
            text.push_str(&ink.sentence("label", &label.text()));
        }
        let command = ink.paint(Role::Command, row.reproduce());
        text.push_str(&ink.labelled("again", &command));
    }
    text
}

/// Returns what a verdict rests on, in a sentence, and the word for that.
fn basis(verdict: &Verdict) -> (&'static str, String) {
    match verdict.outcome {
        Outcome::Broken | Outcome::Stuck => ("proof", verdict.because.clone()),
        Outcome::Inconclusive => ("missing", verdict.because.clone()),
        Outcome::Held => {
            let witness = verdict.witness.first();
            ("witness", witness.unwrap_or(&verdict.because).clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gauntlet::{Kind, SCENARIOS, left_out, rows};
    use crate::history::History;
    use crate::holds::{Judged, Scenario, Trial};
    use crate::matrix::Run;
    use crate::store::TrialStore;
    use crate::strategy;

    fn gauntlet() -> Gauntlet {
        Gauntlet {
            strategy: strategy::find("safe").unwrap(),
            kind: Kind::of_ours(strategy::find("safe").unwrap().claims),
            limits: Vec::new(),
            store: TrialStore::sqlite(),
            ttl_ms: None,
            seed: 7,
            runs: 1,
            chosen: SCENARIOS.to_vec(),
            cannot_buy: None,
        }
    }

    #[test]
    fn what_was_not_tried_is_named_once_with_its_reason() {
        let plan = gauntlet().plan();
        assert_eq!(
            left_out(&plan.untried),
            "order (not claimed: it does not serve waiters in order); cut, cut-replies, cut-requests, slow-replies, lost-reply, lost-release, store-errors, pause-at-step, failed-renewal, many-leases, dead-connection, vanish (no server: a file is not reached through a connection); failover, restart-empty, restart-behind, server-clock, clock-back, eviction, taken-away, deposed, server-stall, majority-down, leader-deaths (a file has no server that could fail); suspend (whoever shares a file is suspended together)"
        );
        let list = list(&plan, Ink::PLAIN);
        assert_eq!(list.lines().count(), SCENARIOS.len());
        assert!(
            list.contains("  pause            paused between read and write\n"),
            "{list}"
        );
    }

    #[test]
    fn a_scenario_that_showed_nothing_is_not_told_as_held() {
        let gauntlet = gauntlet();
        let trial = Trial::new(Scenario::Pause, gauntlet.strategy, 7);
        let history = History {
            header: trial.header(),
            events: Vec::new(),
        };
        let runs = [Run::Lock(Judged::of(&trial, history))];
        let shown = GauntletView {
            gauntlet: &gauntlet,
            rows: &rows(&runs),
            untried: &[],
            predictions: &[],
            took_ns: 1_500_000_000,
        };
        let text = shown.text(false, Ink::PLAIN);
        let end = "\nINCONCLUSIVE   Nothing broke, and 1 of 1 scenario showed nothing. It took 1.5 s.\n  \
                   unclear   pause (paused between read and write)\n";
        assert!(text.ends_with(end), "{text}");
        assert!(
            text.contains("  again     fencepost trial pause --lock=safe --seed 7\n"),
            "{text}"
        );
        assert!(!text.contains("HELD"), "{text}");
    }
}
