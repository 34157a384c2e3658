//! The terminal report of a comparison of ways of waiting: title, table, bars and legend.

use crate::protocol::{Pauses, PurchaseOutcome};
use crate::retry::{Comparison, Judged, Round, budget_in_words};
use crate::sale::Sale;
use crate::sale::facts::{Answer, Attempt};
use crate::text::ink::{Ink, Role};
use crate::text::numbers::{count, decimal, duration, ms, plural};

/// The columns of a full table with their widths. A narrow screen drops columns from the right.
const COLUMNS: [(&str, usize); 7] = [
    ("schedule", 29),
    ("duration", 12),
    ("successes", 11),
    ("avg retries", 13),
    ("fairness σ", 13),
    ("lock ops", 10),
    ("idle", 8),
];
const MARGIN: usize = 2;
/// The length of the longest bar, and the widths of what precedes and follows it.
const BAR: usize = 48;
const BAR_LABEL: usize = 14;
const BAR_NUMBER: usize = 13;
const LEGEND_LABEL: usize = 13;

/// Returns the title with the settings.
pub fn title(comparison: &Comparison) -> String {
    let who = plural(comparison.concurrency, "process wants", "processes want");
    let mut set = format!(
        "lock {}   TTL {} ms   at most {} within {}",
        comparison.strategy.name,
        count(comparison.ttl_ms as i64),
        plural(comparison.max_retries as usize, "retry", "retries"),
        budget_in_words(comparison.budget_ms),
    );
    if comparison.delay_us != Sale::DELAY_US {
        set.push_str(&format!(
            "   delay {} µs",
            count(comparison.delay_us as i64)
        ));
    }
    format!(
        "retry   {who} one lock, stock {}: what does each way of waiting cost?\n  \
         {set}   store {}   seed {}\n",
        count(comparison.stock.into()),
        comparison.store.title(),
        comparison.seed
    )
}

/// Returns the table, one line per way of waiting.
pub fn table(judged: &Judged, ink: Ink) -> String {
    let shown = shown_columns(ink);
    let heading = line(COLUMNS.map(|(name, _)| name.to_owned()), shown, ink);
    let mut text = format!("{}\n", ink.paint(Role::Label, heading));
    for round in &judged.rounds {
        text.push_str(&line(cells(round), shown, ink));
        text.push('\n');
    }
    for pauses in Pauses::ALL {
        if !judged
            .rounds
            .iter()
            .any(|round| round.retry.pauses == pauses)
        {
            text.push_str(&format!("  – {}\n", left_out(&judged.comparison, pauses)));
        }
    }
    text
}

/// Returns the reason why a way of waiting is left out.
fn left_out(comparison: &Comparison, pauses: Pauses) -> String {
    if comparison.ways().contains(&pauses) {
        format!("{}: no such round in this history", pauses.name())
    } else {
        format!("{} has no {}", comparison.strategy.name, pauses.name())
    }
}

/// Returns how many columns fit.
fn shown_columns(ink: Ink) -> usize {
    let width = |columns: usize| MARGIN + COLUMNS[..columns].iter().map(|c| c.1).sum::<usize>();
    let fits = |columns: &usize| width(*columns) <= ink.columns;
    (3..=COLUMNS.len()).rev().find(fits).unwrap_or(3)
}

fn cells(round: &Round) -> [String; 7] {
    let figures = &round.figures;
    [
        round.retry.pauses.name(),
        time(figures.duration_ns),
        round.facts.sold().to_string(),
        decimal(figures.average_retries),
        time(figures.sigma_ns as u64),
        count(figures.lock_ops as i64),
        format!("{} %", decimal(figures.idle * 100.0)),
    ]
}

fn time(ns: u64) -> String {
    let (number, unit) = duration(ns);
    format!("{number} {unit}")
}

/// Joins the cells, the first column left-aligned and the others right-aligned.
fn line(cells: [String; 7], shown: usize, ink: Ink) -> String {
    let mut text = " ".repeat(MARGIN);
    for (index, (cell, (_, width))) in cells.iter().zip(COLUMNS).take(shown).enumerate() {
        // Glyphs are replaced before padding, because some of them are wider without Unicode.
        let cell = ink.glyphs(cell);
        text.push_str(&match index {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
    }
    text
}

/// Returns a bar for each duration, and the meaning of the columns.
pub fn bars_and_legend(judged: &Judged, ink: Ink) -> String {
    let rounds = &judged.rounds;
    let longest = rounds.iter().map(|round| round.figures.duration_ns).max();
    let longest = longest.unwrap_or(0).max(1);
    let width = BAR.min(ink.columns.saturating_sub(MARGIN + BAR_LABEL + BAR_NUMBER));
    let mut text = String::new();
    for round in rounds {
        let share = round.figures.duration_ns as f64 / longest as f64;
        let label = format!("{:<BAR_LABEL$}", round.retry.pauses.short());
        text.push_str(&format!(
            "  {}{:<width$}{:>BAR_NUMBER$}\n",
            ink.paint(Role::Label, label),
            bar(share, width, ink),
            time(round.figures.duration_ns)
        ));
    }
    text.push_str(&legend(&judged.comparison, ink));
    text
}

/// Draws a bar in eighths of a column. A nonzero share gets at least one eighth.
fn bar(share: f64, width: usize, ink: Ink) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = ((share * width as f64 * 8.0).round() as usize).max(1);
    if ink.ascii {
        return "#".repeat(eighths.div_ceil(8));
    }
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

fn legend(comparison: &Comparison, ink: Ink) -> String {
    let all = count(comparison.concurrency as i64);
    let least = count(2 * comparison.concurrency as i64);
    let lines = [
        ("bars", 0, format!("duration until all {all} had an answer")),
        (
            "fairness σ",
            5,
            "spread of the finishing times; lower = all wait alike".into(),
        ),
        (
            "lock ops",
            6,
            format!("requests of the lock to the store; the least possible is {least}"),
        ),
        (
            "idle",
            7,
            "time the lock lay free although somebody wanted it; an estimate".into(),
        ),
    ];
    let shown = shown_columns(ink);
    let lines = lines.iter().filter(|(_, column, _)| *column <= shown);
    let lines = lines.map(|(label, _, meaning)| {
        let label = format!("{:<LEGEND_LABEL$}", ink.glyphs(label));
        format!("  {}{meaning}\n", ink.paint(Role::Label, label))
    });
    lines.collect()
}

/// Returns one line per attempt of every round.
pub fn attempts(judged: &Judged, ink: Ink) -> String {
    let mut text = String::new();
    for round in &judged.rounds {
        let heading = format!(
            "  {}\n{:>11}  {:<8}  {:<10}  {:>9}  {:>9}",
            round.retry.pauses.name(),
            "at ms",
            "process",
            "outcome",
            "retries",
            "took ms"
        );
        text.push_str(&format!("{}\n", ink.paint(Role::Label, heading)));
        for attempt in &round.facts.attempts {
            text.push_str(&attempt_line(attempt, round, ink));
        }
    }
    text
}

fn attempt_line(attempt: &Attempt, round: &Round, ink: Ink) -> String {
    let (role, outcome) = match attempt.outcome() {
        Some(PurchaseOutcome::Sold) => (Some(Role::Good), "✓ sold"),
        Some(PurchaseOutcome::NoStock) => (None, "– no stock"),
        Some(PurchaseOutcome::Busy) => (None, "– gave up"),
        Some(PurchaseOutcome::Unknown) => (Some(Role::Unsure), "? unknown"),
        None => (Some(Role::Unsure), "– failed"),
    };
    let outcome = format!("{outcome:<10}");
    let outcome = role.map_or(outcome.clone(), |role| ink.paint(role, &outcome));
    let effort = attempt.purchase().and_then(|purchase| purchase.effort);
    let retries = effort.map_or_else(|| "–".to_owned(), |e| count(e.retries.into()));
    let remark = match &attempt.answer {
        Answer::Failed(message) | Answer::Unknown(message) => format!("   {message}"),
        Answer::Said(_) => String::new(),
    };
    format!(
        "{:>11}  {:<8}  {outcome}  {retries:>9}  {:>9}{remark}\n",
        ms(attempt.answered_ns.saturating_sub(round.started_ns)),
        attempt.who,
        ms(attempt.answered_ns.saturating_sub(attempt.asked_ns)),
    )
}
