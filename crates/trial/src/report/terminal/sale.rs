//! The terminal report of one sale: title, one line per answer, and figures.

use crate::protocol::PurchaseOutcome;
use crate::sale::Judged;
use crate::sale::Sale;
use crate::sale::facts::{Answer, Attempt};
use crate::text::ink::{Ink, Role};
use crate::text::numbers::{count, decimal, duration, ms, plural};

/// The minimum width for three columns of figures; a narrower screen shows one.
const THREE_COLUMNS: usize = 89;

/// Returns the title with the settings.
pub fn title(sale: &Sale) -> String {
    let strategy = sale.strategy;
    let mut set = format!("lock {}", strategy.name);
    if !strategy.gloss.is_empty() {
        set.push_str(&format!(" ({})", strategy.gloss));
    }
    if strategy.lock.is_some() {
        match sale.wait_ms {
            0 => set.push_str("   one attempt each"),
            wait_ms => set.push_str(&format!("   waits up to {} ms", count(wait_ms as i64))),
        }
    }
    let who = plural(sale.concurrency, "process tries", "processes try");
    let at_once = match sale.concurrency {
        1 => "",
        _ => ", all at once",
    };
    format!(
        "oversell   {who} to buy from a stock of {}{at_once}\n  {set}   delay {} µs   store {}   seed {}\n",
        count(sale.stock.into()),
        count(sale.delay_us as i64),
        sale.store.title(),
        sale.seed
    )
}

/// The widths of the columns of answers, which fit the largest number of this sale.
#[derive(Debug, Clone, Copy)]
pub struct Columns {
    who: usize,
    stock: usize,
    waits: bool,
    initial: i64,
    ink: Ink,
}

impl Columns {
    /// Returns the columns for the answers of this sale.
    pub fn of(sale: &Sale, ink: Ink) -> Self {
        let initial = i64::from(sale.stock);
        let widest_stock = format!("{} → {}", count(initial), count(initial - 1));
        Self {
            who: format!("proc_{}", sale.concurrency.saturating_sub(1))
                .len()
                .max("process".len()),
            stock: widest_stock.chars().count().max("stock".len()),
            waits: sale.wait_ms > 0,
            initial,
            ink,
        }
    }

    /// Returns the headings.
    pub fn heading(self) -> String {
        let (who, stock) = (self.who, self.stock);
        let times = if self.waits {
            " waited ms  took ms"
        } else {
            "  took ms"
        };
        let text = format!(
            "{:>11}  {:<who$}  {:<10}  {:<stock$}  {times}",
            "at ms", "process", "outcome", "stock"
        );
        format!("{}\n", self.ink.paint(Role::Label, text.trim_end()))
    }

    /// Returns the line of one answer. `sold` is the number of acknowledged orders, including this one.
    pub fn line(self, attempt: &Attempt, sold: i64) -> String {
        let (who, stock) = (self.who, self.stock);
        let (role, glyph, word) = self.outcome(attempt, sold);
        let took = ms(attempt.answered_ns.saturating_sub(attempt.asked_ns));
        let waited = attempt
            .purchase()
            .map_or(0.0, |purchase| purchase.waited_ms);
        let times = if self.waits {
            format!(" {:>9}  {took:>7}", decimal(waited))
        } else {
            format!("  {took:>7}")
        };
        let outcome = format!("{glyph} {word:<8}");
        let outcome = role.map_or(outcome.clone(), |role| self.ink.paint(role, &outcome));
        let text = format!(
            "{:>11}  {:<who$}  {outcome}  {:<stock$}  {times}   {}",
            ms(attempt.answered_ns),
            attempt.who,
            stock_seen(attempt),
            self.remark(attempt, sold)
        );
        format!("{}\n", text.trim_end())
    }

    fn outcome(self, attempt: &Attempt, sold: i64) -> (Option<Role>, char, &'static str) {
        match attempt.outcome() {
            Some(PurchaseOutcome::Sold) if sold > self.initial => (Some(Role::Bad), '✗', "sold"),
            Some(PurchaseOutcome::Sold) => (Some(Role::Good), '✓', "sold"),
            Some(PurchaseOutcome::NoStock) => (None, '–', "no stock"),
            Some(PurchaseOutcome::Busy) => (None, '–', "busy"),
            Some(PurchaseOutcome::Unknown) => (Some(Role::Unsure), '?', "unknown"),
            None => (Some(Role::Unsure), '–', "failed"),
        }
    }

    fn remark(self, attempt: &Attempt, sold: i64) -> String {
        match &attempt.answer {
            Answer::Failed(message) | Answer::Unknown(message) => message.clone(),
            Answer::Said(purchase) => match purchase.outcome {
                PurchaseOutcome::Sold => {
                    format!("order {} of {}", count(sold), count(self.initial))
                }
                PurchaseOutcome::Busy => "lock taken".into(),
                PurchaseOutcome::NoStock | PurchaseOutcome::Unknown => String::new(),
            },
        }
    }
}

fn stock_seen(attempt: &Attempt) -> String {
    let purchase = attempt.purchase();
    match purchase.map(|purchase| (purchase.before, purchase.after)) {
        Some((Some(before), Some(after))) => format!("{} → {}", count(before), count(after)),
        Some((Some(before), None)) => count(before),
        _ => "–".into(),
    }
}

/// Returns the figures in three columns, or in one on a narrow screen.
pub fn figures(judged: &Judged, ink: Ink) -> String {
    let facts = &judged.facts;
    let left = facts
        .final_reading
        .map_or_else(|| "?".to_owned(), |reading| count(reading.units));
    let (time, unit) = duration(judged.duration_ns());
    let of = |outcome| count(facts.count(outcome) as i64);
    let attempts = [
        ("total attempts", count(facts.attempts.len() as i64), ""),
        ("successful", facts.sold().to_string(), ""),
        ("failed (stock)", of(PurchaseOutcome::NoStock), ""),
        ("failed (lock)", of(PurchaseOutcome::Busy), ""),
    ];
    let stocks = [
        ("initial stock", count(facts.initial), ""),
        ("final stock", left, ""),
        ("expected stock", count(facts.expected_stock()), ""),
        ("initial − sold", facts.left_by_orders().to_string(), ""),
    ];
    let others = [
        ("total duration", time, unit),
        (
            "contention rate",
            decimal(facts.contention_rate() * 100.0),
            "%",
        ),
        ("sold beyond stock", facts.sold_beyond().to_string(), ""),
        (
            "unsold / buyers refused",
            format!(
                "{} / {}",
                count(facts.unsold()),
                count(facts.refused() as i64)
            ),
            "",
        ),
    ];
    let mut text = String::new();
    if ink.columns < THREE_COLUMNS {
        for (label, value, unit) in attempts.iter().chain(&stocks).chain(&others) {
            text.push_str(&row(&[(label, value, unit, 30)], ink));
        }
        return text;
    }
    for ((a, b), c) in attempts.iter().zip(&stocks).zip(&others) {
        text.push_str(&row(
            &[
                (a.0, &a.1, a.2, 22),
                (b.0, &b.1, b.2, 22),
                (c.0, &c.1, c.2, 30),
            ],
            ink,
        ));
    }
    text
}

/// Formats a row: labels left-aligned, numbers right-aligned, followed by the units.
fn row(cells: &[(&str, &str, &str, usize)], ink: Ink) -> String {
    let cell = |(label, value, unit, width): &(&str, &str, &str, usize)| {
        let gap = width.saturating_sub(label.chars().count());
        let text = format!("{}{value:>gap$}", ink.paint(Role::Label, label));
        if unit.is_empty() {
            text
        } else {
            format!("{text} {}", ink.paint(Role::Label, unit))
        }
    };
    let cells: Vec<String> = cells.iter().map(cell).collect();
    format!("  {}\n", cells.join("     "))
}
