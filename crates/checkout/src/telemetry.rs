//! The Prometheus metrics of the service and of the lock library.
//!
//! The page on the checkout lists them: `docs/checkout.md#metrics`. The library adds its own (`fencepost_…`).

use std::time::Duration;

pub use metrics_exporter_prometheus::PrometheusHandle;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};

/// The buckets of the histograms, from half a millisecond to ten seconds.
const SECONDS: [f64; 14] = [
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
];

/// How often the recorder does its upkeep, so that memory stays bounded even if nobody scrapes the metrics.
pub const UPKEEP: Duration = Duration::from_secs(5);

/// Installs the recorder for this process. Lockers that are built later record to it, too.
///
/// # Errors
/// Returns an error if another recorder is installed already.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?
        .install_recorder()
}

/// Initializes counters to zero, so that the first event of a kind shows as an increase. `reasons` are the reasons to refuse an order.
pub fn init_counters(reasons: &[&'static str]) {
    for &outcome in ["created", "replayed"].iter().chain(reasons) {
        metrics::counter!("checkout_orders_total", "outcome" => outcome).increment(0);
    }
    for ending in ["confirmed", "cancelled", "expired"] {
        metrics::counter!("checkout_reservations_ended_total", "ending" => ending).increment(0);
    }
    for name in [
        "checkout_lock_retries_total",
        "checkout_fences_refused_total",
        "checkout_breaker_opened_total",
        "checkout_http_shed_total",
        "checkout_sweeps_total",
    ] {
        metrics::counter!(name).increment(0);
    }
    metrics::gauge!("checkout_invariant_violations").set(0.0);
}
