//! `constraint`: subtracts without a condition, and the store itself refuses a stock below zero.

use fencepost::BoxFuture;

use super::atomic::met_others;
use super::{Buyer, Failure, Group, Order, Remark, Setup, Stores, Strategy};
use crate::protocol::{Claims, Promise, Purchase};
use crate::store::stock::Stock;

pub(super) static STRATEGY: Strategy = Strategy {
    name: "constraint",
    group: Group::NoLock,
    stores: Stores::Any,
    summary: "subtracts, and the store refuses to go below zero",
    gloss: "no lock needed",
    flaw: None,
    claim: Promise::Exactness,
    claims: Claims::PLAIN,
    remark: Remark::Refusals,
    open: |setup| Box::pin(open(setup)),
    lock: None,
};

struct Constrained(Box<dyn Stock>);

async fn open(setup: Setup) -> Result<Box<dyn Buyer>, Failure> {
    Ok(Box::new(Constrained(setup.ground.stock()?)))
}

impl Buyer for Constrained {
    fn purchase<'a>(&'a mut self, order: &'a Order) -> BoxFuture<'a, Result<Purchase, Failure>> {
        Box::pin(async { self.buy(order) })
    }
}

impl Constrained {
    fn buy(&mut self, order: &Order) -> Result<Purchase, Failure> {
        // Looked at, but not acted upon: the decision is the store's.
        let before = self.0.read(&order.product)?;
        order.work();
        let quantity = i64::from(order.quantity);
        let left = self.0.decrement_constrained(&order.product, quantity)?;
        Ok(met_others(before, left, quantity))
    }
}
