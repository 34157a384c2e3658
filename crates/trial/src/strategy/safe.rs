//! `safe`: a lock with an owner's token, a TTL set in the same step, and a release that checks the owner.
//!
//! The library's lock without its keep-alive: whoever works longer than the TTL is no longer protected.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost::backend::sqlite::Sqlite;
use fencepost::{BoxFuture, Guard, Locker};

use crate::protocol::{Claims, Outcome, Purchase};
use crate::stock::Stock;
use crate::strategy::{
    Buyer, Claim, Failure, Group, Order, Setup, Strategy, open_stock, read_work_write,
};

pub(super) static STRATEGY: Strategy = Strategy {
    name: "safe",
    group: Group::Locks,
    summary: "owner's token, TTL in the same step, release checks the owner; no keep-alive",
    gloss: "",
    flaw: None,
    claim: Claim::Exclusion,
    claims: Claims {
        fencing: false,
        keep_alive: false,
        fair: false,
        recovery_ms: None,
    },
    open: |setup| Box::pin(open(setup)),
    lock: None,
};

struct Safe {
    stock: Stock,
    locker: Locker,
}

async fn open(setup: Setup) -> Result<Box<dyn Buyer>, Failure> {
    let backend = Sqlite::open(&setup.file).await.map_err(Failure::definite)?;
    let locker = Locker::builder(Arc::new(backend))
        .ttl(setup.ttl)
        .keep_alive(false)
        .build();
    let locker = locker.map_err(Failure::definite)?;
    Ok(Box::new(Safe {
        stock: open_stock(&setup.file)?,
        locker,
    }))
}

impl Buyer for Safe {
    fn purchase<'a>(&'a mut self, order: &'a Order) -> BoxFuture<'a, Result<Purchase, Failure>> {
        Box::pin(self.buy(order))
    }
}

impl Safe {
    async fn buy(&mut self, order: &Order) -> Result<Purchase, Failure> {
        let asked = Instant::now();
        // Without the lock nothing is bought, whatever became of the request.
        let at_once = self
            .locker
            .try_acquire(order.product.as_str())
            .await
            .map_err(Failure::definite)?;
        let contended = at_once.is_none();
        let guard = match at_once {
            Some(guard) => Some(guard),
            None => wait(&self.locker, order).await?,
        };
        let waited_ms = if contended {
            asked.elapsed().as_secs_f64() * 1e3
        } else {
            0.0
        };
        let Some(guard) = guard else {
            let outcome = Outcome::Busy;
            return Ok(Purchase {
                outcome,
                before: None,
                after: None,
                contended,
                waited_ms,
                fence: None,
                effort: None,
            });
        };
        let fence = Some(guard.fence().to_string());
        let bought = read_work_write(&mut self.stock, order);
        // What was bought stays bought, even if the lock turns out to be lost: the lab judges by the stock.
        let _ = guard.release().await;
        Ok(Purchase {
            contended,
            waited_ms,
            fence,
            ..bought?
        })
    }
}

async fn wait(locker: &Locker, order: &Order) -> Result<Option<Guard>, Failure> {
    if order.wait == Duration::ZERO {
        return Ok(None);
    }
    let turn = locker
        .acquire_within(order.product.as_str(), order.wait)
        .await;
    turn.map_err(Failure::definite)
}
