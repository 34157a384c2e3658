//! A buyer that uses only the commands of the stock, without a lock.

use fencepost::clock::BoxFuture;

use super::{Buyer, Failure, Opening, Order, Setup};
use crate::protocol::Purchase;
use crate::store::stock::Stock;

/// One purchase, from reading the stock to changing it.
pub(crate) type Sell = fn(&mut dyn Stock, &Order) -> Result<Purchase, Failure>;

/// Opens a buyer that sells this way.
pub(crate) fn buyer(setup: Setup, sell: Sell) -> Opening<dyn Buyer> {
    Box::pin(async move {
        let stock = setup.ground.stock()?;
        let buyer: Box<dyn Buyer> = Box::new(Direct { stock, sell });
        Ok(buyer)
    })
}

struct Direct {
    stock: Box<dyn Stock>,
    sell: Sell,
}

impl Buyer for Direct {
    fn purchase<'a>(&'a mut self, order: &'a Order) -> BoxFuture<'a, Result<Purchase, Failure>> {
        Box::pin(async { (self.sell)(&mut *self.stock, order) })
    }
}
