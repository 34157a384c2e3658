//! Tests that exactly the documented metrics and spans exist.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost::Locker;
use fencepost::stores::memory::Memory;
use fencepost::testing::{Fault, FlakyStore};
use fencepost::{LostReason, Operation};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshot};
use tracing_subscriber::layer::SubscriberExt;

/// One metric with its labels, as recorded.
struct Seen {
    name: String,
    labels: Vec<String>,
    /// The value of a counter, or the number of values of a histogram.
    count: u64,
}

fn seen(snapshot: Snapshot) -> Vec<Seen> {
    let all = snapshot.into_vec().into_iter();
    all.map(|(key, _, _, value)| Seen {
        name: key.key().name().to_owned(),
        labels: key
            .key()
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect(),
        count: match value {
            DebugValue::Counter(count) => count,
            DebugValue::Histogram(values) => values.len() as u64,
            DebugValue::Gauge(_) => 0,
        },
    })
    .collect()
}

/// Returns the first column of the table in the module's documentation.
fn documented_names() -> BTreeSet<String> {
    let source = include_str!("../src/telemetry.rs");
    let rows = source
        .lines()
        .filter_map(|line| line.strip_prefix("//! | `"));
    rows.filter_map(|row| row.split('`').next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn metrics_tell_what_happened() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let store = FlakyStore::new(Arc::new(Memory::new()));
    let ttl = Duration::from_millis(300);
    // Handles are created when a locker is built.
    let locker = metrics::with_local_recorder(&recorder, || {
        Locker::builder(store.clone()).ttl(ttl).build()
    });
    let locker = locker.expect("valid settings");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.expect("a runtime").block_on(async {
        let guard = locker.acquire("a").await.expect("an answer");
        assert!(locker.try_acquire("a").await.expect("an answer").is_none());
        let mut next = Box::pin(locker.acquire("a"));
        assert!(futures_util::poll!(&mut next).is_pending());
        drop(guard);
        let guard = next.await.expect("an answer");
        store.fail_next(Operation::Acquire, Fault::Refuse);
        assert!(locker.acquire("b").await.is_err());
        // At least one renewal, and then no more.
        tokio::time::sleep(ttl).await;
        store.fail_every(Operation::Renew, Fault::Refuse);
        assert_eq!(guard.lost().await.reason(), LostReason::Expired);
    });
    let store = "store=memory";
    let exactly = [
        ("fencepost_acquires_total", "outcome=granted", 2),
        ("fencepost_acquires_total", "outcome=busy", 1),
        ("fencepost_acquires_total", "outcome=failed", 1),
        ("fencepost_acquire_wait_seconds", store, 2),
        ("fencepost_contended_total", store, 2),
        ("fencepost_hold_seconds", store, 2),
        ("fencepost_handovers_total", store, 1),
        ("fencepost_lost_total", "reason=expired", 1),
        ("fencepost_lost_total", "reason=gone", 0),
    ];
    let all = seen(snapshotter.snapshot());
    let value = |metric: &str, label: &str| -> u64 {
        let matching = all
            .iter()
            .filter(|seen| seen.name == metric && seen.labels.iter().any(|l| l == label));
        matching.map(|seen| seen.count).sum()
    };
    for (metric, label, expected) in exactly {
        assert_eq!(value(metric, label), expected, "{metric} {label}");
    }
    assert!(value("fencepost_renewals_total", "outcome=extended") >= 1);
    assert!(value("fencepost_renewals_total", "outcome=failed") >= 1);
    assert!(value("fencepost_renewal_margin_seconds", store) >= 1);
    let names: BTreeSet<String> = all.iter().map(|seen| seen.name.clone()).collect();
    assert_eq!(
        names,
        documented_names(),
        "the documented table and the metrics agree"
    );
}

#[test]
fn spans_name_the_lock() {
    #[derive(Clone, Default)]
    struct Names(Arc<Mutex<BTreeSet<String>>>);
    impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Names {
        fn on_new_span(
            &self,
            attributes: &tracing::span::Attributes<'_>,
            _: &tracing::span::Id,
            _: tracing_subscriber::layer::Context<'_, S>,
        ) {
            let mut names = self.0.lock().expect("not poisoned");
            let fields = attributes.fields().iter().map(|field| field.name());
            names.insert(format!(
                "{}: {}",
                attributes.metadata().name(),
                fields.collect::<Vec<_>>().join(" ")
            ));
        }
    }
    let names = Names::default();
    let subscriber = tracing_subscriber::registry().with(names.clone());
    tracing::subscriber::with_default(subscriber, || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.expect("a runtime").block_on(async {
            let locker = Locker::new(Arc::new(Memory::new()));
            drop(locker.acquire("a").await.expect("an answer"));
        });
    });
    let names = names.0.lock().expect("not poisoned");
    assert!(names.contains("acquire: store name"), "{names:?}");
}
