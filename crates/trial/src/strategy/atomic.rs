//! `atomic`: a single conditional update. The store makes the decision where the stock is.

use super::direct;
use super::{Failure, Group, Order, Remark, Stores, Strategy, no_stock, sold};
use crate::protocol::{Claims, Promise, Purchase};
use crate::store::stock::Stock;

pub(super) static STRATEGY: Strategy = Strategy {
    name: "atomic",
    argument: None,
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
    // This read only shows the stock, and gives other buyers as much time to intervene as in the other strategies.
    let before = stock.read(&order.product)?;
    order.work();
    let quantity = i64::from(order.quantity);
    let left = stock.decrement_if_enough(&order.product, quantity)?;
    Ok(met_others(before, left, quantity))
}

/// Returns the answer. A buyer that finds a stock other than the one it read has met another buyer.
pub(super) fn met_others(before: i64, left: Option<i64>, quantity: i64) -> Purchase {
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
