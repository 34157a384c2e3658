//! Tests that exactly the documented metrics exist, and that they count what they say.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fencepost::kinds::once::{Began, Outcome};
use fencepost::stores::memory::Memory;
use fencepost::testing::{Fault, FlakyStore};
use fencepost::{Backend, Locker, LostReason, Operation};
use futures_util::poll;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshot, Snapshotter};

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

/// Returns the sum of the values of the metric under this label.
fn value(all: &[Seen], metric: &str, label: &str) -> u64 {
    let matching = all
        .iter()
        .filter(|seen| seen.name == metric && seen.labels.iter().any(|own| own == label));
    matching.map(|seen| seen.count).sum()
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

/// Returns a locker and what it records.
fn recorded(store: Arc<dyn Backend>) -> (Locker, Snapshotter) {
    let recorder = DebuggingRecorder::new();
    // Handles are created when a locker is built.
    let locker = metrics::with_local_recorder(&recorder, || {
        Locker::builder(store).ttl(Duration::from_secs(1)).build()
    });
    (locker.expect("valid settings"), recorder.snapshotter())
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.expect("a runtime").block_on(work)
}

#[test]
fn metrics_tell_what_happened() {
    let store = FlakyStore::new(Arc::new(Memory::new()));
    let (locker, snapshotter) = recorded(store.clone());
    run(async {
        let guard = locker.acquire("a").await.expect("an answer");
        assert!(locker.try_acquire("a").await.expect("an answer").is_none());
        let mut next = Box::pin(locker.acquire("a"));
        assert!(poll!(&mut next).is_pending());
        drop(guard);
        let guard = next.await.expect("an answer");
        store.fail_next(Operation::Acquire, Fault::Refuse);
        assert!(locker.acquire("b").await.is_err());
        // At least one renewal, and then no more.
        while store.requests(Operation::Renew) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
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
    let value = |metric: &str, label: &str| value(&all, metric, label);
    for (metric, label, expected) in exactly {
        assert_eq!(value(metric, label), expected, "{metric} {label}");
    }
    assert!(value("fencepost_renewals_total", "outcome=extended") >= 1);
    assert!(value("fencepost_renewals_total", "outcome=failed") >= 1);
    assert!(value("fencepost_renewal_margin_seconds", store) >= 1);
    let names = all.iter().map(|seen| seen.name.clone());
    let of_kinds = OF_KINDS.iter().map(|(name, _)| (*name).to_owned());
    assert_eq!(
        names.chain(of_kinds).collect::<BTreeSet<String>>(),
        documented_names(),
        "the documented table and the metrics agree"
    );
}

/// What elections and jobs count, each with a label of the test below.
const OF_KINDS: [(&str, &str); 3] = [
    ("fencepost_terms_total", "store=memory"),
    ("fencepost_runs_total", "outcome=completed"),
    ("fencepost_skipped_runs_total", "why=running"),
];

#[test]
fn terms_and_runs_are_counted() {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        run(async {
            let locker = Locker::new(Arc::new(Memory::new()));
            let election = locker.election("scheduler").expect("a valid name");
            let leading = election.campaign("a").await.expect("a free seat");
            assert!(leading.resign().await.is_released());
            let job = locker.once("nightly").expect("a valid name");
            let job = job.at_most(Duration::from_secs(60));
            let Began::Run(running) = job.begin().await.expect("an answer") else {
                panic!("nobody runs it");
            };
            let skipped = job.begin().await.expect("an answer");
            assert!(matches!(skipped, Began::Skipped(_)), "{skipped:?}");
            assert!(running.finish(Outcome::Completed).await.is_released());
        });
    });
    let all = seen(recorder.snapshotter().snapshot());
    for (metric, label) in OF_KINDS {
        assert_eq!(value(&all, metric, label), 1, "{metric} {label}");
    }
}

/// A call that found the lock taken at another process counts as contended when it ends, even if it ends with an error. A call that was
/// dropped counts nowhere, so that no more calls are contended than finished.
#[test]
fn a_call_that_waited_is_contended_however_it_ends_and_not_if_it_is_dropped() {
    let memory = Arc::new(Memory::new());
    let (locker, snapshotter) = recorded(memory.clone());
    run(async {
        let rival = Locker::new(memory);
        let _held = rival.acquire("a").await.expect("a free lock");
        let mut asking = Box::pin(locker.acquire("a"));
        assert!(poll!(&mut asking).is_pending());
        for _ in 0..2 {
            let mut queued = Box::pin(locker.acquire("a"));
            assert!(poll!(&mut queued).is_pending());
        }
        locker.shutdown().await;
        assert!(asking.await.is_err());
        assert!(locker.acquire("b").await.is_err());
    });
    let all = seen(snapshotter.snapshot());
    let outcome = |outcome| value(&all, "fencepost_acquires_total", outcome);
    assert_eq!(outcome("outcome=failed"), 2);
    assert_eq!(outcome("outcome=granted") + outcome("outcome=busy"), 0);
    assert_eq!(value(&all, "fencepost_contended_total", "store=memory"), 1);
}
