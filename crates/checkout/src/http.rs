//! The checkout over HTTP: routes, and the layers around all of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::checkout::Checkout;
use crate::live::Live;

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

pub use input::{Body, PathId};
pub use layers::InFlight;
pub use problem::Problem;

/// Bounds and rights.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// What changes something needs this, where it is set.
    pub admin_token: Option<String>,
    /// Only this machine can reach us.
    pub is_loopback: bool,
    /// The most requests under way, orders included whose customer has left; who comes then is told to come later.
    pub max_in_flight: usize,
    /// How long a request may take.
    pub deadline: Duration,
    /// The longest body.
    pub max_body: usize,
    /// The most who watch events at once; as many again may have the page open.
    pub max_watchers: usize,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            admin_token: None,
            is_loopback: true,
            max_in_flight: 512,
            deadline: Duration::from_secs(5),
            max_body: 256 * 1024,
            max_watchers: 64,
        }
    }
}

/// Routes that the program around the service adds to it.
#[derive(Clone)]
pub struct ExtraRoutes {
    /// The routes. The layers of the service go around them too.
    pub routes: Router<App>,
    /// Their part of `/openapi.json`.
    pub description: utoipa::openapi::OpenApi,
}

/// What every handler can reach. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Parts>);

struct Parts {
    checkout: Checkout,
    settings: HttpSettings,
    metrics: Option<PrometheusHandle>,
    extra: Option<ExtraRoutes>,
    in_flight: InFlight,
    places: Arc<Semaphore>,
    watchers: Arc<Semaphore>,
    pages: Arc<Semaphore>,
    live: Live,
    closing: CancellationToken,
}

impl App {
    /// The service around a checkout, with extra routes where there are any. `closing` ends streams and makes the service not ready.
    pub fn new(
        checkout: Checkout,
        extra: Option<ExtraRoutes>,
        settings: HttpSettings,
        metrics: Option<PrometheusHandle>,
        closing: CancellationToken,
    ) -> Self {
        Self(Arc::new(Parts {
            places: Arc::new(Semaphore::new(settings.max_in_flight)),
            watchers: Arc::new(Semaphore::new(settings.max_watchers)),
            pages: Arc::new(Semaphore::new(settings.max_watchers)),
            in_flight: InFlight::default(),
            live: Live::default(),
            checkout,
            settings,
            metrics,
            extra,
            closing,
        }))
    }

    /// How many requests are under way.
    pub fn in_flight(&self) -> &InFlight {
        &self.0.in_flight
    }

    /// What the page shows.
    pub fn live(&self) -> &Live {
        &self.0.live
    }

    /// The routes, the extra ones included. Further ones may be merged into them; [`layered`](Self::layered) then goes around all.
    pub fn routes(&self) -> Router<App> {
        let extra = self.0.extra.as_ref();
        let extra = extra.map_or_else(Router::new, |extra| extra.routes.clone());
        extra
            .route("/v1/products", get(products::list).post(products::add))
            .route("/v1/products/{id}", get(products::show))
            .route("/v1/checkout/review", post(orders::review))
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

    /// The layers around `routes`, the outermost last: request id and log, shedding, rights, deadline, body limit.
    pub fn layered(&self, routes: Router<App>) -> Router {
        let app = self.clone();
        routes
            .fallback(no_such_page)
            .method_not_allowed_fallback(no_such_method)
            .layer(DefaultBodyLimit::max(self.0.settings.max_body))
            .layer(from_fn_with_state(app.clone(), layers::deadline))
            .layer(from_fn_with_state(app.clone(), access::check))
            .layer(from_fn_with_state(app.clone(), layers::shed))
            .layer(from_fn(layers::no_panic))
            .layer(from_fn_with_state(app.clone(), layers::name_and_log))
            .with_state(app)
    }
}

async fn no_such_page() -> Problem {
    Problem::not_found("there is no such page; /openapi.json describes what there is")
}

async fn no_such_method() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method-not-allowed",
        "Method not allowed",
        "this page does not answer to this method",
    )
}

/// Until when a request is to be answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(pub(crate) Instant);
