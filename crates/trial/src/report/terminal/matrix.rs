//! The terminal report of `run-all`: the matrix, its legend, and the commands that repeat a cell.

use super::verdict::{counts, glyph, role, summary};
use crate::any_scenario::AnyScenario;
use crate::holds::Scenario;
use crate::matrix::{COLUMNS, Cell, DEFAULT_TIMES, Run, Summary};
use crate::retry::{Judged, Round};
use crate::store::TrialStore;
use crate::strategy::{self, Strategy};
use crate::text::ink::{Ink, Role};
use crate::text::numbers::{decimal, ms, plural};
use crate::verdict::Outcome;

/// A narrower screen shows glyphs without words.
const WORDS_FROM: usize = 80;
/// A narrower screen has no room for the column names.
const NAMES_FROM: usize = 97;

/// Returns the title.
pub fn title(store: &TrialStore, seed: u64) -> String {
    format!(
        "run-all   {}, {} and the retry schedules   {}   seed {seed}\n",
        plural(strategy::at(store).count(), "strategy", "strategies"),
        plural(COLUMNS.len(), "scenario", "scenarios"),
        store.title(),
    )
}

/// The results of `run-all` to be shown.
#[derive(Debug, Clone, Copy)]
pub struct MatrixView<'a> {
    /// The cells that were run.
    pub cells: &'a [Cell],
    /// The result of each cell.
    pub runs: &'a [Run],
    /// The total duration.
    pub took_ns: u64,
    /// Suggested stores to try next, each with the command. May be empty.
    pub elsewhere: &'a [(&'static str, String)],
    /// The store that was used.
    pub store: &'a TrialStore,
    /// The random seed.
    pub seed: u64,
}

impl MatrixView<'_> {
    /// Returns the text that stays on the screen, except for the list of files.
    pub fn text(&self, quiet: bool, ink: Ink) -> String {
        let mut text = self.matrix(ink);
        if !quiet {
            text.push('\n');
            text.push_str(&self.legend(ink));
        }
        let took = format!("   in {} s", decimal(self.took_ns as f64 / 1e9));
        let lines: Vec<Summary> = self.runs.iter().flat_map(Run::summaries).collect();
        text.push('\n');
        text.push_str(&summary(&lines, &took, ink));
        if !quiet {
            text.push_str(&self.again(ink));
        }
        text
    }

    fn matrix(&self, ink: Ink) -> String {
        let layout = Layout::of(ink.columns);
        let heads = COLUMNS.iter().enumerate().map(|(index, column)| {
            let number = index + 1;
            if layout.names {
                format!("{number} {}", heading(*column))
            } else {
                number.to_string()
            }
        });
        let heading = layout.row("strategy", heads.map(|head| (None, head)), ink);
        let mut text = ink.paint(Role::Label, heading.trim_end()) + "\n";
        for strategy in strategy::at(self.store) {
            let verdicts = (0..COLUMNS.len()).map(|column| self.verdict(strategy, column, layout));
            text.push_str(layout.row(strategy.name, verdicts, ink).trim_end());
            text.push('\n');
        }
        text
    }

    fn verdict(
        &self,
        strategy: &Strategy,
        column: usize,
        layout: Layout,
    ) -> (Option<Role>, String) {
        let at = self
            .cells
            .iter()
            .position(|cell| cell.is_at(strategy, column));
        let Some(run) = at.and_then(|at| self.runs.get(at)) else {
            return (Some(Role::Label), "–".into());
        };
        let outcome = run.verdict().outcome;
        let word = match outcome {
            _ if !layout.words => String::new(),
            Outcome::Inconclusive => " INCON.".into(),
            outcome => format!(" {outcome}"),
        };
        let mark = match (run.as_expected(), run.is_refused_overlap()) {
            (false, _) => "!",
            (true, true) => "*",
            (true, false) => "",
        };
        let gap = if word.is_empty() || mark.is_empty() {
            ""
        } else {
            " "
        };
        let text = format!("{}{word}{gap}{mark}", glyph(outcome));
        (Some(role(outcome)), text)
    }

    fn legend(&self, ink: Ink) -> String {
        let mut notes = Vec::new();
        if self.runs.iter().any(Run::is_refused_overlap) {
            notes.push("* two believed they held it; the resource refused the late one");
        }
        notes.push("– does not apply");
        if !self.runs.iter().all(Run::as_expected) {
            notes.push("! not as expected");
        }
        if ink.columns < WORDS_FROM {
            notes.push("✓ HELD   ✗ BROKEN   ■ STUCK   ? INCONCLUSIVE");
        }
        let commands = COLUMNS.iter().enumerate();
        let commands =
            commands.map(|(index, column)| format!("{} {}", index + 1, column.command(self.store)));
        let notes = notes.into_iter().map(str::to_owned).collect();
        let mut lines = packed(notes, "      ", ink.columns);
        lines.extend(packed(commands.collect(), "   ", ink.columns));
        let mut text = String::new();
        for line in lines {
            text.push_str(&ink.paint(Role::Label, format_args!("  {line}")));
            text.push('\n');
        }
        for run in self.runs {
            if let Run::Retry(judged) = run {
                text.push_str(&ink.sentence("retry", &ways(judged, &run.summaries())));
            }
        }
        for (store, how) in self.elsewhere {
            text.push_str(&ink.sentence(store, how));
        }
        text
    }

    fn again(&self, ink: Ink) -> String {
        let mut end = format!("--seed {}", self.seed);
        if *self.store != TrialStore::sqlite() {
            end.push_str(&format!(" --store {}", self.store.typed()));
        }
        let is_there = |name: &&str| strategy::at(self.store).any(|there| there.name == *name);
        let row = ["naive", "safe"].into_iter().find(is_there);
        let row = row.unwrap_or_default();
        let example = ink.paint(
            Role::Command,
            format_args!("fencepost crash --lock={row} {end}"),
        );
        let how = format!("fencepost COLUMN --lock=ROW {end}");
        let rows: Vec<&str> = DEFAULT_TIMES
            .into_iter()
            .filter(|row| is_there(row))
            .collect();
        let rows = rows.join(", ");
        let short = 12 + 2 * (how.len() + 4) <= ink.columns;
        let first = if short {
            ink.labelled("again", &format!("{how}, as in: {example}"))
        } else {
            ink.labelled("again", &how) + &ink.labelled("", &format!("as in: {example}"))
        };
        let times = format!(
            "rows {rows} ran with the default times, except in ttl-edge: leave --delay and --ttl out"
        );
        first + &ink.sentence("", &times)
    }
}

/// Describes the ways of waiting in a sentence, fastest first. If a way did not sell everything, its time is not comparable,
/// and the text says so.
fn ways(judged: &Judged, lines: &[Summary]) -> String {
    let could_sell = judged.comparison.concurrency;
    let could_sell = could_sell.min(judged.comparison.stock as usize);
    let mut rounds: Vec<&Round> = judged.rounds.iter().collect();
    rounds.sort_by_key(|round| round.figures.duration_ns);
    let times = rounds.iter().map(|round| {
        let (way, took) = (round.retry.pauses.short(), ms(round.figures.duration_ns));
        match round.figures.successes {
            sold if sold < could_sell => {
                format!("{way} sold {sold} of {could_sell} in {took} ms")
            }
            _ => format!("{way} {took} ms"),
        }
    });
    let times = times.collect::<Vec<_>>().join(", ");
    format!("{}: {times}", counts(lines, " × "))
}

/// Returns the name of a column, shortened where a full name does not fit above a verdict.
fn heading(column: AnyScenario) -> &'static str {
    match column {
        AnyScenario::Lock(Scenario::DeadlockSorted) => "sorted",
        AnyScenario::Lock(Scenario::StaleRelease) => "stale",
        AnyScenario::Lock(Scenario::ShortStock) => "short",
        _ => column.name(),
    }
}

/// Packs as many parts on a line as fit.
fn packed(parts: Vec<String>, between: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line)
                if 2 + line.chars().count() + between.len() + part.chars().count() <= columns =>
            {
                line.push_str(between);
                line.push_str(&part);
            }
            _ => lines.push(part),
        }
    }
    lines
}

/// The widths of the columns.
#[derive(Debug, Clone, Copy)]
struct Layout {
    name: usize,
    cell: usize,
    names: bool,
    words: bool,
}

impl Layout {
    fn of(columns: usize) -> Self {
        let (name, cell) = match columns {
            ..WORDS_FROM => (17, 3),
            WORDS_FROM..NAMES_FROM => (16, 9),
            _ => (17, 11),
        };
        Self {
            name,
            cell,
            names: columns >= NAMES_FROM,
            words: columns >= WORDS_FROM,
        }
    }

    fn row(
        self,
        name: &str,
        cells: impl Iterator<Item = (Option<Role>, String)>,
        ink: Ink,
    ) -> String {
        let width = self.name;
        let mut row = format!("  {name:<width$}");
        for (role, text) in cells {
            let room = self.cell.saturating_sub(text.chars().count());
            match role {
                Some(role) => row.push_str(&ink.paint(role, &text)),
                None => row.push_str(&text),
            }
            row.push_str(&" ".repeat(room));
        }
        row
    }
}

/// Returns one line about a verdict, for a log.
pub fn progress(index: usize, total: usize, line: &Summary, took_ns: u64) -> String {
    let expected = match (line.as_expected(), line.expected) {
        (true, _) => "  as expected".into(),
        (false, Some(expected)) => format!("  expected {expected}"),
        (false, None) => String::new(),
    };
    format!(
        "[{index}/{total}]  {}  {}  {}{expected}  {} s\n",
        line.scenario,
        line.strategy,
        line.outcome,
        decimal(line.took_ns.unwrap_or(took_ns) as f64 / 1e9)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_is_the_scenario_or_a_word_of_it_and_fits() {
        let layout = Layout::of(NAMES_FROM);
        for column in &COLUMNS {
            let (name, heading) = (column.name(), heading(*column));
            assert!(name.split('-').any(|word| word == heading) || name == heading);
            assert!("1 ".len() + heading.len() < layout.cell, "{heading}");
        }
    }
}
