//! The checks of a sale: orders, stock and what was left, as pure functions without a clock or a store.
//!
//! A check counts as violated only if it fails for every outcome that the lost answers allow.

use super::facts::Facts;
use super::fences::FenceFault;
use crate::protocol::Claims;
use crate::text::numbers::count;
use crate::verdict::{Checked, Finding};

impl Facts {
    /// Checks every property of a sale.
    pub fn checks(&self) -> Findings {
        let below_zero = self.final_reading.is_some_and(|reading| reading.units < 0);
        let beyond = self.sold_beyond();
        Findings {
            no_oversell: match (beyond.least > 0 || below_zero, beyond.most > 0) {
                (true, _) => Finding::Violated,
                (false, true) => Finding::Undecided,
                (false, false) => Finding::Held,
            },
            no_lost_update: match self.final_reading {
                None => Finding::Undecided,
                Some(_) if self.lost_updates() > 0 || self.vanished() > 0 => Finding::Violated,
                Some(_) => Finding::Held,
            },
            no_undersell: if self.unsold() > 0 {
                Finding::Violated
            } else {
                Finding::Held
            },
            fence: Finding::NotApplicable,
        }
    }
}

/// The properties of a sale. A sale records no holds, so properties of holds do not apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Findings {
    /// No more units were sold than existed, and the stock is not below zero.
    pub no_oversell: Finding,
    /// The final stock agrees with the orders.
    pub no_lost_update: Finding,
    /// Nobody was turned away while units were left. Reported, but never decides a verdict.
    pub no_undersell: Finding,
    /// Fences increase.
    pub fence: Finding,
}

impl Findings {
    /// Judges the fences, if the lock claims them and the buyers told theirs.
    #[must_use]
    pub fn with_fences(mut self, facts: &Facts, claims: Claims) -> Self {
        if claims.fencing && facts.fenced() > 0 {
            self.fence = match facts.fence_fault() {
                Some(_) => Finding::Violated,
                None if facts.fenced() == 1 => Finding::Undecided,
                None => Finding::Held,
            };
        }
        self
    }

    /// Returns every property with its finding and the grounds for it.
    pub fn list(self, facts: &Facts) -> Vec<Checked> {
        let orders = facts.orders().count() as i64;
        let stock = usize::try_from(facts.initial).unwrap_or(0);
        let beyond = facts.orders().skip(stock.saturating_sub(1)).take(2);
        let reading = facts.final_reading.iter().map(|reading| reading.event);
        let left = facts
            .final_reading
            .map_or("not read".to_owned(), |reading| count(reading.units));
        let sum = format!(
            "{} − {} = {}, final stock {left}",
            count(facts.initial),
            facts.sold(),
            facts.left_by_orders()
        );
        let no_hold = "a sale claims no hold";
        let of_holds = |name| Checked::of(name, name, Finding::NotApplicable).because(no_hold);
        let fences = match self.fence {
            Finding::NotApplicable => no_hold.to_owned(),
            _ => format!("{} buyers told theirs", count(facts.fenced() as i64)),
        };
        vec![
            Checked::of("no_oversell", "no oversell", self.no_oversell)
                .because(format!(
                    "{} orders, stock {}",
                    count(orders),
                    count(facts.initial)
                ))
                .at(beyond.map(|order| order.event)),
            Checked::of("no_lost_update", "no lost update", self.no_lost_update)
                .because(sum)
                .at(reading),
            Checked::of("no_undersell", "no undersell", self.no_undersell).because(format!(
                "{} unsold, {} buyers refused",
                count(facts.unsold()),
                count(facts.refused() as i64)
            )),
            of_holds("exclusion"),
            Checked::of("fence_issued", "fences grow", self.fence)
                .because(fences)
                .at(facts
                    .fence_fault()
                    .into_iter()
                    .flat_map(FenceFault::events)
                    .filter(|_| self.fence == Finding::Violated)),
            of_holds("recovery"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::PurchaseOutcome;
    use crate::sale::by_hand::SaleBuilder;
    use crate::sale::facts::Interval;

    fn interval(least: i64, most: i64) -> Interval {
        Interval { least, most }
    }

    #[test]
    fn an_oversell_is_seen_although_the_stock_looks_right() {
        let facts = SaleBuilder::with_stock(1, 3)
            .sold(2, 1)
            .sold(0, 1)
            .sold(1, 1)
            .left(0)
            .facts();
        let checks = facts.checks();
        assert_eq!(checks.no_oversell, Finding::Violated);
        assert_eq!(checks.no_lost_update, Finding::Violated);
        assert_eq!(facts.sold_beyond(), interval(2, 2));
        assert_eq!(facts.left_by_orders(), interval(-2, -2));
        assert_eq!(facts.lost_updates(), 2);
        assert_eq!(facts.attempts[0].who, "proc_2");
    }

    #[test]
    fn a_stock_below_zero_is_an_oversell() {
        let facts = SaleBuilder::with_stock(1, 2)
            .sold(0, 1)
            .sold(1, 1)
            .left(-1)
            .facts();
        assert_eq!(facts.checks().no_oversell, Finding::Violated);
        assert_eq!(facts.checks().no_lost_update, Finding::Held);
        let facts = SaleBuilder::with_stock(1, 1).sold(0, 1).left(-1).facts();
        assert_eq!(facts.checks().no_oversell, Finding::Violated);
    }

    #[test]
    fn a_lost_update_is_seen_although_nothing_was_oversold() {
        let facts = SaleBuilder::with_stock(3, 2)
            .sold(0, 3)
            .sold(1, 3)
            .left(2)
            .facts();
        assert_eq!(facts.checks().no_oversell, Finding::Held);
        assert_eq!(facts.checks().no_lost_update, Finding::Violated);
        assert_eq!((facts.lost_updates(), facts.vanished()), (1, 0));
    }

    #[test]
    fn a_unit_that_went_without_an_order_is_seen() {
        let facts = SaleBuilder::with_stock(3, 2)
            .sold(0, 3)
            .busy(1)
            .left(1)
            .facts();
        assert_eq!(facts.checks().no_lost_update, Finding::Violated);
        assert_eq!((facts.lost_updates(), facts.vanished()), (0, 1));
    }

    #[test]
    fn undersell_is_reported_and_counts_what_could_have_been_sold() {
        let facts = SaleBuilder::with_stock(3, 5)
            .busy(0)
            .busy(1)
            .sold(4, 3)
            .busy(2)
            .busy(3)
            .left(2)
            .facts();
        assert_eq!(facts.unsold(), 2);
        assert_eq!(facts.checks().no_undersell, Finding::Violated);
        assert_eq!(facts.checks().no_oversell, Finding::Held);
        assert_eq!(facts.contention_rate(), 0.8);
        let enough = SaleBuilder::with_stock(5, 2)
            .sold(0, 5)
            .sold(1, 4)
            .left(3)
            .facts();
        assert_eq!(enough.unsold(), 0, "nobody was turned away");
        assert_eq!(enough.expected_stock(), 3);
    }

    #[test]
    fn an_unknown_answer_widens_the_figures_and_never_raises_a_false_alarm() {
        for left in [0, 1] {
            let facts = SaleBuilder::with_stock(2, 2)
                .sold(0, 2)
                .failed(1, false)
                .left(left)
                .facts();
            assert_eq!(facts.sold(), interval(1, 2));
            assert_eq!(facts.checks().no_lost_update, Finding::Held, "{left} left");
            assert_eq!(facts.checks().no_oversell, Finding::Held);
        }
        let facts = SaleBuilder::with_stock(2, 2)
            .sold(0, 2)
            .failed(1, false)
            .left(2)
            .facts();
        assert_eq!(
            facts.checks().no_lost_update,
            Finding::Violated,
            "no number of orders explains it"
        );
        let facts = SaleBuilder::with_stock(1, 2)
            .sold(0, 1)
            .failed(1, false)
            .left(0)
            .facts();
        assert_eq!(facts.checks().no_oversell, Finding::Undecided);
    }

    #[test]
    fn a_certain_failure_is_no_order() {
        let facts = SaleBuilder::with_stock(2, 2)
            .sold(0, 2)
            .failed(1, true)
            .left(0)
            .facts();
        assert_eq!(facts.sold(), interval(1, 1));
        assert_eq!(facts.vanished(), 1);
        assert_eq!(
            (facts.failed(), facts.count(PurchaseOutcome::Unknown)),
            (1, 0)
        );
    }

    #[test]
    fn an_attempt_without_an_answer_is_unknown() {
        let facts = SaleBuilder::with_stock(1, 2).sold(0, 1).facts();
        assert_eq!(facts.count(PurchaseOutcome::Unknown), 1);
        assert_eq!(facts.attempts[1].who, "proc_1");
        assert_eq!(
            facts.checks().no_lost_update,
            Finding::Undecided,
            "nobody read the stock"
        );
    }

    #[test]
    fn an_empty_run_has_no_figures_that_divide_by_zero() {
        let facts = Facts::of(&[]);
        assert_eq!(facts.contention_rate(), 0.0);
        assert_eq!(facts.checks().no_oversell, Finding::Held);
        assert_eq!(facts.checks().no_lost_update, Finding::Undecided);
    }
}
