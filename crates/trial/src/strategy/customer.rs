//! A customer that buys under any lock: acquire, read, work, write, release.

use std::time::{Duration, Instant};

use fencepost::clock::BoxFuture;

use super::{Buyer, Failure, Granted, Halt, Locking, Order, Setup, busy, read_work_write};
use crate::protocol::{Purchase, PurchaseOutcome};
use crate::store::stock::Stock;

/// Buys under a lock.
pub(crate) struct Customer<L> {
    stock: Box<dyn Stock>,
    lock: L,
}

impl<L: Locking> Customer<L> {
    /// Opens the stock, and gets ready to buy with this lock.
    pub(crate) fn open(setup: &Setup, lock: L) -> Result<Self, Failure> {
        Ok(Self {
            stock: setup.ground.stock()?,
            lock,
        })
    }

    async fn buy(&mut self, order: &Order) -> Result<Purchase, Failure> {
        let turn = Turn::take(&mut self.lock, order, order.wait).await?;
        let Some(held) = turn.held else {
            return Ok(turn.busy());
        };
        let bought = read_work_write(&mut *self.stock, order);
        if bought
            .as_ref()
            .is_ok_and(|bought| bought.outcome == PurchaseOutcome::Sold)
        {
            // A purchase stays valid whatever happens to the lock. The lab judges by the stock.
            let _ = self.lock.worked(held.hold).await;
        }
        let _ = self.lock.release(held.hold, &mut Onwards).await;
        Ok(Purchase {
            contended: held.contended,
            waited_ms: turn.waited_ms,
            fence: held.fence,
            ..bought?
        })
    }
}

impl<L: Locking> Buyer for Customer<L> {
    fn purchase<'a>(&'a mut self, order: &'a Order) -> BoxFuture<'a, Result<Purchase, Failure>> {
        Box::pin(self.buy(order))
    }

    fn lock_commands(&self, _: &Order) -> Option<u64> {
        self.lock.commands()
    }
}

/// An attempt to take the lock of a product.
pub(crate) struct Turn {
    pub(crate) held: Option<Granted>,
    pub(crate) waited_ms: f64,
}

impl Turn {
    /// Acquires the lock, or waits until the time is up.
    pub(crate) async fn take(
        lock: &mut dyn Locking,
        order: &Order,
        wait: Duration,
    ) -> Result<Self, Failure> {
        let asked = Instant::now();
        let held = lock.acquire(&order.product, wait, &mut Onwards).await;
        // Without the lock nothing is bought, whatever happened to the request.
        let held = held.map_err(Failure::definite)?;
        let waited = held.as_ref().is_none_or(|held| held.contended);
        let waited_ms = if waited {
            asked.elapsed().as_secs_f64() * 1e3
        } else {
            0.0
        };
        Ok(Self { held, waited_ms })
    }

    /// Returns the answer for a lock that could not be acquired.
    pub(crate) fn busy(&self) -> Purchase {
        Purchase {
            waited_ms: self.waited_ms,
            ..busy()
        }
    }
}

/// A `Halt` that never stops; a sale does not stop processes between two steps.
pub(crate) struct Onwards;

impl Halt for Onwards {
    fn after(&mut self, _step: u32, _of: u32, _what: &str) {}
}
