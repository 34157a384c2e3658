//! The terminal report of `gauntlet --ladder`: a table with one row per scenario and one column per lock.

use super::gauntlet::settings;
use super::verdict::{glyph, headline, role};
use crate::gauntlet::Gauntlet;
use crate::gauntlet::ladder::{Rung, command, first_to_hold, scenarios};
use crate::text::ink::{Ink, Role};
use crate::text::numbers::decimal;
use crate::verdict::Outcome;

/// The width of the first column.
const SCENARIO: usize = 19;

/// Returns the title with the settings.
pub fn title(on_trial: &Gauntlet) -> String {
    format!(
        "ladder   the same faults, from the simplest lock to the lock on trial\n{}",
        settings(on_trial)
    )
}

/// Returns the table, what helps against each fault, and the verdict on the lock on trial, which is the last one.
pub fn text(rungs: &[Rung<'_>], took_ns: u64, quiet: bool, ink: Ink) -> String {
    let widths = widths(rungs, ink);
    let mut text = heading(rungs, &widths, ink);
    let scenarios = scenarios(rungs);
    for scenario in &scenarios {
        text.push_str(&row(rungs, scenario, &widths, ink));
    }
    text.push('\n');
    let Some(on_trial) = rungs.last() else {
        return text;
    };
    let verdict = on_trial.gauntlet.verdict(&on_trial.rows, on_trial.untried);
    let took = decimal(took_ns as f64 / 1e9);
    let because = format!("{} It took {took} s.", verdict.because);
    text.push_str(&headline(verdict.outcome, &because, ink));
    if !quiet {
        let helps = scenarios.iter().filter_map(|scenario| {
            let first = first_to_hold(rungs, scenario)?;
            Some(format!("{scenario}: {first}"))
        });
        let helps: Vec<String> = helps.collect();
        if !helps.is_empty() {
            let helps = format!("the first to hold where another fell: {}", helps.join("; "));
            text.push_str(&ink.sentence("helps", &helps));
        }
        let command = ink.paint(Role::Command, command(on_trial.gauntlet));
        text.push_str(&ink.labelled("again", &command));
    }
    text
}

/// Returns the width of each lock's column: its name, or its longest verdict. If that is too wide for the screen, verdicts are glyphs
/// alone.
fn widths(rungs: &[Rung<'_>], ink: Ink) -> Vec<usize> {
    let longest = |rung: &Rung<'_>, of: fn(Outcome) -> String| {
        let said = rung
            .rows
            .iter()
            .map(|row| of(row.outcome()).chars().count());
        let name = rung.gauntlet.strategy.name.chars().count();
        said.max().unwrap_or(1).max(name) + 2
    };
    let all = |of: fn(Outcome) -> String| -> Vec<usize> {
        rungs.iter().map(|rung| longest(rung, of)).collect()
    };
    let wide = all(said);
    if SCENARIO + wide.iter().sum::<usize>() <= ink.columns {
        wide
    } else {
        all(|outcome| glyph(outcome).to_string())
    }
}

fn said(outcome: Outcome) -> String {
    format!("{} {outcome}", glyph(outcome))
}

fn heading(rungs: &[Rung<'_>], widths: &[usize], ink: Ink) -> String {
    let mut line = format!("  {:<width$}", "scenario", width = SCENARIO - 2);
    for (rung, width) in rungs.iter().zip(widths) {
        line.push_str(&format!("{:<width$}", rung.gauntlet.strategy.name));
    }
    format!("{}\n", ink.paint(Role::Label, line.trim_end()))
}

fn row(rungs: &[Rung<'_>], scenario: &str, widths: &[usize], ink: Ink) -> String {
    let mut line = format!("  {scenario:<width$}", width = SCENARIO - 2);
    for (rung, &width) in rungs.iter().zip(widths) {
        let Some(outcome) = rung.outcome(scenario) else {
            line.push_str(&format!("{:<width$}", "–"));
            continue;
        };
        let mut cell = said(outcome);
        if cell.chars().count() + 2 > width {
            cell = glyph(outcome).to_string();
        }
        line.push_str(&ink.paint(role(outcome), format_args!("{cell:<width$}")));
    }
    format!("{}\n", line.trim_end())
}
