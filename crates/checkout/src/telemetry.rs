//! The Prometheus metrics of the service and of the lock library.
//!
//! | metric | labels | meaning |
//! |---|---|---|
//! | `checkout_orders_total` | `outcome` | orders asked for: `created`, `replayed`, `out_of_stock`, `contended`, `store_down` … |
//! | `checkout_order_seconds` | – | how long an order took |
//! | `checkout_reservations_open` | – | pending orders: neither confirmed, cancelled nor expired |
//! | `checkout_reservations_ended_total` | `ending` | `confirmed`, `cancelled`, `expired` |
//! | `checkout_lock_retries_total` | – | retries of orders that poll for a lock instead of queueing |
//! | `checkout_fences_refused_total` | – | stale locks that the database refused: the last barrier was needed |
//! | `checkout_sweeps_total` | – | sweeps for expired reservations, by the one instance that sweeps |
//! | `checkout_invariant_violations` | – | products whose units do not add up, counted by the sweeper |
//! | `checkout_breaker_opened_total`, `checkout_breaker_open` | – | how often the circuit breaker opened; 1 while it is open, or half open without an answer from the store |
//! | `checkout_locks_active`, `checkout_locks_waiting` | – | locks held and orders waiting in this process |
//! | `checkout_http_requests_total` | `route`, `method`, `status` | answers |
//! | `checkout_http_seconds` | `route` | how long they took |
//! | `checkout_http_in_flight` | – | requests under way |
//! | `checkout_http_shed_total` | – | requests refused because too many were under way |
//!
//! The library adds its own metrics (`fencepost_…`): contention, wait, hold, renewals and losses. A lock whose TTL was violated counts in
//! `fencepost_lost_total`.

use std::time::Duration;

pub use metrics_exporter_prometheus::PrometheusHandle as Handle;
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
pub fn install() -> Result<Handle, BuildError> {
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?
        .install_recorder()
}

/// Initializes counters to zero, so that the first event of a kind shows as an increase.
pub fn init_counters() {
    for outcome in [
        "created",
        "replayed",
        "out_of_stock",
        "contended",
        "store_down",
        "database",
    ] {
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
