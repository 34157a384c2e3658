//! `optimistic`: reads the stock with its version, works, and writes only if the version is unchanged; otherwise tries again.

use super::direct;
use super::{Failure, Group, Order, Origin, Remark, Stores, Strategy, busy, no_stock, sold};
use crate::protocol::{Claims, Promise, Purchase};
use crate::store::stock::Stock;

/// Each failed try means that another buyer succeeded, so this is enough for the largest possible sale.
const TRIES: u32 = 1_000;

pub(super) static STRATEGY: Strategy = Strategy {
    name: "optimistic",
    origin: Origin::Ours,
    group: Group::NoLock,
    stores: Stores::KeepingStock,
    summary: "writes only if nobody wrote since it read; else reads again",
    gloss: "no lock needed",
    flaw: None,
    promise: Promise::Exactness,
    claims: Claims::PLAIN,
    has_line: false,
    remark: Remark::Conflicts,
    open: |setup| direct::buyer(setup, buy),
    lock: None,
};

fn buy(stock: &mut dyn Stock, order: &Order) -> Result<Purchase, Failure> {
    for lost in 0..TRIES {
        let (before, version) = stock.read_version(&order.product)?;
        let after = before - i64::from(order.quantity);
        if after < 0 {
            return Ok(Purchase {
                contended: lost > 0,
                ..no_stock(before)
            });
        }
        order.work();
        if stock.write_version(&order.product, after, version)? {
            return Ok(Purchase {
                contended: lost > 0,
                ..sold(before, after)
            });
        }
    }
    Ok(busy())
}
