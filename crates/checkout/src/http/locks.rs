//! The endpoints that show the locks of orders and the locking figures of this process.

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
use crate::breaker::BreakerState;
use crate::locks::names::{PRODUCT_LOCK, SWEEP, all_product_locks};
use crate::locks::view::{self, ListingFailed, LockView};

const MAX_PATTERN: usize = 200;

/// Which locks to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LockQuery {
    /// A pattern for names, with `*`, `?` and `[a-z]`. Locks of other programs are left out unless the request has the admin token.
    #[param(
        max_length = 200,
        default = all_product_locks,
        pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$"
    )]
    pattern: Option<String>,
}

/// Locks that are held or wanted now.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LockList {
    /// The locks, sorted by name.
    locks: Vec<LockView>,
}

/// Lists the locks that are held or wanted now
#[utoipa::path(get, path = "/v1/locks", tag = "locks", params(LockQuery),
    responses((status = 200, description = "The locks at this moment", body = LockList)))]
pub(super) async fn list(
    State(app): State<App>,
    headers: HeaderMap,
    QueryParameters(query): QueryParameters<LockQuery>,
) -> Result<Json<LockList>, Problem> {
    let pattern = query.pattern.unwrap_or_else(all_product_locks);
    if pattern.len() > MAX_PATTERN || pattern.contains(char::is_control) {
        return Err(Problem::bad_request(
            "pattern: must have at most 200 bytes and no control characters",
        ));
    }
    let mut locks = view::matching(app.0.checkout.locks(), &pattern)
        .await
        .map_err(store_down)?;
    if !access::has_admin_token(&headers, &app.0.settings) {
        locks.retain(|lock| is_ours(&lock.name));
    }
    Ok(Json(LockList { locks }))
}

/// Restricts the pattern to the locks of this service. Names of other programs in the same store may be private.
fn is_ours(name: &str) -> bool {
    name == SWEEP || name.starts_with(PRODUCT_LOCK)
}

fn store_down(_: ListingFailed) -> Problem {
    Problem::unavailable("lock-store-down", "the lock store is unavailable")
        .retry_after(Duration::from_secs(1))
}

/// The locking figures of this process.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LockFigures {
    /// Locks held now.
    active_locks: u64,
    /// Orders that wait now.
    waiting_orders: u64,
    /// How long successful orders waited for their locks, on average.
    average_wait_ms: f64,
    /// Orders that asked for locks and have an answer.
    attempts: u64,
    /// How many of these did not get their locks.
    failures: u64,
    /// The share of these, 0 to 1.
    failure_rate: f64,
    /// The breaker around the lock store.
    breaker: BreakerState,
}

/// Shows the locking figures of this process
#[utoipa::path(get, path = "/v1/locks/metrics", tag = "locks",
    responses((status = 200, description = "Since the start", body = LockFigures)))]
pub(super) async fn figures(State(app): State<App>) -> Json<LockFigures> {
    let locks = app.0.checkout.locks();
    let counts = locks.lock_use().counts();
    let share = |part: f64, whole: u64| if whole == 0 { 0.0 } else { part / whole as f64 };
    let waited_ms = counts.waited.as_secs_f64() * 1e3;
    Json(LockFigures {
        active_locks: counts.active,
        waiting_orders: counts.waiting,
        average_wait_ms: share(waited_ms, counts.attempts.saturating_sub(counts.failures)),
        attempts: counts.attempts,
        failures: counts.failures,
        failure_rate: share(counts.failures as f64, counts.attempts),
        breaker: locks.breaker_state(),
    })
}
