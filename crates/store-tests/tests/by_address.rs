//! What the ways to open a store by its address allow: to lock (with and without an async runtime), only to look, or to look and release.
//! Every store with an address, with each of them.

use std::any::Any;
use std::sync::Arc;

use fencepost::backend::records::{RecordKey, RecordKind, Records, Replaced};
use fencepost::backend::{Release, Wait};
use fencepost::blocking::Locker;
use fencepost::stores::{self, KINDS, StoreAddress};
use fencepost::{Backend, Claim, DEFAULT_TTL, Effect, Error, ErrorKind, LockName};
use fencepost_store_tests::{LONG, NAME, assert_error, claim, claim_on, run, soon, test_program};
use libtest_mimic::Trial;
use tempfile::TempDir;

/// The address of a new store, and the folder or server that must outlive it.
type Place = (String, Box<dyn Any>);

/// The name of a kind of store, and how a new one is made.
type Store = (&'static str, fn() -> Place);
type Test = (&'static str, fn(&StoreAddress));

const STORES: &[Store] = &[
    ("sqlite", sqlite),
    ("redis", redis),
    ("redlock", redlock),
    ("postgres_table", postgres_table),
    ("postgres", postgres),
    ("etcd", etcd),
    ("zookeeper", zookeeper),
];

const TESTS: &[Test] = &[
    ("only_to_look", only_to_look),
    ("to_release", to_release),
    ("without_a_runtime", without_a_runtime),
];

fn main() {
    for kind in KINDS {
        let is_tested = STORES.iter().any(|(name, _)| *name == kind.name);
        assert!(is_tested, "no place for {}", kind.name);
    }
    let all = STORES
        .iter()
        .flat_map(|store| TESTS.iter().map(move |test| (store, test)));
    let tests = all.map(|((store, new), (name, test))| {
        Trial::test(format!("{store}::{name}"), move || {
            let (address, _server) = new();
            test(&address.parse().expect("an address"));
            Ok(())
        })
    });
    libtest_mimic::run(&test_program::arguments(), tests.collect()).exit();
}

fn sqlite() -> Place {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("locks.db");
    (format!("sqlite:{}", path.display()), Box::new(folder))
}

fn redis() -> Place {
    let server = fencepost_rig::Redis::start().expect("a private redis-server");
    (server.url(), Box::new(server))
}

fn redlock() -> Place {
    let servers = [(); 3].map(|()| fencepost_rig::Redis::start().expect("a private redis-server"));
    let addresses = servers
        .each_ref()
        .map(|server| server.address().to_string());
    let address = format!("redlock://{}", addresses.join(","));
    (address, Box::new(servers))
}

fn postgres() -> Place {
    let server = fencepost_rig::Postgres::start().expect("a private Postgres");
    (server.url(), Box::new(server))
}

fn postgres_table() -> Place {
    let (url, server) = postgres();
    (format!("{url}?table=shedlock&create=true"), server)
}

fn etcd() -> Place {
    let server = fencepost_rig::Etcd::start().expect("a private etcd");
    (server.url(), Box::new(server))
}

fn zookeeper() -> Place {
    let server = fencepost_rig::Zookeeper::start().expect("a private ZooKeeper");
    (format!("zk://{}", server.address()), Box::new(server))
}

/// A store that was opened only to look shows locks, and neither takes, renews nor releases any.
fn only_to_look(address: &StoreAddress) {
    run(async {
        let store = address.open_with_ttl(LONG).await.expect("the store");
        let held = claim(LONG);
        let granted = store.try_acquire(&held).await.expect("an answer");
        assert!(granted.is_some());
        let looking = address.open_read_only().await.expect("the store");
        sees(&*looking, &held).await;
        let refused = |error: &Error| {
            let words = "opened only to look at locks";
            assert_error(error, ErrorKind::Unusable, Effect::None, words);
        };
        refuses_to_lock(&*looking, &held, refused).await;
        refused(&looking.release(&held).await.expect_err("a refusal"));
        shows_what_it_keeps(&*looking, refused).await;
        sees(&*looking, &held).await;
        if let Some(records) = store.records() {
            shows_records(records, looking.records(), refused).await;
        }
        let released = store.release(&held).await.expect("an answer");
        assert_eq!(released, Release::Freed);
    });
}

/// Records are shown, too, and not replaced.
async fn shows_records(
    records: &dyn Records,
    looking: Option<&dyn Records>,
    refused: impl Fn(&Error),
) {
    let looking = looking.expect("records");
    let key = RecordKey {
        kind: RecordKind::Shares,
        name: NAME.try_into().expect("a valid name"),
    };
    let seen = records.read(&key).await.expect("an answer");
    let written = records.replace(&key, &seen, b"one", LONG).await;
    assert_eq!(written.expect("an answer"), Replaced::Yes);
    let seen = looking.read(&key).await.expect("an answer");
    assert_eq!(seen.value.as_deref(), Some(&b"one"[..]));
    let names = looking.names(RecordKind::Shares).await.expect("an answer");
    assert_eq!(names, std::slice::from_ref(&key.name));
    let replaced = looking.replace(&key, &seen, b"two", LONG).await;
    refused(&replaced.expect_err("a refusal"));
}

/// A store that says it keeps records shows them, and changes none.
async fn shows_what_it_keeps(store: &dyn Backend, refused: impl Fn(&Error)) {
    let records = store.records();
    assert_eq!(records.is_some(), store.capabilities().records);
    if let Some(records) = records {
        let key = RecordKey {
            kind: RecordKind::Shares,
            name: LockName::new(NAME).expect("a name"),
        };
        let seen = records.read(&key).await.expect("an answer");
        assert_eq!(seen.value, None);
        let replaced = records.replace(&key, &seen, b"mine", LONG).await;
        refused(&replaced.expect_err("a refusal"));
    }
}

/// A store that was opened to release shows locks and releases them, and neither takes nor renews any.
fn to_release(address: &StoreAddress) {
    run(async {
        let store = address.open_with_ttl(LONG).await.expect("the store");
        let held = claim(LONG);
        let granted = store.try_acquire(&held).await.expect("an answer");
        assert!(granted.is_some());
        let other = address.open_to_release().await.expect("the store");
        sees(&*other, &held).await;
        refuses_to_lock(&*other, &held, |error| {
            let words = "opened only to look at locks and to release them";
            assert_error(error, ErrorKind::Unusable, Effect::None, words);
        })
        .await;
        let released = other.release(&held).await.expect("an answer");
        assert_eq!(released, Release::Freed);
        let shown = other.inspect(&held.name).await.expect("an answer");
        assert_eq!(shown, None);
        let granted = store.try_acquire(&claim(LONG)).await.expect("an answer");
        assert!(granted.is_some(), "the lock is free");
    });
}

/// A program without an async runtime opens a store by its address and locks in it.
fn without_a_runtime(address: &StoreAddress) {
    let locks = |opened: fencepost::Result<Arc<dyn Backend>>, ttl| {
        let locker = Locker::builder(opened.expect("the store")).ttl(ttl);
        let locker = locker.build().expect("a TTL that the store allows");
        let guard = locker.acquire(NAME).expect("a free lock");
        assert!(guard.release().is_released());
    };
    locks(address.open_blocking(), DEFAULT_TTL);
    locks(stores::open_blocking(address.as_str()), DEFAULT_TTL);
    locks(address.open_with_ttl_blocking(LONG), LONG);
    if address.kind().name != "sqlite" {
        run(async {
            let error = address.open_blocking().expect_err("a refusal");
            let words = "a blocking call inside an async runtime";
            assert_error(&error, ErrorKind::WrongContext, Effect::None, words);
        });
    }
}

/// The store shows the lock of this claim, and no other.
async fn sees(store: &dyn Backend, held: &Claim) {
    let record = store.inspect(&held.name).await.expect("an answer");
    let holder = record.and_then(|record| record.holder).expect("a holder");
    assert_eq!(holder.owner, Some(held.owner));
    let listed = store.list(None).await.expect("an answer");
    let names: Vec<&str> = listed.iter().map(|lock| lock.name.as_str()).collect();
    assert_eq!(names, [NAME]);
}

/// Neither a free lock can be taken nor a held one renewed.
async fn refuses_to_lock(store: &dyn Backend, held: &Claim, refused: impl Fn(&Error)) {
    let free = claim_on("free", LONG);
    refused(&store.try_acquire(&free).await.expect_err("a refusal"));
    let wait = Wait::default();
    let waiting = soon("a refusal", store.acquire(&free, &wait));
    refused(&waiting.await.expect_err("a refusal"));
    assert!(!wait.was_busy());
    let renewed = store.renew(&[held.clone(), free]).await;
    assert_eq!(renewed.len(), 2);
    for answer in renewed {
        refused(&answer.expect_err("a refusal"));
    }
}
