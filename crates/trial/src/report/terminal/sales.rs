//! The terminal report of `oversell --all`: a table of the same sale with every strategy.

use super::verdict::{glyph, role, summary};
use crate::matrix::Summary;
use crate::protocol::PurchaseOutcome;
use crate::sale::Judged;
use crate::sale::Sale;
use crate::sale::remark::remark;
use crate::text::ink::{Ink, Role};
use crate::text::numbers::{count, ms, plural};
use crate::verdict::Outcome;

/// Returns the title with the settings.
pub fn title(sale: &Sale, sales: usize) -> String {
    format!(
        "oversell --all   {}: {}, stock {}, delay {} µs   {}   seed {}\n",
        plural(sales, "race", "races"),
        plural(sale.concurrency, "process", "processes"),
        count(sale.stock.into()),
        count(sale.delay_us as i64),
        sale.store.title(),
        sale.seed
    )
}

/// Returns the table of all strategies in the same sale. `repeated` names those whose sale was run more than once.
pub fn table(runs: &[Judged], repeated: &[&str], quiet: bool, ink: Ink) -> String {
    let columns = Columns::of(runs, ink);
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
    let lines: Vec<Summary> = runs.iter().map(Summary::of_sale).collect();
    text.push_str(&summary(&lines, "", ink));
    if !quiet {
        let limits =
            "HELD means: kept the others out in one race without a fault. More: fencepost run-all";
        text.push_str(&ink.sentence("limits", limits));
    }
    if !repeated.is_empty() {
        let again = format!("{}, which showed nothing at first", repeated.join(", "));
        text.push_str(&ink.sentence("repeated", &again));
    }
    text
}

/// The widths of the columns, fitted to their contents.
struct Columns {
    /// The width of glyph and word; 1 means the glyph alone.
    verdict: usize,
    figures: [usize; 5],
    /// Whether there is room for remarks.
    remarks: bool,
}

/// The width of the longest remark.
const REMARK: usize = 33;

const FIGURES: [&str; 5] = ["sold", "final", "no stock", "busy", "ms"];

impl Columns {
    fn of(runs: &[Judged], ink: Ink) -> Self {
        let widest = |column: usize| {
            let cells = runs.iter().map(|run| figures(run)[column].chars().count());
            cells.max().unwrap_or(0).max(FIGURES[column].len())
        };
        let verdicts = runs
            .iter()
            .map(|run| run.verdict.outcome.to_string().len() + 2);
        let verdict = verdicts.max().unwrap_or(0).max("verdict".len());
        let figures: [usize; 5] = std::array::from_fn(widest);
        let width = 19 + verdict + figures.iter().map(|width| width + 2).sum::<usize>();
        Self {
            verdict: if width <= ink.columns { verdict } else { 1 },
            figures,
            remarks: width + REMARK <= ink.columns,
        }
    }

    fn heading(&self) -> String {
        let width = self.verdict;
        let figures = self.aligned(FIGURES.map(str::to_owned));
        let verdict = if width == 1 { "" } else { "verdict" };
        let remarks = if self.remarks { "  what happened" } else { "" };
        format!("  {:<15}  {verdict:<width$}{figures}{remarks}", "strategy")
    }

    fn row(&self, run: &Judged, ink: Ink) -> String {
        let remark = if self.remarks {
            what_happened(run, ink)
        } else {
            surprise(run, ink).unwrap_or_default()
        };
        let row = format!(
            "  {:<15}  {}{}  {remark}",
            run.sale.strategy.name,
            cell(run.verdict.outcome, self.verdict, ink),
            self.aligned(figures(run)),
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
        facts.sold().to_string(),
        left,
        count(facts.count(PurchaseOutcome::NoStock) as i64),
        count(facts.count(PurchaseOutcome::Busy) as i64),
        ms(run.duration_ns()),
    ]
}

/// Returns the remark on this strategy in this run, in a few words.
fn what_happened(run: &Judged, ink: Ink) -> String {
    let facts = &run.facts;
    let mut words = Vec::new();
    if let Some(missing) = &run.verdict.missing {
        words.push(format!("no {}", missing.what.name().replace('_', " ")));
    } else {
        let remark = remark(run.sale.strategy.remark, facts, run.verdict.outcome);
        words.extend(Some(remark).filter(|remark| !remark.is_empty()));
    }
    if words.is_empty() && facts.unsold() > 0 {
        words.push(format!("{} unsold", count(facts.unsold())));
    }
    words.extend(surprise(run, ink));
    words.join(", ")
}

/// Returns the expected verdict if the actual one differs.
fn surprise(run: &Judged, ink: Ink) -> Option<String> {
    let expected = run.expected().filter(|_| !run.as_expected())?;
    Some(ink.paint(Role::Unsure, format_args!("expected {expected}")))
}

/// Formats glyph and word of a verdict, padded to `width`.
fn cell(outcome: Outcome, width: usize, ink: Ink) -> String {
    let glyph = glyph(outcome);
    if width == 1 {
        return ink.paint(role(outcome), glyph);
    }
    let word = width.saturating_sub(2);
    ink.paint(role(outcome), format_args!("{glyph} {outcome:<word$}"))
}
