//! The HTTP routes of the scratch shop: `POST /reset`, `POST /purchase`, `GET /stock/{id}`. A refused purchase is answered with 200, too.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::routing::{any, get, post};
use axum::{Extension, Json, Router};
use fencepost_checkout::http::{App, Body, ExtraRoutes, PathId, Problem, RequestPermit};
use fencepost_checkout::id::Id;
use fencepost_checkout::json::whole;
use fencepost_checkout::order::Quantity;
use fencepost_checkout::product::Amount;
use fencepost_trial::protocol::PurchaseOutcome;
use fencepost_trial::strategy::Failure;
use serde::{Deserialize, Serialize};
use serde_json::Number;
use utoipa::{OpenApi, ToSchema};

use super::lock_strategy::LockStrategy;
use super::scratch_shop::{DEFAULT_PRODUCT, ScratchShop};

/// The longest wait for a lock; shorter than the default deadline.
const MAX_WAIT_MS: u64 = 4_000;

#[derive(OpenApi)]
#[openapi(paths(reset, purchase, stock))]
struct Description;

/// Returns the routes of the shop.
pub(super) fn of(shop: ScratchShop) -> ExtraRoutes {
    let routes = Router::new()
        .route("/reset", post(reset))
        .route("/purchase", post(purchase))
        .route("/stock/{id}", get(stock))
        .with_state(Arc::new(shop));
    ExtraRoutes {
        routes,
        description: Description::openapi(),
    }
}

/// Returns the same paths if the shop is off. They answer how to turn it on, and are not part of the OpenAPI document.
pub(super) fn off() -> ExtraRoutes {
    let paths = ["/reset", "/purchase", "/stock/{id}"];
    let routes = paths
        .into_iter()
        .fold(Router::<App>::new(), |routes, path| {
            routes.route(path, any(no_shop))
        });
    ExtraRoutes {
        routes,
        description: utoipa::openapi::OpenApi::default(),
    }
}

async fn no_shop() -> Problem {
    Problem::not_found("the scratch shop is off: fencepost serve --lab turns it on")
}

/// The stock to set.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Reset {
    /// The product.
    #[serde(default = "default_product")]
    #[schema(default = "default")]
    product_id: Id,
    /// Its units.
    stock: Amount,
}

/// A stock that is set.
#[derive(Debug, Serialize, ToSchema)]
struct ResetDone {
    /// `ok`
    #[schema(example = "ok")]
    status: &'static str,
    /// The product.
    product_id: Id,
    /// Its units.
    stock: i64,
}

/// A stock.
#[derive(Debug, Serialize, ToSchema)]
struct StockLeft {
    /// The product.
    product_id: Id,
    /// Its units.
    stock: i64,
}

/// A purchase.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PurchaseRequest {
    /// The product.
    #[serde(default = "default_product")]
    #[schema(default = "default")]
    product_id: Id,
    /// How many units.
    #[serde(default = "one")]
    #[schema(default = 1)]
    quantity: Quantity,
    /// How to lock.
    #[serde(default)]
    lock_strategy: LockStrategy,
    /// How long to queue for the lock; 0 is one attempt.
    #[serde(default)]
    #[schema(value_type = i64, minimum = 0, maximum = 4000, default = 0)]
    wait_ms: WaitMs,
}

/// How long a purchase queues for its lock.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(try_from = "Number")]
struct WaitMs(u64);

impl TryFrom<Number> for WaitMs {
    type Error = String;

    fn try_from(number: Number) -> Result<Self, String> {
        let wait = whole(&number).and_then(|number| u64::try_from(number).ok());
        let wait = wait.filter(|wait| *wait <= MAX_WAIT_MS);
        wait.map(Self)
            .ok_or_else(|| format!("wait_ms is a whole number from 0 to {MAX_WAIT_MS}"))
    }
}

/// How a purchase went.
#[derive(Debug, Serialize, ToSchema)]
struct PurchaseAnswer {
    /// Which purchase this is. No other purchase has the same name while the service runs.
    #[schema(example = "proc_3")]
    process_id: String,
    /// `false` if the lock was taken.
    lock_acquired: bool,
    /// The stock it read; −1 when it read none.
    stock_before: i64,
    /// The stock afterwards; −1 when it read none.
    stock_after: i64,
    /// How long it took.
    duration_ms: f64,
    /// Whether it was sold.
    success: bool,
    /// Why not: `Failed to acquire lock`, `Insufficient stock` or `Unknown outcome`.
    error: Option<&'static str>,
}

#[allow(clippy::expect_used, reason = "the constant is a valid id")]
fn default_product() -> Id {
    Id::new(DEFAULT_PRODUCT).expect("a valid id")
}

fn one() -> Quantity {
    Quantity::ONE
}

fn failed(failure: &Failure) -> Problem {
    tracing::warn!(%failure, "the shop for load tests failed");
    Problem::unavailable(
        "scratch-store-down",
        "the scratch store is unavailable; if it restarts empty, set the stock again with POST /reset",
    )
    .retry_after(Duration::from_secs(1))
}

/// Sets the stock of a scratch product
#[utoipa::path(post, path = "/reset", tag = "load tests", request_body = Reset,
    responses((status = 200, description = "It is set", body = ResetDone)))]
async fn reset(
    State(shop): State<Arc<ScratchShop>>,
    Body(reset): Body<Reset>,
) -> Result<Json<ResetDone>, Problem> {
    let (product_id, stock) = (reset.product_id, reset.stock.get());
    let set = shop.reset(product_id.to_string(), stock).await;
    set.map_err(|failure| failed(&failure))?;
    let status = "ok";
    Ok(Json(ResetDone {
        status,
        product_id,
        stock,
    }))
}

/// Shows the stock of a scratch product
#[utoipa::path(get, path = "/stock/{id}", tag = "load tests", params(("id" = Id, Path, description = "The product")),
    responses((status = 200, description = "Its stock", body = StockLeft),
    (status = 404, description = "Its stock was never set", body = Problem, content_type = "application/problem+json")))]
async fn stock(
    State(shop): State<Arc<ScratchShop>>,
    PathId(id): PathId,
) -> Result<Json<StockLeft>, Problem> {
    let stock = shop.stock(id.to_string()).await;
    let stock = stock.map_err(|failure| failed(&failure))?;
    let stock = stock.ok_or_else(no_such_product)?;
    Ok(Json(StockLeft {
        product_id: id,
        stock,
    }))
}

/// Buys a scratch product under the lock that is asked for; refused is 200 as well
#[utoipa::path(post, path = "/purchase", tag = "load tests", request_body = PurchaseRequest,
    responses((status = 200, description = "How it went", body = PurchaseAnswer),
    (status = 404, description = "The stock of this product was never set", body = Problem, content_type = "application/problem+json")))]
async fn purchase(
    State(shop): State<Arc<ScratchShop>>,
    Extension(permit): Extension<RequestPermit>,
    Body(wanted): Body<PurchaseRequest>,
) -> Result<Json<PurchaseAnswer>, Problem> {
    let lock = wanted.lock_strategy;
    let quantity = u32::try_from(wanted.quantity.get()).unwrap_or(u32::MAX);
    let (product, wait) = (
        wanted.product_id.to_string(),
        Duration::from_millis(wanted.wait_ms.0),
    );
    let bought = shop.purchase(lock, product, quantity, wait, permit).await;
    let bought = bought.map_err(|failure| failed(&failure))?;
    let bought = bought.ok_or_else(no_such_product)?;
    let purchase = &bought.purchase;
    Ok(Json(PurchaseAnswer {
        process_id: format!("proc_{}", bought.number),
        lock_acquired: purchase.outcome != PurchaseOutcome::Busy,
        stock_before: purchase.before.unwrap_or(-1),
        stock_after: purchase.after.or(purchase.before).unwrap_or(-1),
        duration_ms: (bought.took.as_secs_f64() * 1e6).round() / 1e3,
        success: bought.is_success(),
        error: bought.error(),
    }))
}

fn no_such_product() -> Problem {
    Problem::not_found("the stock of this product was never set: POST /reset")
}
