//! The sweeper: returns the units of expired reservations to stock and deletes old idempotency keys, in one instance at a time.
//!
//! The sweeper holds a lock for as long as it runs and sends its fence with every transaction. If it is paused beyond its lease, another
//! instance takes over, and the database refuses the stale one. The lock is not needed to protect confirmed orders: only a *pending* order
//! can expire, and only once.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use fencepost::Guard;
use metrics::{counter, gauge};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::audit::{Audit, Count};
use crate::checkout::Checkout;
use crate::id::Id;
use crate::locks::names::SWEEP;
use crate::storage::{Ending, Settled, StorageError};

/// How many orders are read and how many keys are deleted in one transaction at most.
const BATCH_SIZE: i64 = 200;
/// The pause after the store or the database failed.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// How often the sweeper counts all units, unless somebody else has counted them.
const AUDIT_EVERY: Duration = Duration::from_secs(30);

/// Returns how often to look for expired reservations, given how long reservations last.
pub(crate) fn interval(reserve_for: Duration) -> Duration {
    (reserve_for / 20).clamp(Duration::from_millis(20), Duration::from_secs(5))
}

/// Sweeps whenever this instance holds the lock, until it is told to stop.
///
/// # Cancel safety
/// The future may be dropped at any point: an operation under way completes, and the lock is released.
pub(crate) async fn run(
    checkout: Checkout,
    interval: Duration,
    keep_keys: Duration,
    stop: CancellationToken,
) {
    let work = async {
        loop {
            match checkout.locks().locker().acquire(SWEEP).await {
                Ok(guard) => {
                    keep_sweeping(&checkout, &guard, interval, keep_keys).await;
                    drop(guard);
                    // If the database has seen larger fences than this lock store issues, every sweeper is stale at once.
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
                Err(error) => {
                    tracing::debug!(store = error.store(), kind = ?error.kind(), "cannot take the lock of the sweeper");
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    };
    stop.run_until_cancelled(work).await;
}

/// Sweeps until the lock is lost.
async fn keep_sweeping(
    checkout: &Checkout,
    guard: &Guard,
    interval: Duration,
    keep_keys: Duration,
) {
    let work = async {
        let mut shown_count = ShownCount::default();
        loop {
            match sweep(checkout, guard).await {
                Ok(Swept::All(count)) => {
                    counter!("checkout_sweeps_total").increment(1);
                    if count > 0 {
                        tracing::info!(count, "reservations went back into stock");
                    }
                }
                Ok(Swept::Stale) => return,
                Err(error) => {
                    tracing::warn!(%error, "cannot sweep");
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
            match forget(checkout, guard, keep_keys).await {
                Ok(Swept::All(0)) => {}
                Ok(Swept::All(count)) => {
                    tracing::info!(count, "deleted old idempotency keys")
                }
                Ok(Swept::Stale) => return,
                Err(error) => tracing::warn!(%error, "cannot delete old idempotency keys"),
            }
            shown_count.renew(checkout.audit()).await;
            tokio::time::sleep(interval).await;
        }
    };
    // The lock is lost or stale: the next acquisition decides which instance goes on.
    let _ = guard.run(work).await;
    // Another instance counts from now on, so reset the count of this one.
    gauge!("checkout_invariant_violations").set(0.0);
}

/// The count that the gauge shows: how many products have units that do not add up. There are none unless something went wrong unnoticed.
struct ShownCount {
    due: Instant,
    shown: Option<Arc<Count>>,
}

impl Default for ShownCount {
    fn default() -> Self {
        Self {
            due: Instant::now(),
            shown: None,
        }
    }
}

impl ShownCount {
    /// Shows the newest count, and counts when it is time.
    async fn renew(&mut self, audit: &Audit) {
        if Instant::now() >= self.due {
            self.due = Instant::now() + AUDIT_EVERY;
            if let Err(error) = audit.no_older_than(AUDIT_EVERY).await {
                tracing::warn!(%error, "cannot count units");
            }
        }
        // The live page counts more often while somebody watches.
        let Some(count) = audit.last() else { return };
        if self
            .shown
            .as_ref()
            .is_some_and(|shown| Arc::ptr_eq(shown, &count))
        {
            return;
        }
        for balance in &count.violations {
            tracing::error!(?balance, "units do not add up");
        }
        gauge!("checkout_invariant_violations").set(count.violations.len() as f64);
        self.due = count.ended + AUDIT_EVERY;
        self.shown = Some(count);
    }
}

/// The outcome of a sweep.
#[derive(Debug, PartialEq, Eq)]
enum Swept {
    /// All expired orders or keys were handled; contains their number.
    All(u64),
    /// Another instance is the sweeper now.
    Stale,
}

/// Reports that the database refused the fence of this sweeper.
fn refused() -> Swept {
    counter!("checkout_fences_refused_total").increment(1);
    tracing::warn!(
        "the database has seen a larger fence: another instance sweeps, or the lock store was changed"
    );
    Swept::Stale
}

/// Expires orders until none is left. An order that cannot be expired does not hold up the others.
async fn sweep(checkout: &Checkout, guard: &Guard) -> Result<Swept, StorageError> {
    let mut ended = 0;
    // Orders that could not be expired stay at the front of the list, so skip them in the following queries.
    let mut left: HashSet<Id> = HashSet::new();
    // One failure may concern a single order whose rows are locked; two in a row mean that the database is unavailable.
    let mut failed_before = false;
    loop {
        let limit = BATCH_SIZE.saturating_add(i64::try_from(left.len()).unwrap_or(i64::MAX));
        let mut overdue = checkout.storage().overdue(limit).await?;
        overdue.retain(|id| !left.contains(id));
        if overdue.is_empty() {
            return Ok(Swept::All(ended));
        }
        for id in overdue {
            let settled = checkout.settle(id.clone(), Ending::Expire(guard.credential()), ());
            match settled.await {
                Err(error @ (StorageError::Unavailable(_) | StorageError::DatabaseGone)) => {
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
                // It was confirmed or cancelled at the last moment.
                Ok(Settled::Unchanged(_) | Settled::Unknown) => {
                    left.insert(id);
                }
                Ok(Settled::StaleFence) => return Ok(refused()),
                Err(StorageError::Broken(error)) => {
                    tracing::error!(order = %id, %error, "an order cannot be swept");
                    left.insert(id);
                }
            }
            failed_before = false;
        }
    }
}

/// Deletes old keys in batches until none is left, so that orders can proceed between two transactions.
async fn forget(
    checkout: &Checkout,
    guard: &Guard,
    keep_keys: Duration,
) -> Result<Swept, StorageError> {
    let mut forgotten = 0;
    loop {
        let some = checkout
            .storage()
            .forget_keys(keep_keys, BATCH_SIZE, guard.credential());
        let Some(count) = some.await? else {
            return Ok(refused());
        };
        forgotten += count;
        if count < BATCH_SIZE.unsigned_abs() {
            return Ok(Swept::All(forgotten));
        }
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;
    use serde_json::json;

    use super::*;
    use crate::storage::Storage;
    use crate::storage::sqlite::SqliteStorage;

    #[tokio::test]
    async fn the_gauge_agrees_with_what_the_page_has_counted() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let metrics = recorder.handle();
        let _recorder = metrics::set_default_local_recorder(&recorder);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let storage = SqliteStorage::open(&path).unwrap();
        let lamp = json!({"shop_id": "s", "name": "Lamp", "price_cents": 1, "stock": 5});
        let (lamp, id) = (serde_json::from_value(lamp), Id::new("lamp"));
        let added = storage.add_product(lamp.unwrap(), id.unwrap());
        added.await.unwrap().unwrap();
        let audit = Audit::new(Arc::new(storage));
        let mut shown_count = ShownCount::default();
        let shown = |violations: u32| {
            let text = metrics.render();
            let line = format!("checkout_invariant_violations {violations}");
            assert!(text.lines().any(|other| other == line), "{text}");
        };
        shown_count.renew(&audit).await;
        shown(0);
        // A unit is reserved without an order.
        let file = rusqlite::Connection::open(&path).unwrap();
        let change = "UPDATE checkout_products SET stock = stock - 1, reserved = reserved + 1";
        assert_eq!(file.execute(change, []).unwrap(), 1);
        shown_count.renew(&audit).await;
        shown(0);
        // As the live page does.
        audit.no_older_than(Duration::ZERO).await.unwrap();
        shown_count.renew(&audit).await;
        shown(1);
    }
}
