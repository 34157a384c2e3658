//! `decrement`: checks the stock in the program, then subtracts in the store unconditionally.
//!
//! What is wrong: no update is lost, but the check is outdated when the store subtracts. All buyers that saw the last unit
//! subtract it, and the stock becomes negative. Seen in surveys of shop code as the "fixed" form of `none`: `if product.stock >
//! 0: UPDATE … SET stock = stock - 1`.

use crate::protocol::{Claims, Promise, Purchase};
use crate::store::stock::Stock;
use crate::strategy::direct;
use crate::strategy::{Failure, Group, Order, Origin, Remark, Stores, Strategy, no_stock, sold};

/// The entry in the list of strategies.
pub static STRATEGY: Strategy = Strategy {
    name: "decrement",
    origin: Origin::Ours,
    group: Group::NoCoordination,
    stores: Stores::KeepingStock,
    summary: "checks in the program, then subtracts in the store without a condition",
    gloss: "no coordination",
    flaw: Some("decrement checks, works, then subtracts: by then the check is old news."),
    promise: Promise::Nothing,
    claims: Claims::PLAIN,
    has_line: false,
    remark: Remark::Broken("checked first, subtracted anyway"),
    open: |setup| direct::buyer(setup, buy),
    lock: None,
};

fn buy(stock: &mut dyn Stock, order: &Order) -> Result<Purchase, Failure> {
    let before = stock.read(&order.product)?;
    let quantity = i64::from(order.quantity);
    if before < quantity {
        return Ok(no_stock(before));
    }
    order.work();
    let after = stock.decrement(&order.product, quantity)?;
    Ok(sold(before, after))
}
