//! Reservations that nobody confirmed in time go back into stock, and old idempotency keys are forgotten, by one instance at a time.
//!
//! The one who sweeps holds a lock for as long as it lives, and shows its fence in every transaction: when it was paused beyond its
//! lease, another sweeps meanwhile, and the database refuses the late one. That it never sweeps a confirmed order does not
//! depend on the lock: only a *pending* order can end, and only once.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use fencepost::Guard;
use metrics::{counter, gauge};
use tokio_util::sync::CancellationToken;

use crate::checkout::Checkout;
use crate::id::Id;
use crate::storage::{Ending, SWEEP, Settled, StorageError};

/// The most orders that are read at once, and the most keys that are removed at once.
const AT_ONCE: i64 = 200;
/// How long a store or database that failed is left alone.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// How often whoever sweeps counts every unit. It reads every reservation there is.
const AUDIT_EVERY: Duration = Duration::from_secs(30);

/// How often to look, for reservations of this length: often enough that nobody waits for long, and not oftener.
pub fn every(reserve_for: Duration) -> Duration {
    (reserve_for / 20).clamp(Duration::from_millis(20), Duration::from_secs(5))
}

/// Sweeps whenever this instance holds the lock, until told to stop.
///
/// # Cancel safety
/// May be dropped at any point: an order that is being ended ends, and the lock goes back.
pub async fn run(
    checkout: Checkout,
    every: Duration,
    keep_keys: Duration,
    stop: CancellationToken,
) {
    let work = async {
        loop {
            match checkout.locks().locker().acquire(SWEEP).await {
                Ok(guard) => {
                    keep_sweeping(&checkout, &guard, every, keep_keys).await;
                    drop(guard);
                    // Where the database has seen larger fences than this store gives, every sweeper is late at once.
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
                Err(error) => {
                    tracing::debug!(store = error.store(), kind = ?error.kind(), "nobody sweeps from here");
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    };
    stop.run_until_cancelled(work).await;
}

/// Returns when the lock is lost.
async fn keep_sweeping(checkout: &Checkout, guard: &Guard, every: Duration, keep_keys: Duration) {
    let work = async {
        let mut audited: Option<Instant> = None;
        loop {
            match sweep(checkout, guard).await {
                Ok(Swept::All(count)) => {
                    counter!("checkout_sweeps_total").increment(1);
                    if count > 0 {
                        tracing::info!(count, "reservations went back into stock");
                    }
                }
                Ok(Swept::Late) => return,
                Err(error) => {
                    tracing::warn!(%error, "cannot sweep");
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
            match forget(checkout, guard, keep_keys).await {
                Ok(Swept::All(0)) => {}
                Ok(Swept::All(count)) => {
                    tracing::info!(count, "old idempotency keys are forgotten")
                }
                Ok(Swept::Late) => return,
                Err(error) => tracing::warn!(%error, "cannot forget old idempotency keys"),
            }
            if audited.is_none_or(|at| at.elapsed() >= AUDIT_EVERY) {
                audited = Some(Instant::now());
                audit(checkout).await;
            }
            tokio::time::sleep(every).await;
        }
    };
    // Lost or late: the next acquisition decides who goes on.
    let _ = guard.run(work).await;
    // From now on somebody else counts; an old count of ours must not stand against it.
    gauge!("checkout_invariant_violations").set(0.0);
}

/// Counts the products whose units do not add up. There is none, unless something is wrong that nothing else has noticed.
async fn audit(checkout: &Checkout) {
    match checkout.storage().balances().await {
        Ok(balances) => {
            let wrong = balances.iter().filter(|balance| !balance.holds());
            let count = wrong
                .inspect(|balance| tracing::error!(?balance, "units do not add up"))
                .count();
            gauge!("checkout_invariant_violations").set(count as f64);
        }
        Err(error) => tracing::warn!(%error, "cannot count units"),
    }
}

/// What a look came to.
#[derive(Debug, PartialEq, Eq)]
enum Swept {
    /// So many orders ended or keys were forgotten, and no other can be.
    All(u64),
    /// Somebody else sweeps now.
    Late,
}

/// Until none is left that can end. An order that cannot be ended keeps nobody else's units back.
async fn sweep(checkout: &Checkout, guard: &Guard) -> Result<Swept, StorageError> {
    let mut ended = 0;
    // They stay where they are, before all others, and would be met again at every look.
    let mut left: HashSet<Id> = HashSet::new();
    // Once it may be about this order, whose rows somebody holds; twice in a row the database does not serve.
    let mut failed_before = false;
    loop {
        let limit = AT_ONCE.saturating_add(i64::try_from(left.len()).unwrap_or(i64::MAX));
        let mut overdue = checkout.storage().overdue(limit).await?;
        overdue.retain(|id| !left.contains(id));
        if overdue.is_empty() {
            return Ok(Swept::All(ended));
        }
        for id in overdue {
            let settled = checkout.settle(id.clone(), Ending::Expire(guard.credential()), ());
            match settled.await {
                Err(error @ (StorageError::Unavailable(_) | StorageError::Displaced)) => {
                    if failed_before {
                        return Err(error);
                    }
                    tracing::warn!(order = %id, %error, "an order cannot be swept now");
                    left.insert(id);
                    failed_before = true;
                    continue;
                }
                Ok(Settled::Done(_)) => ended += 1,
                Ok(Settled::Unread) => {
                    tracing::error!(order = %id, "an order that cannot be read has expired");
                    ended += 1;
                }
                // Confirmed or cancelled in the last moment.
                Ok(Settled::Before(_) | Settled::Unknown) => {
                    left.insert(id);
                }
                Ok(Settled::LateFence) => {
                    counter!("checkout_fences_refused_total").increment(1);
                    return Ok(Swept::Late);
                }
                Err(StorageError::Broken(error)) => {
                    tracing::error!(order = %id, %error, "an order cannot be swept");
                    left.insert(id);
                }
            }
            failed_before = false;
        }
    }
}

/// Until none is left that is old enough, some at a time: orders go on between two transactions.
async fn forget(
    checkout: &Checkout,
    guard: &Guard,
    keep_keys: Duration,
) -> Result<Swept, StorageError> {
    let mut forgotten = 0;
    loop {
        let some = checkout
            .storage()
            .forget_keys(keep_keys, AT_ONCE, guard.credential());
        let Some(count) = some.await? else {
            counter!("checkout_fences_refused_total").increment(1);
            tracing::warn!(
                "the database has seen a larger fence: somebody else sweeps, or the lock store was changed"
            );
            return Ok(Swept::Late);
        };
        forgotten += count;
        if count < AT_ONCE.unsigned_abs() {
            return Ok(Swept::All(forgotten));
        }
    }
}
