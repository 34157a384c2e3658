//! `constraint`: an unconditional subtraction, and a constraint in the store that refuses a negative stock.

use super::atomic::buy_by;
use super::direct;
use super::{Failure, Group, Order, Origin, Remark, Stores, Strategy};
use crate::protocol::{Claims, Promise, Purchase};
use crate::store::stock::Stock;

pub(super) static STRATEGY: Strategy = Strategy {
    name: "constraint",
    origin: Origin::Ours,
    group: Group::NoLock,
    stores: Stores::KeepingStock,
    summary: "subtracts, and the store refuses to go below zero",
    gloss: "no lock needed",
    flaw: None,
    promise: Promise::Exactness,
    claims: Claims::PLAIN,
    has_line: false,
    remark: Remark::Refusals,
    open: |setup| direct::buyer(setup, buy),
    lock: None,
};

fn buy(stock: &mut dyn Stock, order: &Order) -> Result<Purchase, Failure> {
    buy_by(stock, order, |stock, product, quantity| {
        stock.decrement_constrained(product, quantity)
    })
}
