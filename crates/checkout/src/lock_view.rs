//! A snapshot of the locks of orders: the store's list, combined with what this process knows about its own orders.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost::{Listed, Moment};
use serde::Serialize;
use utoipa::ToSchema;

use crate::locking::Locks;
use crate::storage::{all_product_locks, lock_name};

/// How long the store may take to list them.
const PATIENCE: Duration = Duration::from_secs(2);

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

/// The locks of products that are held or wanted now.
///
/// # Errors
/// Returns an error if the store does not answer in time, or fails.
///
/// # Cancel safety
/// Changes nothing.
pub(crate) async fn of_products(locks: &Locks) -> Result<Vec<LockView>, ListingFailed> {
    matching(locks, &all_product_locks()).await
}

/// The locks whose names match a pattern and that are held or wanted now.
///
/// # Errors
/// Returns an error if the store does not answer in time, or fails.
///
/// # Cancel safety
/// Changes nothing.
pub(crate) async fn matching(locks: &Locks, pattern: &str) -> Result<Vec<LockView>, ListingFailed> {
    let listing = locks.locker().backend().list(Some(pattern));
    let listed = match tokio::time::timeout(PATIENCE, listing).await {
        Ok(Ok(listed)) => listed,
        Ok(Err(error)) => {
            tracing::warn!(store = error.store(), kind = ?error.kind(), "cannot list locks");
            return Err(ListingFailed);
        }
        Err(_) => return Err(ListingFailed),
    };
    let (ours, now) = (
        locks.locker().label(),
        locks.locker().backend().clock().now(),
    );
    let mut all: BTreeMap<String, LockView> = listed
        .into_iter()
        .map(|listed| (listed.name.clone(), at_store(listed, ours, now)))
        .collect();
    for (product, seen) in locks.board().seen() {
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

/// `ours` is the label of this process in the store. Its own waiting orders are counted here, not in the store.
fn at_store(listed: Listed, ours: &str, now: Moment) -> LockView {
    let holder = listed.record.holder.as_ref();
    let since = holder.and_then(|holder| holder.since);
    let waiting = listed.record.waiting.iter();
    LockView {
        name: listed.name,
        holder: holder.map(|holder| holder.label.to_string()),
        fence: holder
            .and_then(|holder| holder.epoch)
            .map(|epoch| epoch.to_string()),
        ttl_left_ms: holder.and_then(|holder| holder.ttl_left).map(ms),
        held_ms: None,
        held_at_store_ms: since.map(|since| ms(now.saturating_duration_since(since))),
        waiting_at_store: waiting.filter(|waiter| *waiter.label != *ours).count(),
        waiting_here: 0,
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
