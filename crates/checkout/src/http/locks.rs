//! The locks of orders: who holds them, who waits, how it goes.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::access;
use super::input::QueryParameters;
use super::problem::Problem;
use crate::lock_view::{self, ListingFailed, LockView};
use crate::storage::{PRODUCT_LOCK, SWEEP};

const MAX_PATTERN: usize = 200;

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
    QueryParameters(which): QueryParameters<Which>,
) -> Result<Json<LockList>, Problem> {
    let pattern = which.pattern.as_deref().unwrap_or(lock_view::PRODUCTS);
    if pattern.len() > MAX_PATTERN || pattern.contains(char::is_control) {
        return Err(Problem::bad_request(
            "pattern: at most 200 bytes, no control characters",
        ));
    }
    let mut locks = lock_view::matching(app.0.checkout.locks(), pattern)
        .await
        .map_err(store_down)?;
    if !access::shows_token(&headers, &app.0.settings) {
        locks.retain(|lock| is_ours(&lock.name));
    }
    Ok(Json(LockList { locks }))
}

/// Others may keep something in the same store, under names that are nobody's business.
fn is_ours(name: &str) -> bool {
    name == SWEEP || name.starts_with(PRODUCT_LOCK)
}

fn store_down(_: ListingFailed) -> Problem {
    Problem::unavailable("lock-store-down", "the lock store does not serve now")
        .retry_after(Duration::from_secs(1))
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
