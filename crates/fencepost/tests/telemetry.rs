//! Tests that exactly the documented spans and events exist. `metrics.rs` does the same for metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost::stores::memory::Memory;
use fencepost::testing::{FakeClock, Fault, FlakyStore};
use fencepost::{Backend, Claim, Guard, Locker, LostReason, Operation};
use tracing_subscriber::layer::SubscriberExt;

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

/// The fields of an event besides its message, each as `name=value`.
type Fields = Vec<String>;

/// Records the events of this crate: level, message, fields.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<(String, String, Fields)>>>);

impl Events {
    /// Returns the fields of each event with this message.
    fn of(&self, message: &str) -> Vec<Fields> {
        let all = self.0.lock().expect("not poisoned");
        let matching = all.iter().filter(|(_, seen, _)| seen == message);
        matching.map(|(_, _, fields)| fields.clone()).collect()
    }
}

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Events {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        #[derive(Default)]
        struct Visitor {
            message: String,
            fields: Fields,
        }
        impl tracing::field::Visit for Visitor {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                if field.name() == "message" {
                    write!(self.message, "{value:?}").expect("a string");
                } else {
                    self.fields.push(format!("{}={value:?}", field.name()));
                }
            }
        }
        if !event.metadata().target().starts_with("fencepost") {
            return;
        }
        let mut visitor = Visitor::default();
        event.record(&mut visitor);
        let level = event.metadata().level().as_str().to_lowercase();
        let mut all = self.0.lock().expect("not poisoned");
        all.push((level, visitor.message, visitor.fields));
    }
}

/// Returns the table of events in the module's documentation: message, and then level and fields.
fn documented_events() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let source = include_str!("../src/telemetry.rs");
    let rows = source
        .lines()
        .filter_map(|line| line.strip_prefix("//! | \""));
    rows.map(|row| {
        let mut cells = row.split('|').map(str::trim);
        let message = cells.next().expect("a message").trim_end_matches('"');
        let level = cells.next().expect("a level");
        let fields = cells.next().expect("fields").split('`').skip(1).step_by(2);
        let fields = fields.map(str::to_owned).collect();
        (message.to_owned(), (level.to_owned(), fields))
    })
    .collect()
}

/// A locker with a fake clock, whose store fails on demand.
struct Stage {
    clock: Arc<FakeClock>,
    memory: Arc<Memory>,
    store: Arc<FlakyStore>,
    locker: Locker,
}

const TTL: Duration = Duration::from_secs(10);

impl Stage {
    fn new() -> Self {
        let clock = FakeClock::new();
        let memory = Arc::new(Memory::with_clock(clock.clone()));
        let store = FlakyStore::new(memory.clone());
        let locker = Locker::builder(store.clone()).ttl(TTL).build();
        Self {
            locker: locker.expect("valid settings"),
            clock,
            memory,
            store,
        }
    }

    async fn take(&self) -> Guard {
        self.locker.acquire("a").await.expect("a free lock")
    }

    async fn pass(&self, time: Duration) {
        let step = Duration::from_millis(100);
        self.clock.advance_in_steps(time, step).await;
    }
}

/// Returns the events while `work` runs.
fn events_of(work: impl AsyncFnOnce()) -> Events {
    let events = Events::default();
    let subscriber = tracing_subscriber::registry().with(events.clone());
    tracing::subscriber::with_default(subscriber, || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.expect("a runtime").block_on(work());
    });
    events
}

/// Loses a lock because no renewal succeeds.
async fn expire() {
    let stage = Stage::new();
    let guard = stage.take().await;
    stage.store.fail_every(Operation::Renew, Fault::Refuse);
    stage.pass(TTL).await;
    assert!(guard.is_lost());
}

/// Loses a lock because somebody releases it by force.
async fn disappear() {
    let stage = Stage::new();
    let guard = stage.take().await;
    let claim = Claim::new(guard.name().clone(), guard.owner(), TTL);
    let freed = stage.memory.release(&claim).await.expect("an answer");
    assert_eq!(freed, fencepost::backend::Release::Freed);
    stage.pass(TTL / 2).await;
    assert!(guard.is_lost());
}

/// Shuts a locker down while a guard is alive and the store does not answer.
async fn shut_down() {
    let stage = Stage::new();
    let guard = stage.take().await;
    stage.store.fail_every(Operation::Release, Fault::Swallow);
    tokio::join!(stage.locker.shutdown(), stage.pass(TTL * 3));
    assert!(guard.is_lost());
}

/// Drops a guard while the store refuses every release.
async fn fail_to_release() {
    let stage = Stage::new();
    stage.store.fail_every(Operation::Release, Fault::Refuse);
    drop(stage.take().await);
    stage.pass(TTL * 3).await;
}

#[test]
fn every_lost_lock_is_logged_once_with_its_reason() {
    for (reason, events) in [
        (LostReason::Expired, events_of(expire)),
        (LostReason::Gone, events_of(disappear)),
        (LostReason::Shutdown, events_of(shut_down)),
        (
            LostReason::Expired,
            events_of(async || {
                // The holder notices before the keeper does.
                let stage = Stage::new();
                let guard = stage.take().await;
                stage.clock.jump(TTL);
                assert!(guard.is_lost());
                assert_eq!(guard.lost().await.reason(), LostReason::Expired);
                stage.pass(TTL).await;
                drop(guard);
            }),
        ),
    ] {
        let logged = events.of("lock lost");
        assert_eq!(logged.len(), 1, "{reason:?}: {logged:?}");
        let expected = ["name=a".to_owned(), format!("reason={reason:?}")];
        for field in expected {
            assert!(logged[0].contains(&field), "{field}: {logged:?}");
        }
    }
}

#[test]
fn events_are_as_documented() {
    let documented = documented_events();
    let mut seen = BTreeSet::new();
    for events in [
        events_of(expire),
        events_of(disappear),
        events_of(shut_down),
        events_of(fail_to_release),
    ] {
        for (level, message, fields) in &*events.0.lock().expect("not poisoned") {
            let (expected, names) = documented
                .get(message)
                .unwrap_or_else(|| panic!("not in the table: {message}"));
            assert_eq!(level, expected, "{message}");
            let fields = fields.iter().filter_map(|field| field.split('=').next());
            let fields: BTreeSet<String> = fields.map(str::to_owned).collect();
            assert_eq!(&fields, names, "{message}");
            seen.insert(message.clone());
        }
    }
    for message in [
        "lock lost",
        "renewal failed",
        "shut down before the store had confirmed every release",
        "release failed, trying again",
        "release unanswered, trying again",
        "could not release; left to its TTL",
    ] {
        assert!(seen.contains(message), "{message}: {seen:?}");
    }
}

#[test]
fn every_warning_in_the_source_is_documented() {
    fn warnings(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                warnings(&path, found);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let source = std::fs::read_to_string(&path).expect("a file");
                for call in source.split("tracing::warn!(").skip(1) {
                    // The message is the last string of the call.
                    let call = call.split(");").next().expect("the arguments");
                    let message = call.rsplit('"').nth(1).expect("a message");
                    found.push(message.to_owned());
                }
            }
        }
    }
    let mut found = Vec::new();
    warnings(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut found,
    );
    assert!(found.len() >= 8, "{found:?}");
    let documented = documented_events();
    for message in found {
        let level = documented.get(&message).map(|(level, _)| level.as_str());
        assert_eq!(level, Some("warn"), "{message}");
    }
}
