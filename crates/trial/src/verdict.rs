//! The verdict over a run: what was decided, and the evidence for it.
//!
//! A verdict speaks of this run. `BROKEN` needs events that prove it; `HELD` needs a witness that the danger really
//! arose. Without one, the run shows nothing, and says so.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::check::{Checked, Checks, Finding};
use crate::facts::Facts;
use crate::history::Header;
use crate::protocol::Outcome as Answered;
use crate::report::numbers::{amount, count, plural};
use crate::strategy::Claim;

mod proof;
mod remarks;

pub use proof::{Evidence, Place};

use proof::proof;

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Outcome {
    /// Nothing broke, although it could have.
    Held,
    /// A promise was broken.
    Broken,
    /// Somebody waits for ever.
    Stuck,
    /// Nothing broke, and nothing was tested.
    Inconclusive,
}

impl Outcome {
    /// The exit code of a command that judges one lock.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Held => 0,
            Self::Broken => 1,
            Self::Inconclusive => 2,
            Self::Stuck => 3,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Held => "HELD",
            Self::Broken => "BROKEN",
            Self::Stuck => "STUCK",
            Self::Inconclusive => "INCONCLUSIVE",
        })
    }
}

/// What an inconclusive run lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// In a word, for programs.
    pub what: &'static str,
    /// What it is and how to get it, for people.
    pub advice: &'static str,
}

/// One of the two axes of a lock trial: what holders believed, and what became of the resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// In a word or two, for programs.
    pub code: String,
    /// In a sentence, for people, where there is something to tell.
    pub text: Option<String>,
}

impl Axis {
    /// With nothing to tell.
    pub fn bare(code: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            text: None,
        }
    }
}

/// A command that can be pasted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// The command.
    pub command: String,
    /// What it shows.
    pub remark: &'static str,
}

/// The decision and its grounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// What was decided.
    pub outcome: Outcome,
    /// Why, in a sentence or two.
    pub because: String,
    /// Figures that answer the question of the trial.
    pub measured: Vec<String>,
    /// For `BROKEN` and `STUCK`: the two or three events that prove it.
    pub evidence: Vec<Evidence>,
    /// For `HELD`: what shows that the danger arose.
    pub witness: Vec<String>,
    /// For `INCONCLUSIVE`: what is lacking.
    pub missing: Option<Missing>,
    /// Whether two believed that they held the lock.
    pub belief: Axis,
    /// Whether the resource suffered.
    pub damage: Axis,
    /// What each check found.
    pub checks: Vec<Checked>,
    /// What the figures of this run support.
    pub found: Vec<String>,
    /// What led to it, in a sentence.
    pub why: Option<String>,
    /// For `HELD`: what this run does not show.
    pub limits: Option<String>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
    /// Up to three commands that lead on.
    pub next: Vec<Next>,
}

impl Verdict {
    /// A verdict with no more grounds than its sentence.
    pub fn bare(outcome: Outcome, because: impl Into<String>) -> Self {
        Self {
            outcome,
            because: because.into(),
            measured: Vec::new(),
            evidence: Vec::new(),
            witness: Vec::new(),
            missing: None,
            belief: Axis::bare("n/a"),
            damage: Axis::bare("none"),
            checks: Vec::new(),
            found: Vec::new(),
            why: None,
            limits: None,
            notes: Vec::new(),
            next: Vec::new(),
        }
    }
}

/// Judges a sale.
pub fn judge(header: &Header, facts: &Facts) -> Verdict {
    let checks = facts.checks();
    let broken = [checks.no_oversell, checks.no_lost_update].contains(&Finding::Violated);
    let mut verdict = if broken {
        Verdict {
            evidence: proof(facts),
            ..Verdict::bare(Outcome::Broken, accusation(facts))
        }
    } else if let Some((because, missing)) = gap(header, facts, checks) {
        Verdict {
            missing: Some(missing),
            ..Verdict::bare(Outcome::Inconclusive, because)
        }
    } else {
        Verdict {
            witness: vec![witness(header.claim, facts)],
            ..Verdict::bare(Outcome::Held, acquittal(header, facts))
        }
    };
    verdict.damage = Axis::bare(damage(checks));
    verdict.checks = checks.list(facts);
    remarks::add(&mut verdict, header, facts);
    verdict
}

fn damage(checks: Checks) -> String {
    let violated = [
        (checks.no_oversell, "oversold"),
        (checks.no_lost_update, "lost_update"),
    ];
    let names: Vec<&str> = violated
        .iter()
        .filter(|(finding, _)| *finding == Finding::Violated)
        .map(|(_, name)| *name)
        .collect();
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}

/// Why nothing can be concluded, if so.
fn gap(header: &Header, facts: &Facts, checks: Checks) -> Option<(String, Missing)> {
    let missing = |what, advice| Missing { what, advice };
    if facts.final_reading.is_none() {
        let because = "The run has no end: the final stock was not read.".into();
        return Some((
            because,
            missing(
                "final_stock",
                "the lab's reading of the stock after the last answer.",
            ),
        ));
    }
    if checks.no_oversell == Finding::Undecided {
        let lost = facts.count(Answered::Unknown);
        let because = format!(
            "{} lost: {} for a stock of {}.",
            plural(lost, "answer was", "answers were"),
            orders(facts),
            count(facts.initial)
        );
        return Some((
            because,
            missing(
                "answers",
                "the answers that were lost: each may have been an order.",
            ),
        ));
    }
    if facts.sold().least == 0 {
        let because = "Nothing was sold, so nothing could be sold twice.".into();
        return Some((
            because,
            missing(
                "order",
                "an order. Something to sell (--stock), or patience (--wait).",
            ),
        ));
    }
    match header.claim {
        Claim::Nothing => {
            let because = format!(
                "Nothing broke, and nothing was shown: {} keeps nobody out, this was luck.",
                header.strategy
            );
            Some((
                because,
                missing(
                    "race",
                    "a race that goes wrong. More processes (--concurrency) or longer work (--delay).",
                ),
            ))
        }
        Claim::Exclusion | Claim::Exactness if facts.contended() == 0 => {
            let met = match header.claim {
                Claim::Exactness => "no buyer met another at work",
                _ => "no attempt met the lock taken",
            };
            Some((
                format!("Nothing broke, and nothing was tested: {met}."),
                missing(
                    "contention",
                    "a witness of contention. More processes (--concurrency) or longer work (--delay).",
                ),
            ))
        }
        Claim::Exclusion | Claim::Exactness => None,
    }
}

fn orders(facts: &Facts) -> String {
    let sold = facts.sold();
    format!(
        "{} {}",
        amount(sold),
        if sold.least == 1 && sold.most == 1 {
            "order"
        } else {
            "orders"
        }
    )
}

fn accusation(facts: &Facts) -> String {
    let stock = count(facts.initial);
    let Some(reading) = facts.final_reading else {
        return format!("{} for a stock of {stock}.", orders(facts));
    };
    let (left, by_orders) = (count(reading.units), facts.left_by_orders());
    if facts.checks().no_lost_update == Finding::Violated {
        let by_orders = amount(by_orders);
        return format!(
            "{} for a stock of {stock}. The store says {left} are left, the orders say {by_orders}.",
            orders(facts)
        );
    }
    format!("{} for a stock of {stock}, and {left} left.", orders(facts))
}

fn acquittal(header: &Header, facts: &Facts) -> String {
    let left = facts.final_reading.map_or(0, |reading| reading.units);
    let mut text = format!(
        "{} for a stock of {}, and {} left: orders and stock agree.",
        orders(facts),
        count(facts.initial),
        count(left)
    );
    if header.wait_ms > 0 {
        match facts.count(Answered::Busy) {
            0 => text.push_str(" Nobody gave up waiting."),
            busy => text.push_str(&format!(" {} gave up waiting.", count(busy as i64))),
        }
    }
    if facts.failed() > 0 {
        let failed = count(facts.failed() as i64);
        text.push_str(&format!(" {failed} failed with an error."));
    }
    text
}

fn witness(claim: Claim, facts: &Facts) -> String {
    let contended = count(facts.contended() as i64);
    let attempts = count(facts.attempts.len() as i64);
    if claim == Claim::Exactness {
        return format!(
            "{contended} of {attempts} met another buyer at work: the race did take place"
        );
    }
    let met = format!("{contended} of {attempts} met the lock");
    let mut holders = facts.attempts.iter().filter(|attempt| {
        attempt
            .purchase()
            .is_some_and(|purchase| purchase.outcome != Answered::Busy)
    });
    match (holders.next(), holders.next()) {
        (Some(only), None) => format!("{met} while {} held it: the race did take place", only.who),
        _ => format!("{met} taken: the race did take place"),
    }
}

#[cfg(test)]
mod tests;
