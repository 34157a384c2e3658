//! `none`: read the stock, work, write it back.
//!
//! What is wrong: between the read and the write, others read the same number. Two buyers take the same unit (an
//! oversell), or one's write undoes the other's (a lost update). Seen wherever a program subtracts in memory and saves
//! the result: the object-relational mapper's `product.stock -= 1; product.save()`.

use fencepost::BoxFuture;

use crate::protocol::{Claims, Promise, Purchase};
use crate::store::stock::Stock;
use crate::strategy::{
    Buyer, Failure, Group, Order, Remark, Setup, Stores, Strategy, read_work_write,
};

/// The entry in the list of strategies.
pub static STRATEGY: Strategy = Strategy {
    name: "none",
    group: Group::NoCoordination,
    // It uses no lock, so that it is the same race wherever locks are kept.
    stores: Stores::Everywhere,
    summary: "reads the stock, works, writes it back; nothing keeps the others out",
    gloss: "no coordination",
    flaw: Some(
        "none reads the stock, works, writes it back; nothing keeps the others out meanwhile.",
    ),
    claim: Promise::Nothing,
    claims: Claims::PLAIN,
    remark: Remark::SameUnit,
    open: |setup| Box::pin(open(setup)),
    lock: None,
};

struct Unprotected(Box<dyn Stock>);

async fn open(setup: Setup) -> Result<Box<dyn Buyer>, Failure> {
    Ok(Box::new(Unprotected(setup.ground.stock()?)))
}

impl Buyer for Unprotected {
    fn purchase<'a>(&'a mut self, order: &'a Order) -> BoxFuture<'a, Result<Purchase, Failure>> {
        Box::pin(async { read_work_write(&mut *self.0, order) })
    }
}
