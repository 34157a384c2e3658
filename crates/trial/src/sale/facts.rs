//! What a history of a sale says, in figures. Pure functions, no clock, no store.
//!
//! An answer that was lost may have been an order: it widens every figure it could change to an interval.

use std::collections::HashMap;
use std::fmt;

use crate::history::{Event, What};
use crate::protocol::{Outcome, Purchase};
use crate::text::numbers::count;

/// One attempt to buy and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// Whose.
    pub who: String,
    /// How many units.
    pub quantity: u32,
    /// When the lab asked.
    pub asked_ns: u64,
    /// When the answer was read.
    pub answered_ns: u64,
    /// The number of the event that holds the answer.
    pub event: u64,
    /// The answer.
    pub answer: Answer,
}

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The subject's word.
    Said(Purchase),
    /// It failed, and nothing was bought.
    Failed(String),
    /// Nobody knows.
    Unknown(String),
}

impl Attempt {
    /// What was said about it, if anything.
    pub fn purchase(&self) -> Option<&Purchase> {
        match &self.answer {
            Answer::Said(purchase) => Some(purchase),
            Answer::Failed(_) | Answer::Unknown(_) => None,
        }
    }

    /// The outcome; `None` if the attempt certainly failed.
    pub fn outcome(&self) -> Option<Outcome> {
        match &self.answer {
            Answer::Said(purchase) => Some(purchase.outcome),
            Answer::Failed(_) => None,
            Answer::Unknown(_) => Some(Outcome::Unknown),
        }
    }

    /// Whether it is an acknowledged order.
    pub fn sold(&self) -> bool {
        self.outcome() == Some(Outcome::Sold)
    }

    /// Whether it found the lock taken at its first try.
    pub fn contended(&self) -> bool {
        self.purchase().is_some_and(|purchase| purchase.contended)
    }
}

/// The facts of a sale, gathered event by event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// The stock at the start.
    pub initial: i64,
    /// Every answered attempt, in the order of the answers.
    pub attempts: Vec<Attempt>,
    /// The lab's own reading at the end: event, stamp, units.
    pub final_reading: Option<Reading>,
    asked: HashMap<u64, (String, u32, u64)>,
}

/// The lab read the stock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The number of the event.
    pub event: u64,
    /// When.
    pub at_ns: u64,
    /// What was left.
    pub units: i64,
}

impl Facts {
    /// The facts of a whole history. Attempts without an answer are unknown.
    pub fn of(events: &[Event]) -> Self {
        let mut facts = Self::default();
        for event in events {
            facts.learn(event);
        }
        let mut silent: Vec<_> = facts.asked.drain().collect();
        silent.sort_unstable();
        let last = events.last().map_or((0, 0), |event| (event.n, event.at_ns));
        for (_, (who, quantity, asked_ns)) in silent {
            let answer = Answer::Unknown("no answer".into());
            let (event, answered_ns) = last;
            facts.attempts.push(Attempt {
                who,
                quantity,
                asked_ns,
                answered_ns,
                event,
                answer,
            });
        }
        facts
    }

    /// Takes in the next event; returns the attempt if it answered one.
    pub fn learn(&mut self, event: &Event) -> Option<&Attempt> {
        let (op, answer) = match &event.what {
            What::StockSet { units } => {
                self.initial = *units;
                return None;
            }
            What::StockRead { units } => {
                self.final_reading = Some(Reading {
                    event: event.n,
                    at_ns: event.at_ns,
                    units: *units,
                });
                return None;
            }
            What::Purchase { op, quantity } => {
                let who = event.who.clone().unwrap_or_default();
                self.asked.insert(*op, (who, *quantity, event.at_ns));
                return None;
            }
            What::Purchased { op, purchase } => (op, Answer::Said(purchase.clone())),
            What::Failed {
                op,
                definite: true,
                message,
            } => (op, Answer::Failed(message.clone())),
            What::Failed {
                op,
                definite: false,
                message,
            } => (op, Answer::Unknown(message.clone())),
            // Holds inside a purchase are for the picture; the verdict of a sale rests on orders and stock.
            _ => return None,
        };
        let (who, quantity, asked_ns) = self.asked.remove(op)?;
        let (event, answered_ns) = (event.n, event.at_ns);
        self.attempts.push(Attempt {
            who,
            quantity,
            asked_ns,
            answered_ns,
            event,
            answer,
        });
        self.attempts.last()
    }

    /// The acknowledged orders, in the order of their answers.
    pub fn orders(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().filter(|attempt| attempt.sold())
    }

    /// How many attempts ended so.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.attempts
            .iter()
            .filter(|attempt| attempt.outcome() == Some(outcome))
            .count()
    }

    /// How many attempts failed for certain, with an error.
    pub fn failed(&self) -> usize {
        self.attempts
            .iter()
            .filter(|attempt| attempt.outcome().is_none())
            .count()
    }

    /// How many attempts found the lock taken at their first try.
    pub fn contended(&self) -> usize {
        self.attempts
            .iter()
            .filter(|attempt| attempt.contended())
            .count()
    }

    /// The share of attempts that found the lock taken at their first try, 0 to 1.
    pub fn contention_rate(&self) -> f64 {
        if self.attempts.is_empty() {
            return 0.0;
        }
        self.contended() as f64 / self.attempts.len() as f64
    }

    /// Units sold: at least what was acknowledged, at most that and every unknown attempt.
    pub fn sold(&self) -> Interval {
        let units = |wanted| -> i64 {
            let matching = self
                .attempts
                .iter()
                .filter(|attempt| attempt.outcome() == Some(wanted));
            matching.map(|attempt| i64::from(attempt.quantity)).sum()
        };
        let least = units(Outcome::Sold);
        Interval {
            least,
            most: least + units(Outcome::Unknown),
        }
    }

    /// What is left by the orders: initial − sold.
    pub fn left_by_orders(&self) -> Interval {
        let sold = self.sold();
        Interval {
            least: self.initial.saturating_sub(sold.most),
            most: self.initial.saturating_sub(sold.least),
        }
    }

    /// What is left when everybody who could be served was served once.
    pub fn expected_stock(&self) -> i64 {
        self.initial
            .saturating_sub(self.attempts.len() as i64)
            .max(0)
    }

    /// Units sold beyond the stock.
    pub fn sold_beyond(&self) -> Interval {
        let sold = self.sold();
        Interval {
            least: sold.least.saturating_sub(self.initial).max(0),
            most: sold.most.saturating_sub(self.initial).max(0),
        }
    }

    /// Units certainly unsold although buyers were turned away.
    pub fn unsold(&self) -> i64 {
        let refused = self.refused() as i64;
        self.left_by_orders().least.clamp(0, refused)
    }

    /// Buyers who were turned away or failed.
    pub fn refused(&self) -> usize {
        self.count(Outcome::Busy) + self.count(Outcome::NoStock) + self.failed()
    }

    /// Acknowledged updates of the stock that are certainly not in it any more.
    pub fn lost_updates(&self) -> i64 {
        let left = self.left_by_orders().most;
        self.final_reading
            .map_or(0, |reading| reading.units.saturating_sub(left).max(0))
    }

    /// Units that are certainly gone without an order.
    pub fn vanished(&self) -> i64 {
        let left = self.left_by_orders().least;
        self.final_reading
            .map_or(0, |reading| left.saturating_sub(reading.units).max(0))
    }
}

/// A number that is known only to lie between two others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// At least.
    pub least: i64,
    /// At most.
    pub most: i64,
}

/// `9 to 10`, or a single number where both bounds are the same.
impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least == self.most {
            return f.pad(&count(self.least));
        }
        f.pad(&format!("{} to {}", count(self.least), count(self.most)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_reads_as_a_number_or_as_its_bounds() {
        let interval = |least, most| Interval { least, most }.to_string();
        assert_eq!(interval(-10, -9), "−10 to −9");
        assert_eq!(interval(1_000, 1_000), "1,000");
    }
}
