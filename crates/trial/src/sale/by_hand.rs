//! A builder for handwritten histories of sales, used by tests.

use crate::history::{Event, What};
use crate::protocol::{Purchase, PurchaseOutcome};
use crate::sale::facts::Facts;

/// Builds a history in which all processes are asked at once and then answer one millisecond apart.
pub(crate) struct SaleBuilder(Vec<Event>);

impl SaleBuilder {
    pub(crate) fn with_stock(units: i64, buyers: u64) -> Self {
        let mut story = Self(Vec::new());
        story.add(None, What::StockSet { units });
        for op in 0..buyers {
            story.add(Some(op), What::Purchase { op, quantity: 1 });
        }
        story
    }

    fn add(&mut self, who: Option<u64>, what: What) {
        let n = self.0.len() as u64 + 1;
        let who = who.map(|op| format!("proc_{op}"));
        self.0.push(Event {
            n,
            at_ns: n * 1_000_000,
            who,
            what,
        });
    }

    fn said(
        mut self,
        op: u64,
        outcome: PurchaseOutcome,
        before: Option<i64>,
        contended: bool,
    ) -> Self {
        let after = before
            .filter(|_| outcome == PurchaseOutcome::Sold)
            .map(|before| before - 1);
        let purchase = Purchase {
            outcome,
            before,
            after,
            contended,
            waited_ms: 0.0,
            fence: None,
            effort: None,
        };
        self.add(Some(op), What::Purchased { op, purchase });
        self
    }

    pub(crate) fn sold(self, op: u64, before: i64) -> Self {
        self.said(op, PurchaseOutcome::Sold, Some(before), false)
    }

    /// Buys under this fence.
    pub(crate) fn sold_under(self, op: u64, before: i64, fence: &str) -> Self {
        let mut story = self.sold(op, before);
        if let Some(Event {
            what: What::Purchased { purchase, .. },
            ..
        }) = story.0.last_mut()
        {
            purchase.fence = Some(fence.into());
        }
        story
    }

    pub(crate) fn busy(self, op: u64) -> Self {
        self.said(op, PurchaseOutcome::Busy, None, true)
    }

    pub(crate) fn no_stock(self, op: u64) -> Self {
        self.said(op, PurchaseOutcome::NoStock, Some(0), true)
    }

    pub(crate) fn failed(mut self, op: u64, definite: bool) -> Self {
        self.add(
            Some(op),
            What::Failed {
                op,
                definite,
                message: "killed by SIGKILL".into(),
            },
        );
        self
    }

    /// Adds that the lab itself stalled.
    pub(crate) fn stalled(mut self, for_ms: f64) -> Self {
        self.add(None, What::Stalled { for_ms });
        self
    }

    /// Adds that the machine was suspended.
    pub(crate) fn slept(mut self, for_ms: f64) -> Self {
        self.add(None, What::Slept { for_ms });
        self
    }

    pub(crate) fn left(mut self, units: i64) -> Self {
        self.add(None, What::StockRead { units });
        self
    }

    pub(crate) fn facts(&self) -> Facts {
        Facts::of(&self.0)
    }
}
