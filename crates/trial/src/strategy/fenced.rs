//! `fenced`: the `safe` lock with a resource that checks the fence on every read and write.
//!
//! A late holder still believes in its lock, but the stock refuses it. In a sale the check and the access are one transaction
//! in the stock's database, or one script on the stock's server. In a lock trial the lab's number checks the fence.

use fencepost::clock::BoxFuture;
use fencepost::resource::Credential;

use super::customer::{Onwards, Turn};
use super::library::Library;
use super::{
    Buyer, Failure, Group, Locking, Order, Origin, Remark, Setup, Stores, Strategy, no_stock, sold,
};
use crate::protocol::{Claims, Promise, Purchase};
use crate::store::stock::fenced::FencedStock;

pub(super) static STRATEGY: Strategy = Strategy {
    name: "fenced",
    origin: Origin::Ours,
    group: Group::Locks,
    stores: Stores::All,
    summary: "as safe, and the resource refuses a stale holder",
    gloss: "",
    flaw: None,
    promise: Promise::Exclusion,
    claims: Claims {
        fencing: true,
        ..Claims::OWNED
    },
    has_line: true,
    remark: Remark::Nothing,
    open: |setup| Box::pin(open(setup, false)),
    lock: Some(|setup| Box::pin(lock(setup, false))),
};

/// The same lock with a resource that checks the fence on writes, and lets every read in. Only `trial write-only-fence` is about that.
pub(super) static WRITES_ONLY: Strategy = Strategy {
    name: "fenced-writes",
    summary: "as fenced, but the resource checks the fence on writes only",
    flaw: Some("fenced-writes lets every read in: what a late holder writes in between is lost."),
    claims: Claims {
        fences_writes_only: true,
        ..STRATEGY.claims
    },
    open: |_| Box::pin(async { Err(Failure::definite(NO_SALE)) }),
    ..STRATEGY
};

/// The same lock with keep-alive, and a holder that learns of the loss of its lock. Only labels are about that: it is the reference of locks
/// that are renewed and fenced.
pub(super) static KEPT_ALIVE: Strategy = Strategy {
    name: "fenced-watchdog",
    summary: "as watchdog, and the resource refuses a stale holder",
    claims: Claims {
        keep_alive: true,
        ..STRATEGY.claims
    },
    open: |setup| Box::pin(open(setup, true)),
    lock: Some(|setup| Box::pin(lock(setup, true))),
    ..STRATEGY
};

/// Why `fenced-writes` cannot buy.
const NO_SALE: &str = "fenced-writes is a lock of trials, not of sales";

struct Fenced {
    stock: FencedStock,
    lock: Library,
}

async fn open(setup: Setup, keep_alive: bool) -> Result<Box<dyn Buyer>, Failure> {
    Ok(Box::new(Fenced {
        stock: FencedStock::open(&setup.ground).await?,
        lock: Library::open(&setup, keep_alive).await?,
    }))
}

async fn lock(setup: Setup, keep_alive: bool) -> Result<Box<dyn Locking>, Failure> {
    Ok(Box::new(Library::open(&setup, keep_alive).await?))
}

impl Buyer for Fenced {
    fn purchase<'a>(&'a mut self, order: &'a Order) -> BoxFuture<'a, Result<Purchase, Failure>> {
        Box::pin(self.buy(order))
    }

    fn lock_commands(&self, _: &Order) -> Option<u64> {
        self.lock.commands()
    }
}

impl Fenced {
    async fn buy(&mut self, order: &Order) -> Result<Purchase, Failure> {
        let turn = Turn::take(&mut self.lock, order, order.wait).await?;
        let Some(held) = turn.held else {
            return Ok(turn.busy());
        };
        let guard = self.lock.guard(held.hold);
        let credential = guard.map(fencepost::Guard::credential);
        let credential = credential.ok_or_else(|| Failure::definite("granted, and not held"))?;
        let bought = read_work_write(&mut self.stock, order, credential).await;
        // A purchase stays valid whatever happens to the lock. The lab judges by the stock.
        let _ = self.lock.release(held.hold, &mut Onwards).await;
        Ok(Purchase {
            contended: held.contended,
            waited_ms: turn.waited_ms,
            fence: held.fence,
            ..bought?
        })
    }
}

async fn read_work_write(
    stock: &mut FencedStock,
    order: &Order,
    credential: Credential,
) -> Result<Purchase, Failure> {
    let before = stock.read(&order.product, credential).await?;
    let after = before - i64::from(order.quantity);
    if after < 0 {
        return Ok(no_stock(before));
    }
    order.work();
    stock.write(&order.product, after, credential).await?;
    Ok(sold(before, after))
}
