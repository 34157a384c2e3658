//! The locks of orders: who holds them, who waits, how it goes.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use fencepost::{Listed, Moment};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::access;
use super::input::Asked;
use super::problem::Problem;
use crate::locking::Locks;
use crate::storage::{PRODUCT_LOCK, SWEEP, lock_name};

/// The locks of products, and nothing else that is in the store.
const PRODUCTS: &str = "lock:product:*";
const MAX_PATTERN: usize = 200;
/// How long the store may take to list them.
const PATIENCE: Duration = Duration::from_secs(2);

/// Which locks.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// A pattern with `*`, `?` and `[a-z]` over the names. Names that are not this service's own are left out, unless the admin token is shown.
    #[param(
        max_length = 200,
        default = "lock:product:*",
        pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$"
    )]
    pattern: Option<String>,
}

/// A lock that is held or wanted now.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub(crate) struct LockView {
    /// Its name.
    #[schema(example = "lock:product:lamp-7")]
    name: String,
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

/// Locks that are held or wanted now.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LockList {
    /// By name.
    locks: Vec<LockView>,
}

/// Lists the locks that are held or wanted now
#[utoipa::path(get, path = "/v1/locks", tag = "locks", params(Which),
    responses((status = 200, description = "They may have changed since", body = LockList)))]
pub(super) async fn list(
    State(app): State<App>,
    headers: HeaderMap,
    Asked(which): Asked<Which>,
) -> Result<Json<LockList>, Problem> {
    let pattern = which.pattern.as_deref().unwrap_or(PRODUCTS);
    if pattern.len() > MAX_PATTERN || pattern.contains(char::is_control) {
        return Err(Problem::bad_request(
            "pattern: at most 200 bytes, no control characters",
        ));
    }
    let mut locks = views(app.0.checkout.locks(), pattern).await?;
    if !access::shows_token(&headers, &app.0.settings) {
        locks.retain(|lock| is_ours(&lock.name));
    }
    Ok(Json(LockList { locks }))
}

/// Others may keep something in the same store, under names that are nobody's business.
fn is_ours(name: &str) -> bool {
    name == SWEEP || name.starts_with(PRODUCT_LOCK)
}

/// The locks of products that are held or wanted now.
///
/// # Errors
/// The store does not serve.
///
/// # Cancel safety
/// Changes nothing.
pub(crate) async fn of_products(locks: &Locks) -> Result<Vec<LockView>, Problem> {
    views(locks, PRODUCTS).await
}

async fn views(locks: &Locks, pattern: &str) -> Result<Vec<LockView>, Problem> {
    let listing = locks.locker().backend().list(Some(pattern));
    let listed = match tokio::time::timeout(PATIENCE, listing).await {
        Ok(Ok(listed)) => listed,
        Ok(Err(error)) => {
            tracing::warn!(store = error.store(), kind = ?error.kind(), "cannot list locks");
            return Err(store_down());
        }
        Err(_) => return Err(store_down()),
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

fn store_down() -> Problem {
    Problem::unavailable("lock-store-down", "the lock store does not serve now")
        .retry_after(Duration::from_secs(1))
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

/// How locking goes in this process.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LockFigures {
    /// Locks held now.
    active_locks: u64,
    /// Orders that wait now.
    waiting_orders: u64,
    /// How long those who got their locks waited, on average.
    average_wait_ms: f64,
    /// Orders that asked for locks and know the answer.
    attempts: u64,
    /// Of these, how many got none.
    failures: u64,
    /// Their share, 0 to 1.
    failure_rate: f64,
    /// The breaker around the lock store: `closed`, `open` or `half_open`.
    #[schema(example = "closed")]
    breaker: &'static str,
}

/// Shows how locking goes in this process
#[utoipa::path(get, path = "/v1/locks/metrics", tag = "locks",
    responses((status = 200, description = "Since the start", body = LockFigures)))]
pub(super) async fn figures(State(app): State<App>) -> Json<LockFigures> {
    let locks = app.0.checkout.locks();
    let sums = locks.board().sums();
    let share = |part: f64, whole: u64| if whole == 0 { 0.0 } else { part / whole as f64 };
    let waited_ms = sums.waited.as_secs_f64() * 1e3;
    Json(LockFigures {
        active_locks: sums.active,
        waiting_orders: sums.waiting,
        average_wait_ms: share(waited_ms, sums.attempts.saturating_sub(sums.failures)),
        attempts: sums.attempts,
        failures: sums.failures,
        failure_rate: share(sums.failures as f64, sums.attempts),
        breaker: locks.breaker(),
    })
}
