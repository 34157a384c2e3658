//! `early-unlock`: releases the lock before the transaction commits.
//!
//! What is wrong: the next holder reads before the previous holder's write is visible. The lock is sound and held during all of
//! the work, but it ends too early. Seen in surveys of lock use as a `synchronized` (or locked) method inside a transaction
//! that a framework commits after the method has returned.

use std::time::Duration;

use fencepost::clock::BoxFuture;

use crate::protocol::{Claims, Promise, Purchase};
use crate::store::stock::Stock;
use crate::strategy::customer::{Onwards, Turn};
use crate::strategy::hand_made::{HandMade, Recipe};
use crate::strategy::{
    Buyer, Failure, Group, Locking, Order, Origin, Remark, Setup, Stores, Strategy, no_stock, sold,
};

/// Such a lock blocks: its callers queue even if they were not asked to wait.
const WAIT_MIN: Duration = Duration::from_secs(2);
/// The minimum duration of a commit, or ten times the work if that is longer: enough for the next holder to read, even on a
/// busy machine.
const COMMIT: Duration = Duration::from_millis(50);

/// The entry in the list of strategies.
pub static STRATEGY: Strategy = Strategy {
    name: "early-unlock",
    origin: Origin::Ours,
    group: Group::Flawed,
    stores: Stores::KeepingStock,
    summary: "releases the lock before its transaction commits",
    gloss: "queues for the lock",
    flaw: Some(
        "early-unlock releases the lock before it commits: the next one reads the old stock.",
    ),
    promise: Promise::Exclusion,
    claims: Claims::PLAIN,
    has_line: false,
    remark: Remark::Broken("released before the commit"),
    open: |setup| Box::pin(open(setup)),
    lock: None,
};

struct EarlyUnlock {
    stock: Box<dyn Stock>,
    lock: HandMade,
}

async fn open(setup: Setup) -> Result<Box<dyn Buyer>, Failure> {
    Ok(Box::new(EarlyUnlock {
        stock: setup.ground.stock()?,
        lock: HandMade::open(&setup, Recipe::TOKEN)?,
    }))
}

impl Buyer for EarlyUnlock {
    fn purchase<'a>(&'a mut self, order: &'a Order) -> BoxFuture<'a, Result<Purchase, Failure>> {
        Box::pin(self.buy(order))
    }
}

impl EarlyUnlock {
    async fn buy(&mut self, order: &Order) -> Result<Purchase, Failure> {
        let turn = Turn::take(&mut self.lock, order, order.wait.max(WAIT_MIN)).await?;
        let Some(held) = turn.held else {
            return Ok(turn.busy());
        };
        let computed = self.compute(order);
        let _ = self.lock.release(held.hold, &mut Onwards).await;
        let purchase = self.commit(order, computed?)?;
        Ok(Purchase {
            contended: held.contended,
            waited_ms: turn.waited_ms,
            ..purchase
        })
    }

    /// Reads and works, entirely inside the lock.
    fn compute(&mut self, order: &Order) -> Result<i64, Failure> {
        let before = self.stock.read(&order.product)?;
        if before >= i64::from(order.quantity) {
            order.work();
        }
        Ok(before)
    }

    /// Writes, outside of the lock.
    fn commit(&mut self, order: &Order, before: i64) -> Result<Purchase, Failure> {
        let after = before - i64::from(order.quantity);
        if after < 0 {
            return Ok(no_stock(before));
        }
        std::thread::sleep(COMMIT.max(10 * order.delay));
        self.stock.write(&order.product, after)?;
        Ok(sold(before, after))
    }
}
