//! The locks of orders as they are at one moment: what the store lists, together with what this process knows of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost::{Listed, Moment};
use serde::Serialize;
use utoipa::ToSchema;

use crate::locking::Locks;
use crate::storage::lock_name;

/// The locks of products, and nothing else that is in the store.
pub(crate) const PRODUCTS: &str = "lock:product:*";
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
    /// Host and process of the holder; `null` while it is between two.
    holder: Option<String>,
    /// The fence of the hold, as far as it is known here.
    fence: Option<String>,
    /// Until its lease ends, if it is not renewed.
    ttl_left_ms: Option<u64>,
    /// Since when this process holds it.
    held_ms: Option<u64>,
    /// Since when anybody holds it, where the store knows.
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
    matching(locks, PRODUCTS).await
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
        // Others may be left out by the pattern.
        let is_all = pattern == PRODUCTS;
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

/// `ours` is what the store calls this process: its orders in line are counted by itself.
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
        held_at_store_ms: since.map(|since| ms(now.since(since))),
        waiting_at_store: waiting.filter(|waiter| *waiter.label != *ours).count(),
        waiting_here: 0,
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
