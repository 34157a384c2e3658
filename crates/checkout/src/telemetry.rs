//! Metrics of the service and of the library beneath it, as Prometheus reads them.
//!
//! | metric | labels | meaning |
//! |---|---|---|
//! | `checkout_orders_total` | `outcome` | orders asked for: `created`, `replayed`, `out_of_stock`, `contended`, `store_down` … |
//! | `checkout_order_seconds` | – | how long that took |
//! | `checkout_reservations_open` | – | orders that are neither confirmed nor given back |
//! | `checkout_reservations_ended_total` | `ending` | `confirmed`, `cancelled`, `expired` |
//! | `checkout_lock_retries_total` | – | pauses between two tries, where orders do not wait in line |
//! | `checkout_fences_refused_total` | – | late locks that the database refused: the last barrier was needed |
//! | `checkout_sweeps_total` | – | looks for reservations that are over, by the one instance that sweeps |
//! | `checkout_invariant_violations` | – | products whose units do not add up, counted by the one that sweeps |
//! | `checkout_breaker_opened_total`, `checkout_breaker_open` | – | the lock store was left alone; 1 while it is, or would be if anybody asked |
//! | `checkout_locks_active`, `checkout_locks_waiting` | – | locks held and orders waiting in this process |
//! | `checkout_http_requests_total` | `route`, `method`, `status` | answers |
//! | `checkout_http_seconds` | `route` | how long they took |
//! | `checkout_http_in_flight` | – | requests under way |
//! | `checkout_http_shed_total` | – | requests refused because too many were under way |
//!
//! Beside them the library's own (`fencepost_…`): contention, wait, hold, renewals, losses (a lock whose TTL was violated counts in
//! `fencepost_lost_total`).

use std::time::Duration;

pub use metrics_exporter_prometheus::PrometheusHandle as Handle;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};

/// From half a millisecond to ten seconds.
const SECONDS: [f64; 14] = [
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
];

/// How often what was recorded is put in order, so that memory stays bounded when nobody asks.
pub const UPKEEP: Duration = Duration::from_secs(5);

/// Makes this process record, from now on; lockers that are built later are heard, too.
///
/// # Errors
/// Somebody records already.
pub fn install() -> Result<Handle, BuildError> {
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?
        .install_recorder()
}

/// Counters begin at zero, so that the first one of a kind is an increase.
pub fn describe() {
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
