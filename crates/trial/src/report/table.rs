//! Several races side by side: `--all` as a table, `run-all` as a matrix.

use super::Judged;
use super::grounds::role;
use super::ink::{Ink, Role};
use super::numbers::{amount, count, decimal, duration, ms, plural};
use crate::ground::Place;
use crate::matrix::{COLUMNS, Cell};
use crate::protocol::Outcome as Answered;
use crate::sale::Sale;
use crate::strategy::{self, Strategy};
use crate::verdict::Outcome;

/// The title of `--all`.
pub fn all_title(sale: &Sale, races: usize) -> String {
    format!(
        "oversell --all   {}: {}, stock {}, delay {} µs   {}   seed {}\n",
        plural(races, "race", "races"),
        plural(sale.concurrency, "process", "processes"),
        count(sale.stock.into()),
        count(sale.delay_us as i64),
        sale.place.title(),
        sale.seed
    )
}

/// Every strategy in the same race.
pub fn all(runs: &[Judged], quiet: bool, ink: Ink) -> String {
    let columns = AllColumns::of(runs);
    let mut text = format!("{}\n", ink.paint(Role::Label, columns.heading()));
    let mut group = None;
    for run in runs {
        let strategy = run.sale.strategy;
        if group.replace(strategy.group) != Some(strategy.group) {
            text.push_str(&format!(
                "  {}\n",
                ink.paint(Role::Label, strategy.group.heading())
            ));
        }
        text.push_str(&columns.row(run, ink));
    }
    text.push('\n');
    text.push_str(&summary(runs, "", ink));
    if !quiet {
        let limits =
            "HELD means: kept the others out in one race without a fault. More: fencepost run-all";
        text.push_str(&ink.labelled("limits", limits));
    }
    text
}

/// The strategies that do not exist at the place of these races.
pub fn not_here(strategies: &[&Strategy], ink: Ink) -> String {
    if strategies.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = strategies.iter().map(|strategy| strategy.name).collect();
    let names = names.join(", ");
    ink.labelled("skipped", &format!("{names}: not available on redis yet"))
}

/// The columns of `--all`: as wide as what stands in them.
struct AllColumns {
    verdict: usize,
    figures: [usize; 5],
}

const FIGURES: [&str; 5] = ["sold", "final", "no stock", "busy", "ms"];

impl AllColumns {
    fn of(runs: &[Judged]) -> Self {
        let widest = |column: usize| {
            let cells = runs.iter().map(|run| figures(run)[column].chars().count());
            cells.max().unwrap_or(0).max(FIGURES[column].len())
        };
        let verdicts = runs
            .iter()
            .map(|run| run.verdict.outcome.to_string().len() + 2);
        Self {
            verdict: verdicts.max().unwrap_or(0).max("verdict".len()),
            figures: std::array::from_fn(widest),
        }
    }

    fn heading(&self) -> String {
        let width = self.verdict;
        let figures = self.aligned(FIGURES.map(str::to_owned));
        format!(
            "  {:<15}  {:<width$}{figures}  what happened",
            "strategy", "verdict"
        )
    }

    fn row(&self, run: &Judged, ink: Ink) -> String {
        let row = format!(
            "  {:<15}  {}{}  {}",
            run.sale.strategy.name,
            cell(run.verdict.outcome, self.verdict, ink),
            self.aligned(figures(run)),
            what_happened(run, ink)
        );
        format!("{}\n", row.trim_end())
    }

    fn aligned(&self, cells: [String; 5]) -> String {
        let cells = cells.iter().zip(self.figures);
        cells
            .map(|(text, width)| format!("  {text:>width$}"))
            .collect()
    }
}

fn figures(run: &Judged) -> [String; 5] {
    let facts = &run.facts;
    let left = facts
        .final_reading
        .map_or_else(|| "?".to_owned(), |reading| count(reading.units));
    [
        amount(facts.sold()),
        left,
        count(facts.count(Answered::NoStock) as i64),
        count(facts.count(Answered::Busy) as i64),
        ms(run.duration_ns()),
    ]
}

/// What is worth saying of this strategy in this run, in a few words.
fn what_happened(run: &Judged, ink: Ink) -> String {
    let facts = &run.facts;
    let mut words = Vec::new();
    if let Some(missing) = &run.verdict.missing {
        words.push(format!("no {}", missing.what.replace('_', " ")));
    } else {
        let remark = (run.sale.strategy.remark)(facts, run.verdict.outcome);
        words.extend(Some(remark).filter(|remark| !remark.is_empty()));
    }
    if words.is_empty() && facts.unsold() > 0 {
        words.push(format!("{} unsold", count(facts.unsold())));
    }
    if let Some(expected) = run.expected().filter(|_| !run.as_expected()) {
        words.push(ink.paint(Role::Unsure, format_args!("expected {expected}")));
    }
    words.join(", ")
}

/// Glyph and word of a verdict, in a field of its own.
fn cell(outcome: Outcome, width: usize, ink: Ink) -> String {
    let glyph = match outcome {
        Outcome::Held => '✓',
        Outcome::Broken => '✗',
        Outcome::Stuck => '■',
        Outcome::Inconclusive => '?',
    };
    let word = width.saturating_sub(2);
    ink.paint(role(outcome), format_args!("{glyph} {outcome:<word$}"))
}

/// How many are as expected, and each surprise with the command that runs it again.
fn summary(runs: &[Judged], took: &str, ink: Ink) -> String {
    let expected = runs.iter().filter(|run| run.as_expected()).count();
    let outcomes = [
        Outcome::Held,
        Outcome::Broken,
        Outcome::Stuck,
        Outcome::Inconclusive,
    ];
    let number = |outcome| {
        runs.iter()
            .filter(|run| run.verdict.outcome == outcome)
            .count()
    };
    let counts = outcomes.map(|outcome| (number(outcome), outcome));
    let counts: Vec<String> = counts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, outcome)| format!("{number} {outcome}"))
        .collect();
    let mut text = format!(
        "{expected} of {} as expected   {}{took}\n",
        runs.len(),
        counts.join(", ")
    );
    for run in runs.iter().filter(|run| !run.as_expected()) {
        let command = ink.paint(Role::Command, run.reproduce());
        text.push_str(&ink.labelled("surprise", &format!("{}: {command}", run.verdict.outcome)));
    }
    text
}

/// The title of `run-all`.
pub fn matrix_title(place: &Place, seed: u64) -> String {
    format!(
        "run-all   {}, {}   {}   seed {seed}\n",
        plural(strategy::ALL.len(), "strategy", "strategies"),
        plural(COLUMNS.len(), "scenario", "scenarios"),
        place.title(),
    )
}

/// Strategies × scenarios, a verdict in each cell.
pub fn matrix(cells: &[Cell], runs: &[Judged], took_ns: u64, quiet: bool, ink: Ink) -> String {
    let heads: Vec<String> = COLUMNS
        .iter()
        .enumerate()
        .map(|(index, column)| format!("{:<14}", format!("{} {}", index + 1, column.name)))
        .collect();
    let heading = format!("  {:<15}  {}", "strategy", heads.join("  "));
    let mut text = format!("{}\n", ink.paint(Role::Label, heading.trim_end()));
    for strategy in strategy::ALL {
        let verdicts = (0..COLUMNS.len()).map(|column| {
            let at = cells
                .iter()
                .position(|cell| cell.column == column && cell.sale.strategy.name == strategy.name);
            match at.and_then(|at| runs.get(at)) {
                Some(run) => cell(run.verdict.outcome, 14, ink),
                None => ink.paint(Role::Label, format_args!("{:<14}", "–")),
            }
        });
        let row = format!(
            "  {:<15}  {}",
            strategy.name,
            verdicts.collect::<Vec<_>>().join("  ")
        );
        text.push_str(&format!("{}\n", row.trim_end()));
    }
    if !quiet {
        text.push_str(&legend(ink));
    }
    let (time, unit) = duration(took_ns);
    text.push('\n');
    text.push_str(&summary(runs, &format!("   in {time} {unit}"), ink));
    text
}

fn legend(ink: Ink) -> String {
    let columns = COLUMNS
        .iter()
        .enumerate()
        .map(|(index, column)| format!("{} {}", index + 1, column.command));
    let columns = columns.collect::<Vec<_>>().join("   ");
    let dash = "  – does not apply: only locks without a known flaw are queued for\n";
    format!(
        "\n{}",
        ink.paint(Role::Label, format_args!("{dash}  {columns}")) + "\n"
    )
}

/// How to run a cell of the matrix again.
pub fn again(seed: u64, ink: Ink) -> String {
    let example = ink.paint(
        Role::Command,
        format_args!("fencepost oversell --lock=none --seed {seed}"),
    );
    ink.labelled(
        "again",
        &format!("fencepost COLUMN --lock=ROW --seed {seed}"),
    ) + &ink.labelled("", &format!("as in: {example}"))
}

/// A finished trial on a line of its own, for a log.
pub fn progress(index: usize, total: usize, run: &Judged, took_ns: u64) -> String {
    let expected = match (run.as_expected(), run.expected()) {
        (false, Some(expected)) => format!("expected {expected}"),
        _ => "as expected".into(),
    };
    let wait = if run.sale.wait_ms > 0 { " --wait" } else { "" };
    format!(
        "[{index}/{total}]  {}{wait}  {}  {}  {expected}  {} s\n",
        run.header.scenario,
        run.header.strategy,
        run.verdict.outcome,
        decimal(took_ns as f64 / 1e9)
    )
}
