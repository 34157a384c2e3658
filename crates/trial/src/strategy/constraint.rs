//! `constraint`: subtracts without a condition, and the store itself refuses a stock below zero.

use super::atomic::met_others;
use super::direct;
use super::{Failure, Group, Order, Remark, Stores, Strategy};
use crate::protocol::{Claims, Promise, Purchase};
use crate::store::stock::Stock;

pub(super) static STRATEGY: Strategy = Strategy {
    name: "constraint",
    group: Group::NoLock,
    stores: Stores::Any,
    summary: "subtracts, and the store refuses to go below zero",
    gloss: "no lock needed",
    flaw: None,
    promise: Promise::Exactness,
    claims: Claims::PLAIN,
    remark: Remark::Refusals,
    open: |setup| direct::buyer(setup, buy),
    lock: None,
};

fn buy(stock: &mut dyn Stock, order: &Order) -> Result<Purchase, Failure> {
    // Looked at, but not acted upon: the decision is the store's.
    let before = stock.read(&order.product)?;
    order.work();
    let quantity = i64::from(order.quantity);
    let left = stock.decrement_constrained(&order.product, quantity)?;
    Ok(met_others(before, left, quantity))
}
