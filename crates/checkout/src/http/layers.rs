//! The layers around every request: request id, log line, limit of concurrent requests, deadline and panic handler.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use metrics::{counter, gauge, histogram};
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument;

use super::App;
use super::problem::Problem;

const REQUEST_ID: &str = "x-request-id";
/// How long after the deadline an answer may come, if its transaction was already under way.
const GRACE: Duration = Duration::from_millis(500);

/// Counts the requests under way.
#[derive(Debug, Clone, Default)]
pub struct InFlight(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    now: AtomicU64,
    late_while_closing: AtomicU64,
}

/// One request under way; uncounted on drop.
struct InFlightGuard(InFlight);

impl InFlight {
    /// Returns how many requests are under way.
    pub fn count(&self) -> u64 {
        self.0.now.load(Ordering::Relaxed)
    }

    /// Returns how many requests missed their deadline while the service was being stopped.
    pub fn late_while_closing(&self) -> u64 {
        self.0.late_while_closing.load(Ordering::Relaxed)
    }

    fn enter(&self) -> InFlightGuard {
        self.0.now.fetch_add(1, Ordering::Relaxed);
        // Not set to the count: requests that end together could write their counts in the wrong order.
        gauge!("checkout_http_in_flight").increment(1.0);
        InFlightGuard(self.clone())
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.0.now.fetch_sub(1, Ordering::Relaxed);
        gauge!("checkout_http_in_flight").decrement(1.0);
    }
}

/// Gives the request an id, unless it has one, and logs its outcome.
pub(super) async fn name_and_log(State(app): State<App>, request: Request, next: Next) -> Response {
    let _in_flight = app.0.in_flight.enter();
    let began = Instant::now();
    let brought = request.headers().get(REQUEST_ID);
    let id = brought.and_then(|value| value.to_str().ok());
    let id = id
        .filter(|id| is_id(id))
        .map_or_else(random_id, str::to_owned);
    let method = request.method().clone();
    let matched = request.extensions().get::<MatchedPath>();
    // The route, not the path: paths are unbounded and may contain private data.
    let route = matched.map_or_else(|| "other".to_owned(), |path| path.as_str().to_owned());
    // At error level, so that errors carry the id at every log level.
    let span = tracing::error_span!("request", id = %id, method = %method, route = %route);
    let mut response = next.run(request).instrument(span.clone()).await;
    let status = response.status();
    let took = began.elapsed();
    span.in_scope(|| {
        tracing::info!(
            status = status.as_u16(),
            ms = took.as_secs_f64() * 1e3,
            "answered"
        );
    });
    counter!(
        "checkout_http_requests_total",
        "route" => route.clone(), "method" => method_word(&method), "status" => status.as_str().to_owned()
    )
    .increment(1);
    histogram!("checkout_http_seconds", "route" => route).record(took);
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, value);
    }
    // No sniffing of content types, and no caching unless the handler allows it.
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

fn is_id(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(is_plain)
}

fn random_id() -> String {
    format!("{:016x}", getrandom::u64().unwrap_or(0))
}

/// Returns the method as a metric label. Clients can invent methods, so unknown ones share a label.
fn method_word(method: &axum::http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "HEAD" => "HEAD",
        _ => "other",
    }
}

/// Refuses a request at once if too many are under way, instead of answering all of them late.
pub(super) async fn shed(State(app): State<App>, mut request: Request, next: Next) -> Response {
    if is_exempt_from_shedding(request.uri().path()) {
        return next.run(request).await;
    }
    let Ok(permit) = Arc::clone(&app.0.request_permits).try_acquire_owned() else {
        counter!("checkout_http_shed_total").increment(1);
        return Problem::unavailable("overloaded", "too many requests are under way")
            .retry_after(Duration::from_secs(1))
            .into_response();
    };
    request
        .extensions_mut()
        .insert(RequestPermit(Arc::new(permit)));
    next.run(request).await
}

/// A permit for a request under way. Work that goes on after the client has left keeps it.
#[derive(Debug, Clone)]
pub struct RequestPermit(
    #[expect(dead_code, reason = "held for its drop")] Arc<OwnedSemaphorePermit>,
);

/// Returns whether a path is exempt from shedding: health checks and metrics.
fn is_exempt_from_shedding(path: &str) -> bool {
    ["/healthz", "/readyz", "/metrics"].contains(&path)
}

/// The deadline of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline(pub(super) Instant);

/// Passes the deadline to the handler, and answers 504 if there is no answer [`GRACE`] after it. Work that the handler has begun goes on.
pub(super) async fn deadline(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let until = Instant::now() + app.0.settings.deadline;
    request.extensions_mut().insert(Deadline(until));
    let answer = tokio::time::timeout_at((until + GRACE).into(), next.run(request)).await;
    answer.unwrap_or_else(|_| {
        if app.0.closing.is_cancelled() {
            let late = &app.0.in_flight.0.late_while_closing;
            late.fetch_add(1, Ordering::Relaxed);
        }
        Problem::too_late().into_response()
    })
}

/// Turns a panic of a handler into an answer with status 500.
pub(super) async fn catch_panics(request: Request, next: Next) -> Response {
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    answer.unwrap_or_else(|_| {
        tracing::error!("a handler panicked");
        Problem::internal().into_response()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn requests_that_end_together_leave_no_request_in_flight() {
        const THREADS: usize = 4;
        let recorder = PrometheusBuilder::new().build_recorder();
        let (metrics, in_flight) = (recorder.handle(), InFlight::default());
        let (recorder, meet) = (&recorder, &Barrier::new(THREADS));
        for round in 0..2_000 {
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    let in_flight = in_flight.clone();
                    let work = move || {
                        let entered = in_flight.enter();
                        meet.wait();
                        drop(entered);
                    };
                    scope.spawn(move || metrics::with_local_recorder(recorder, work));
                }
            });
            let shown = metrics.render();
            assert!(
                shown
                    .lines()
                    .any(|line| line == "checkout_http_in_flight 0"),
                "round {round}: {shown}"
            );
        }
    }
}
