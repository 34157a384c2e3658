//! A snapshot of the locks of orders: the store's list, combined with what this process knows about its own orders.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost::backend::Listed;
use fencepost::clock::Moment;
use serde::Serialize;
use utoipa::ToSchema;

use super::Locks;
use super::names::{all_product_locks, lock_name};

/// How long the store may take to list them.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The lock store could not list its locks. The reason is in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListingFailed;

/// A lock that is held or wanted now.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub(crate) struct LockView {
    /// Its name.
    #[schema(example = "lock:product:lamp-7")]
    pub(crate) name: String,
    /// Host and process of the holder; `null` between two holders.
    holder: Option<String>,
    /// The fence of the hold, if it is known here.
    fence: Option<String>,
    /// The time until its lease ends, unless it is renewed.
    ttl_left_ms: Option<u64>,
    /// How long this process has held it.
    held_ms: Option<u64>,
    /// How long any process has held it, if the store knows.
    held_at_store_ms: Option<u64>,
    /// Other processes that wait at the store.
    waiting_at_store: usize,
    /// Orders of this process that wait.
    waiting_here: u32,
}

impl LockView {
    /// Returns whether somebody holds it; otherwise somebody waits for it.
    pub(crate) fn is_held(&self) -> bool {
        self.holder.is_some()
    }

    #[cfg(test)]
    pub(crate) fn of(name: String, holder: Option<String>) -> Self {
        Self {
            name,
            holder,
            ..Self::default()
        }
    }
}

/// Returns the locks of products that are held or wanted now.
///
/// # Errors
/// Returns an error if the store does not answer in time, or fails.
///
/// # Cancel safety
/// Changes nothing.
pub(crate) async fn of_products(locks: &Locks) -> Result<Vec<LockView>, ListingFailed> {
    matching(locks, &all_product_locks()).await
}

/// Returns the locks whose names match a pattern and that are held or wanted now.
///
/// # Errors
/// Returns an error if the store does not answer in time, or fails.
///
/// # Cancel safety
/// Changes nothing.
pub(crate) async fn matching(locks: &Locks, pattern: &str) -> Result<Vec<LockView>, ListingFailed> {
    let listing = locks.locker().backend().list(Some(pattern));
    let listed = match tokio::time::timeout(ANSWER_TIMEOUT, listing).await {
        Ok(Ok(listed)) => listed,
        Ok(Err(error)) => {
            tracing::warn!(store = error.store(), kind = ?error.kind(), "cannot list locks");
            return Err(ListingFailed);
        }
        Err(_) => {
            tracing::warn!(timeout = ?ANSWER_TIMEOUT, "cannot list locks: the store does not answer");
            return Err(ListingFailed);
        }
    };
    let (ours, now) = (
        locks.locker().label(),
        locks.locker().backend().clock().now(),
    );
    let mut all: BTreeMap<String, LockView> = listed
        .into_iter()
        .map(|listed| (listed.name.clone(), at_store(listed, ours, now)))
        .collect();
    for (product, seen) in locks.lock_use().seen() {
        let name = lock_name(&product);
        // The pattern may exclude others.
        let is_all = pattern == all_product_locks();
        if !is_all && !all.contains_key(&name) {
            continue;
        }
        let view = all.entry(name.clone()).or_insert_with(|| LockView {
            name,
            ..LockView::default()
        });
        view.waiting_here = seen.waiting;
        if let Some((fence, since)) = seen.held {
            view.fence = Some(fence);
            view.held_ms = Some(ms(since.elapsed()));
        }
    }
    Ok(all.into_values().collect())
}

/// Returns what the store says of a lock. `ours` is the label of this process in the store. Its own waiting orders are counted here, not in
/// the store.
fn at_store(listed: Listed, ours: &str, now: Moment) -> LockView {
    let holder = listed.record.holder.as_ref();
    let since = holder.and_then(|holder| holder.since);
    let waiting = listed.record.waiting.iter();
    LockView {
        name: listed.name,
        holder: holder.map(|holder| holder.label.to_string()),
        fence: holder.and_then(|holder| holder.epoch).map(first_fence),
        ttl_left_ms: holder.and_then(|holder| holder.ttl_left).map(ms),
        held_ms: None,
        held_at_store_ms: since.map(|since| ms(now.saturating_duration_since(since))),
        waiting_at_store: waiting.filter(|waiter| *waiter.label != *ours).count(),
        waiting_here: 0,
    }
}

/// Returns the fence with which a lease was granted. The store does not know of hand-overs inside the holder's process.
fn first_fence(epoch: u64) -> String {
    format!("{epoch}.0")
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use fencepost::Locker;
    use fencepost::stores::sqlite::Sqlite;
    use serde_json::json;

    use super::*;
    use crate::breaker::BreakerSettings;
    use crate::events::Events;
    use crate::locks::WaitPolicy;
    use crate::order::Basket;

    /// Creates the locks of one instance of the service.
    fn instance(store: &Arc<Sqlite>, label: &str) -> Locks {
        let locker = Locker::builder(Arc::<Sqlite>::clone(store)).label(label);
        Locks::new(
            locker.build().unwrap(),
            BreakerSettings::default(),
            WaitPolicy::default(),
            Events::default(),
        )
    }

    #[tokio::test]
    async fn one_lock_has_the_same_fence_in_every_instance() {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(folder.path().join("locks.db")).await.unwrap();
        let store = Arc::new(store);
        let (holder, other) = (instance(&store, "one:1"), instance(&store, "two:2"));
        let request = json!({
            "cart_id": "c-1",
            "user_id": "u-1",
            "shop_orders": [{
                "shop_id": "s-1",
                "item_products": [{ "product_id": "lamp-7", "quantity": 1 }],
            }],
        });
        let basket = Basket::new(serde_json::from_value(request).unwrap()).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        let held = holder.take(&basket, until).await.ok().unwrap();
        let here = of_products(&holder).await.unwrap();
        let there = of_products(&other).await.unwrap();
        assert_eq!((here.len(), there.len()), (1, 1));
        assert!(here[0].held_ms.is_some() && there[0].held_ms.is_none());
        assert!(here[0].fence.is_some());
        assert_eq!(here[0].fence, there[0].fence);
        held.release(&Events::default()).await;
    }
}
