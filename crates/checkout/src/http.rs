//! The HTTP interface of the checkout: its routes and the layers around them.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::checkout::Checkout;
use crate::live::Live;
use crate::telemetry::PrometheusHandle;

mod access;
mod health;
mod input;
mod layers;
mod locks;
mod openapi;
mod orders;
pub(crate) mod page;
mod problem;
mod products;
mod watch;

pub use access::AdminToken;
pub use input::{Body, PathId};
pub use layers::{InFlight, RequestPermit};
pub use problem::Problem;

/// Limits of requests, and the admin token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSettings {
    /// The token that requests need in order to change anything, if it is set.
    pub admin_token: Option<AdminToken>,
    /// Whether only this machine can reach the service.
    pub is_loopback: bool,
    /// How many requests may be under way, including orders whose customer has left. Further requests are refused with 503.
    pub max_in_flight: usize,
    /// The deadline of a request. A 504 follows half a second after it.
    pub deadline: Duration,
    /// The longest body, in bytes.
    pub max_body_bytes: usize,
    /// How many clients may watch events at once; as many again may have the page open.
    pub max_watchers: usize,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            admin_token: None,
            is_loopback: true,
            max_in_flight: 512,
            deadline: Duration::from_secs(5),
            max_body_bytes: 256 * 1024,
            max_watchers: 64,
        }
    }
}

/// Routes that the program adds to the service.
#[derive(Clone)]
pub struct ExtraRoutes {
    /// The routes. The layers of the service apply to them, too.
    pub routes: Router<App>,
    /// Their part of `/openapi.json`.
    pub description: utoipa::openapi::OpenApi,
}

/// The state that all handlers share. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Parts>);

struct Parts {
    checkout: Checkout,
    settings: HttpSettings,
    metrics: PrometheusHandle,
    extra: ExtraRoutes,
    in_flight: InFlight,
    request_permits: Arc<Semaphore>,
    watcher_permits: Arc<Semaphore>,
    page_permits: Arc<Semaphore>,
    live: Live,
    closing: CancellationToken,
}

impl App {
    /// Creates the HTTP state for a checkout, with extra routes. `closing` ends streams.
    pub fn new(
        checkout: Checkout,
        extra: ExtraRoutes,
        settings: HttpSettings,
        metrics: PrometheusHandle,
        closing: CancellationToken,
    ) -> Self {
        Self(Arc::new(Parts {
            request_permits: Arc::new(Semaphore::new(settings.max_in_flight)),
            watcher_permits: Arc::new(Semaphore::new(settings.max_watchers)),
            page_permits: Arc::new(Semaphore::new(settings.max_watchers)),
            in_flight: InFlight::default(),
            live: Live::default(),
            checkout,
            settings,
            metrics,
            extra,
            closing,
        }))
    }

    /// Returns how many requests are under way.
    pub fn in_flight(&self) -> &InFlight {
        &self.0.in_flight
    }

    /// Returns the data of the live page.
    pub fn live(&self) -> &Live {
        &self.0.live
    }

    /// Returns all routes, including the extra ones. More can be merged into them before [`layered`](Self::layered) adds the layers.
    pub fn routes(&self) -> Router<App> {
        let extra = self.0.extra.routes.clone();
        extra
            .route("/v1/products", get(products::list).post(products::add))
            .route("/v1/products/{id}", get(products::show))
            .route(access::REVIEW_PATH, post(orders::review))
            .route("/v1/checkout/order", post(orders::order))
            .route("/v1/orders/{id}", get(orders::show))
            .route("/v1/orders/{id}/confirm", post(orders::confirm))
            .route("/v1/orders/{id}/cancel", post(orders::cancel))
            .route("/v1/locks", get(locks::list))
            .route("/v1/locks/metrics", get(locks::figures))
            .route("/v1/invariant", get(products::invariant))
            .route("/v1/events", get(watch::events))
            .route("/healthz", get(health::alive))
            .route("/readyz", get(health::ready))
            .route("/metrics", get(health::metrics))
            .route("/openapi.json", get(openapi::show))
    }

    /// Adds the layers to `routes`, from the innermost to the outermost.
    pub fn layered(&self, routes: Router<App>) -> Router {
        let app = self.clone();
        routes
            .fallback(no_such_page)
            .method_not_allowed_fallback(no_such_method)
            .layer(DefaultBodyLimit::max(self.0.settings.max_body_bytes))
            .layer(from_fn_with_state(app.clone(), layers::deadline))
            .layer(from_fn_with_state(app.clone(), access::authorize))
            .layer(from_fn_with_state(app.clone(), layers::shed))
            .layer(from_fn(layers::catch_panics))
            .layer(from_fn_with_state(app.clone(), layers::name_and_log))
            .with_state(app)
    }
}

async fn no_such_page() -> Problem {
    Problem::not_found("no such path; /openapi.json describes the API")
}

async fn no_such_method() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method-not-allowed",
        "Method not allowed",
        "this path does not support this method",
    )
}
