//! `atomic`: a single conditional update. The store makes the decision where the stock is.

use super::direct;
use super::{Failure, Group, Order, Origin, Remark, Stores, Strategy, no_stock, sold};
use crate::protocol::{Claims, Promise, Purchase};
use crate::store::stock::Stock;

pub(super) static STRATEGY: Strategy = Strategy {
    name: "atomic",
    origin: Origin::Ours,
    group: Group::NoLock,
    stores: Stores::KeepingStock,
    summary: "one update that subtracts only if there is enough",
    gloss: "no lock needed",
    flaw: None,
    promise: Promise::Exactness,
    claims: Claims::PLAIN,
    has_line: false,
    remark: Remark::Always("one conditional update"),
    open: |setup| direct::buyer(setup, buy),
    lock: None,
};

fn buy(stock: &mut dyn Stock, order: &Order) -> Result<Purchase, Failure> {
    buy_by(stock, order, |stock, product, quantity| {
        stock.decrement_if_enough(product, quantity)
    })
}

/// Buys by one update of the store, which returns what is left, or `None` if it refused.
pub(super) fn buy_by(
    stock: &mut dyn Stock,
    order: &Order,
    subtract: impl FnOnce(&mut dyn Stock, &str, i64) -> Result<Option<i64>, Failure>,
) -> Result<Purchase, Failure> {
    // This read only shows the stock, and gives other buyers as much time to intervene as in the other strategies. The store decides.
    let before = stock.read(&order.product)?;
    order.work();
    let quantity = i64::from(order.quantity);
    let left = subtract(stock, &order.product, quantity)?;
    Ok(met_others(before, left, quantity))
}

/// Returns the answer. A buyer that finds a stock other than the one it read has met another buyer.
fn met_others(before: i64, left: Option<i64>, quantity: i64) -> Purchase {
    match left {
        Some(left) => Purchase {
            contended: left + quantity != before,
            ..sold(left + quantity, left)
        },
        None => Purchase {
            contended: before >= quantity,
            ..no_stock(before)
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_buyer_is_met_when_the_stock_is_not_what_was_read() {
        assert!(!met_others(3, Some(2), 1).contended);
        assert!(met_others(3, Some(1), 1).contended);
        assert!(met_others(1, None, 1).contended);
        assert!(!met_others(0, None, 1).contended, "it was sold out before");
        assert_eq!(met_others(3, Some(1), 1).before, Some(2));
    }
}
