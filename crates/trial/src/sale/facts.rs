//! The facts of a sale: attempts, orders and stock, derived from its history. Pure functions without a clock or a store.
//!
//! A lost answer may have been an order. It turns every figure that it could change into an interval.

use std::collections::HashMap;
use std::fmt;

use crate::history::{Event, What};
use crate::protocol::{Purchase, PurchaseOutcome};
use crate::text::numbers::count;

/// One attempt to buy, with its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// The process that made it.
    pub who: String,
    /// How many units.
    pub quantity: u32,
    /// When the lab asked.
    pub asked_ns: u64,
    /// When the answer was read.
    pub answered_ns: u64,
    /// The number of the event that holds the answer.
    pub event: u64,
    /// Its answer.
    pub answer: Answer,
}

/// The answer to an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The subject reported this result.
    Said(Purchase),
    /// It failed, and nothing was bought.
    Failed(String),
    /// The result is unknown.
    Unknown(String),
}

/// Who asked for how many units, and when.
type Asked = (String, u32, u64);

impl Attempt {
    fn new(
        (who, quantity, asked_ns): Asked,
        (event, answered_ns): (u64, u64),
        answer: Answer,
    ) -> Self {
        Self {
            who,
            quantity,
            asked_ns,
            answered_ns,
            event,
            answer,
        }
    }

    /// Returns what the subject reported, if anything.
    pub fn purchase(&self) -> Option<&Purchase> {
        match &self.answer {
            Answer::Said(purchase) => Some(purchase),
            Answer::Failed(_) | Answer::Unknown(_) => None,
        }
    }

    /// Returns the outcome; `None` if the attempt certainly failed.
    pub fn outcome(&self) -> Option<PurchaseOutcome> {
        match &self.answer {
            Answer::Said(purchase) => Some(purchase.outcome),
            Answer::Failed(_) => None,
            Answer::Unknown(_) => Some(PurchaseOutcome::Unknown),
        }
    }

    /// Returns whether it is an acknowledged order.
    pub fn sold(&self) -> bool {
        self.outcome() == Some(PurchaseOutcome::Sold)
    }

    /// Returns whether it found the lock taken at its first try.
    pub fn contended(&self) -> bool {
        self.purchase().is_some_and(|purchase| purchase.contended)
    }
}

/// The facts of a sale, collected event by event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// The stock at the start.
    pub initial: i64,
    /// Every answered attempt, in the order of the answers.
    pub attempts: Vec<Attempt>,
    /// The lab's own reading at the end.
    pub final_reading: Option<Reading>,
    /// Why the lab stopped waiting.
    pub given_up: Option<String>,
    /// When the lab itself stalled: from when, and until when.
    stalls: Vec<(i64, i64)>,
    /// For how long the machine was suspended, if it was.
    pub slept_ms: Option<f64>,
    asked: HashMap<u64, Asked>,
}

/// A reading of the stock by the lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The number of the event.
    pub event: u64,
    /// Its timestamp.
    pub at_ns: u64,
    /// The units that were left.
    pub units: i64,
}

impl Facts {
    /// Derives the facts from a complete history. Attempts without an answer are unknown.
    pub fn of(events: &[Event]) -> Self {
        let mut facts = Self::default();
        for event in events {
            facts.learn(event);
        }
        let mut silent: Vec<_> = facts.asked.drain().collect();
        silent.sort_unstable();
        let last = events.last().map_or((0, 0), |event| (event.n, event.at_ns));
        for (_, asked) in silent {
            let answer = Answer::Unknown("no answer".into());
            facts.attempts.push(Attempt::new(asked, last, answer));
        }
        facts
    }

    /// Returns for how long the lab stalled at most within any time of this length.
    pub fn stalled_within_ns(&self, length_ns: u64) -> u64 {
        let length_ns = i64::try_from(length_ns).unwrap_or(i64::MAX);
        let most_ns = self.stalls.iter().map(|(_, end_ns)| {
            let begin_ns = end_ns.saturating_sub(length_ns);
            let parts = self.stalls.iter().map(|(from_ns, until_ns)| {
                let part_ns = (*until_ns)
                    .min(*end_ns)
                    .saturating_sub((*from_ns).max(begin_ns));
                u64::try_from(part_ns).unwrap_or(0)
            });
            parts.fold(0, u64::saturating_add)
        });
        most_ns.max().unwrap_or(0)
    }

    /// Adds the next event. Returns the attempt if the event answered one.
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
            What::GaveUp { why } => {
                self.given_up = Some(why.clone());
                return None;
            }
            What::Stalled { for_ms } => {
                let until_ns = i64::try_from(event.at_ns).unwrap_or(i64::MAX);
                self.stalls
                    .push((until_ns.saturating_sub((for_ms * 1e6) as i64), until_ns));
                return None;
            }
            What::Slept { for_ms } => {
                *self.slept_ms.get_or_insert_default() += for_ms;
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
            // Holds inside a purchase are only drawn. The verdict on a sale rests on orders and stock.
            _ => return None,
        };
        let asked = self.asked.remove(op)?;
        let answered = (event.n, event.at_ns);
        self.attempts.push(Attempt::new(asked, answered, answer));
        self.attempts.last()
    }

    /// Returns the acknowledged orders, in the order of their answers.
    pub fn orders(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().filter(|attempt| attempt.sold())
    }

    /// Returns how many attempts had this outcome.
    pub fn count(&self, outcome: PurchaseOutcome) -> usize {
        self.attempts
            .iter()
            .filter(|attempt| attempt.outcome() == Some(outcome))
            .count()
    }

    /// Returns how many attempts certainly failed, with an error.
    pub fn failed(&self) -> usize {
        self.attempts
            .iter()
            .filter(|attempt| attempt.outcome().is_none())
            .count()
    }

    /// Returns how many attempts found the lock taken at their first try.
    pub fn contended(&self) -> usize {
        self.attempts
            .iter()
            .filter(|attempt| attempt.contended())
            .count()
    }

    /// Returns the share of attempts that found the lock taken at their first try, 0 to 1.
    pub fn contention_rate(&self) -> f64 {
        if self.attempts.is_empty() {
            return 0.0;
        }
        self.contended() as f64 / self.attempts.len() as f64
    }

    /// Returns the units sold: at least the acknowledged ones, at most those plus every unknown attempt.
    pub fn sold(&self) -> Interval {
        let units = |wanted| -> i64 {
            let matching = self
                .attempts
                .iter()
                .filter(|attempt| attempt.outcome() == Some(wanted));
            matching.map(|attempt| i64::from(attempt.quantity)).sum()
        };
        let least = units(PurchaseOutcome::Sold);
        Interval {
            least,
            most: least + units(PurchaseOutcome::Unknown),
        }
    }

    /// Returns the stock that the orders leave: initial − sold.
    pub fn left_by_orders(&self) -> Interval {
        let sold = self.sold();
        Interval {
            least: self.initial.saturating_sub(sold.most),
            most: self.initial.saturating_sub(sold.least),
        }
    }

    /// Returns the stock that remains if every buyer who could be served was served once.
    pub fn expected_stock(&self) -> i64 {
        self.initial
            .saturating_sub(self.attempts.len() as i64)
            .max(0)
    }

    /// Returns the units sold beyond the stock.
    pub fn sold_beyond(&self) -> Interval {
        let sold = self.sold();
        Interval {
            least: sold.least.saturating_sub(self.initial).max(0),
            most: sold.most.saturating_sub(self.initial).max(0),
        }
    }

    /// Returns the units that certainly remained unsold although buyers were turned away.
    pub fn unsold(&self) -> i64 {
        let refused = self.refused() as i64;
        self.left_by_orders().least.clamp(0, refused)
    }

    /// Returns the number of buyers that were turned away or failed.
    pub fn refused(&self) -> usize {
        self.count(PurchaseOutcome::Busy) + self.count(PurchaseOutcome::NoStock) + self.failed()
    }

    /// Returns the number of acknowledged updates that are certainly missing from the stock.
    pub fn lost_updates(&self) -> i64 {
        let left = self.left_by_orders().most;
        self.final_reading
            .map_or(0, |reading| reading.units.saturating_sub(left).max(0))
    }

    /// Returns the units that certainly disappeared without an order.
    pub fn vanished(&self) -> i64 {
        let left = self.left_by_orders().least;
        self.final_reading
            .map_or(0, |reading| left.saturating_sub(reading.units).max(0))
    }
}

/// A number that is only known to lie between two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// The lower bound.
    pub least: i64,
    /// The upper bound.
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
