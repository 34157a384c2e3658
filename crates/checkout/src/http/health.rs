//! The endpoints for liveness, readiness and metrics.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use fencepost::LockName;
use metrics::gauge;
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use super::problem::Problem;
use crate::breaker::BreakerState;
use crate::locks::names::SWEEP;
use crate::storage::StorageError;

/// How long a store may take to answer a health check.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// What an operator does if the database file was removed or replaced.
const DATABASE_GONE: &str = "the database file was removed or replaced while the service was running. Put the original file back. A restart loses a file that was removed. If the file was replaced, stop the service and remove the -wal and -shm files of the original before you start it again";

/// The answer of a healthy service.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// `ok`
    #[schema(example = "ok")]
    status: &'static str,
}

/// Reports that the process is alive
#[utoipa::path(get, path = "/healthz", tag = "service",
    responses((status = 200, description = "The process is alive", body = Health)))]
pub(super) async fn alive() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Reports whether orders can be made: both stores answer
#[utoipa::path(get, path = "/readyz", tag = "service",
    responses((status = 200, description = "Orders can be made", body = Health)))]
pub(super) async fn ready(State(app): State<App>) -> Result<Json<Health>, Problem> {
    let down = |what| Err(Problem::unavailable("not-ready", what).retry_after(ANSWER_TIMEOUT));
    let storage = app.0.checkout.storage().ping();
    match tokio::time::timeout(ANSWER_TIMEOUT, storage).await {
        Ok(Ok(())) => {}
        Ok(Err(StorageError::DatabaseGone)) => return down(DATABASE_GONE),
        Ok(Err(error)) => {
            tracing::warn!(%error, "not ready");
            return down("the database cannot be used");
        }
        Err(_) => return down("the database does not answer"),
    }
    if lock_store_answers(&app).await {
        Ok(Json(Health { status: "ok" }))
    } else {
        down("the lock store does not answer")
    }
}

async fn lock_store_answers(app: &App) -> bool {
    let Ok(name) = LockName::new(SWEEP) else {
        return false;
    };
    let backend = app.0.checkout.locks().locker().backend();
    let asked = tokio::time::timeout(ANSWER_TIMEOUT, backend.inspect(&name)).await;
    matches!(asked, Ok(Ok(_)))
}

/// Returns whether to report the breaker as open. If it is half open, asks the store itself: only an order closes the breaker, and there
/// may be none.
async fn breaker_is_open(app: &App) -> bool {
    match app.0.checkout.locks().breaker_state() {
        BreakerState::Closed => false,
        BreakerState::Open => true,
        BreakerState::HalfOpen => !lock_store_answers(app).await,
    }
}

/// Returns the metrics in the format of Prometheus
#[utoipa::path(get, path = "/metrics", tag = "service",
    responses((status = 200, description = "Text", body = String, content_type = "text/plain")))]
pub(super) async fn metrics(State(app): State<App>) -> impl IntoResponse {
    let locks = app.0.checkout.locks();
    let counts = locks.lock_use().counts();
    gauge!("checkout_locks_active").set(counts.active as f64);
    gauge!("checkout_locks_waiting").set(counts.waiting as f64);
    // An unavailable store or database must not hide the other figures, so both together take less than Prometheus waits.
    let counts = tokio::time::timeout(ANSWER_TIMEOUT, app.0.checkout.storage().counts());
    let (is_open, counts) = tokio::join!(breaker_is_open(&app), counts);
    gauge!("checkout_breaker_open").set(f64::from(u8::from(is_open)));
    if let Ok(Ok((products, open))) = counts {
        gauge!("checkout_products").set(products as f64);
        gauge!("checkout_reservations_open").set(open as f64);
    }
    let kind = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    (kind, app.0.metrics.render())
}
