//! `safe`: a lock with an owner's token, a TTL set in the same step, and a release that checks the owner.
//!
//! The library's lock without its keep-alive: whoever works longer than the TTL is no longer protected.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost::backend::sqlite::Sqlite;
use fencepost::{BoxFuture, Guard, Locker};

use crate::protocol::{Claims, Outcome, Purchase, ReleaseWord};
use crate::stock::Stock;
use crate::strategy::{
    Buyer, Claim, Failure, Group, Halt, Held, Locking, Order, Setup, Strategy, open_stock,
    read_work_write,
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
    lock: Some(|setup| Box::pin(open_lock(setup))),
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

/// Holds locks of the library.
struct Holds {
    locker: Locker,
    guards: std::collections::HashMap<u64, Guard>,
    last: u64,
}

async fn open_lock(setup: Setup) -> Result<Box<dyn Locking>, Failure> {
    let backend = Sqlite::open(&setup.file).await.map_err(Failure::definite)?;
    let locker = Locker::builder(Arc::new(backend))
        .ttl(setup.ttl)
        .keep_alive(false)
        .build()
        .map_err(Failure::definite)?;
    Ok(Box::new(Holds {
        locker,
        guards: std::collections::HashMap::new(),
        last: 0,
    }))
}

impl Locking for Holds {
    fn acquire<'a>(
        &'a mut self,
        key: &'a str,
        wait: Duration,
        halt: &'a mut dyn Halt,
    ) -> BoxFuture<'a, Result<Option<Held>, Failure>> {
        Box::pin(async move {
            let at_once = self
                .locker
                .try_acquire(key)
                .await
                .map_err(Failure::indefinite)?;
            let contended = at_once.is_none();
            let guard = match at_once {
                None if wait > Duration::ZERO => self
                    .locker
                    .acquire_within(key, wait)
                    .await
                    .map_err(Failure::indefinite)?,
                other => other,
            };
            let Some(guard) = guard else { return Ok(None) };
            halt.after(1, 1, "takes the lock");
            self.last += 1;
            let held = Held {
                hold: self.last,
                fence: Some(guard.fence().to_string()),
                valid_ms: None,
                contended,
            };
            self.guards.insert(self.last, guard);
            Ok(Some(held))
        })
    }

    fn knows_lost(&mut self, _hold: u64) -> bool {
        false
    }

    fn release<'a>(
        &'a mut self,
        hold: u64,
        _halt: &'a mut dyn Halt,
    ) -> BoxFuture<'a, Result<ReleaseWord, Failure>> {
        Box::pin(async move {
            let guard = self
                .guards
                .remove(&hold)
                .ok_or_else(|| Failure::definite("no such hold"))?;
            Ok(if guard.release().await.is_released() {
                ReleaseWord::Released
            } else {
                ReleaseWord::AlreadyLost
            })
        })
    }
}
