//! Tests that the library creates exactly the documented span, that its source has exactly the documented events, and that those of the
//! locker occur with the documented levels and fields. `metrics.rs` does the same for metrics.

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
fn the_only_span_is_the_documented_one() {
    #[derive(Clone, Default)]
    struct Names(Arc<Mutex<BTreeSet<String>>>);
    impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Names {
        fn on_new_span(
            &self,
            attributes: &tracing::span::Attributes<'_>,
            _: &tracing::span::Id,
            _: tracing_subscriber::layer::Context<'_, S>,
        ) {
            if !attributes.metadata().target().starts_with("fencepost") {
                return;
            }
            let mut names = self.0.lock().expect("not poisoned");
            let fields = attributes.fields().iter().map(|field| field.name());
            names.insert(format!(
                "{} {}: {}",
                attributes.metadata().level(),
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
            let guard = locker.acquire("a").await.expect("an answer");
            let refused = locker.try_acquire("a").await.expect("an answer");
            assert!(refused.is_none());
            guard.extend(TTL).await.expect("held");
            assert!(guard.release().await.is_released());
            drop(locker.acquire_all(["a", "b"]).await.expect("an answer"));
            locker.shutdown().await;
        });
    });
    let names = names.0.lock().expect("not poisoned");
    let documented = BTreeSet::from(["DEBUG acquire: store name".to_owned()]);
    assert_eq!(*names, documented);
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
fn the_documented_events_are_those_of_the_source() {
    let mut found = BTreeMap::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    events_below(&source, &mut found);
    let documented = documented_events();
    for (message, (level, _)) in &documented {
        assert_eq!(found.get(message), Some(level), "no such event: {message}");
    }
    for (message, level) in found {
        assert!(documented.contains_key(&message), "{level}: {message}");
    }
}

/// Finds the events in the source: messages and levels. Leaves out what stores write for diagnosis.
fn events_below(folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            events_below(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let source = std::fs::read_to_string(&path).expect("a file");
            let is_store = path.components().any(|part| part.as_os_str() == "stores");
            for call in source.split("tracing::").skip(1) {
                let (level, arguments) = call.split_once("!(").unwrap_or_default();
                let is_for_diagnosis = is_store && ["debug", "trace"].contains(&level);
                if LEVELS.contains(&level) && !is_for_diagnosis {
                    let message = last_text_of(arguments).expect("a message");
                    found.insert(message, level.to_owned());
                }
            }
        }
    }
}

const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// Returns the last string of a macro call, whose closing bracket is somewhere in this text.
fn last_text_of(arguments: &str) -> Option<String> {
    let (mut depth, mut last, mut text) = (1, None, None::<String>);
    for c in arguments.chars() {
        match (&mut text, c) {
            (Some(_), '"') => last = text.take(),
            (Some(text), c) => text.push(c),
            (None, '"') => text = Some(String::new()),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, _) => {}
        }
        if depth == 0 {
            break;
        }
    }
    last
}
