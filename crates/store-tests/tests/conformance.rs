//! Runs the conformance suite: every backend with every requirement that its capabilities select, each as a separate test.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fencepost::Backend;
use fencepost::backend::{Capabilities, Part};
use fencepost::conformance::{self, StoreUnderTest};
use fencepost::stores::KINDS;
use fencepost::stores::etcd::Etcd;
use fencepost::stores::memory::Memory;
use fencepost::stores::postgres::Postgres;
use fencepost::stores::postgres_table::PostgresTable;
use fencepost::stores::redis::Redis;
use fencepost::stores::redlock::Redlock;
use fencepost::stores::sqlite::Sqlite;
use fencepost::stores::zookeeper::Zookeeper;
use fencepost_store_tests::database::Database;
use fencepost_store_tests::test_program;
use libtest_mimic::Trial;
use tempfile::TempDir;

/// A store for one test, and the folder or server that must outlive it.
type Stage = (StoreUnderTest, Box<dyn Any>);

fn main() {
    let capabilities = PostgresTable::CAPABILITIES;
    let stores = vec![
        tests_of("memory", Memory::CAPABILITIES, memory),
        tests_of("sqlite", Sqlite::CAPABILITIES, sqlite),
        tests_of("redis", Redis::CAPABILITIES, redis),
        tests_of("postgres", Postgres::CAPABILITIES, postgres),
        tests_of("postgres_table", capabilities, postgres_table),
        tests_of("zookeeper", of_living_clients(), zookeeper),
        tests_of("etcd", Etcd::CAPABILITIES, etcd),
        tests_of("redlock", Redlock::CAPABILITIES, redlock),
    ];
    let has_stage = |name: &str| stores.iter().any(|(store, _)| *store == name);
    for kind in KINDS {
        assert!(has_stage(kind.name), "no stage for {}", kind.name);
    }
    let tests = stores.into_iter().flat_map(|(_, tests)| tests);
    // Those of the stores without a server are in crates/fencepost/tests/shares.
    let shares = [
        shares_as_locks("redis", Redis::CAPABILITIES, redis),
        shares_as_locks("postgres_table", capabilities, postgres_table),
    ];
    let tests = tests.chain(shares.into_iter().flatten()).collect();
    libtest_mimic::run(&test_program::arguments(), tests).exit();
}

/// Two connections, as two processes would have them.
async fn two<B: Backend>(connect: impl AsyncFn() -> B) -> StoreUnderTest {
    let (one, other) = (connect().await, connect().await);
    StoreUnderTest::with_two_connections(Arc::new(one), Arc::new(other))
}

async fn memory() -> Stage {
    (StoreUnderTest::new(Arc::new(Memory::new())), Box::new(()))
}

/// Two connections to one file, as two processes would have.
async fn sqlite() -> Stage {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("locks.db");
    let [one, other] =
        [(), ()].map(|()| Arc::new(Sqlite::open_blocking(&path).expect("a new file")));
    let store = StoreUnderTest::with_two_connections(one, other);
    (store, Box::new(folder))
}

/// Two connections to a private server.
async fn redis() -> Stage {
    let server = fencepost_rig::Redis::start().expect("a private redis-server");
    let connect = async || Redis::open(&server.url()).await.expect("a connection");
    let store = two(connect).await;
    (store, Box::new(server))
}

/// Advisory locks of a database, through the connections of two clients.
async fn postgres() -> Stage {
    let database = Database::make().await;
    let connect = async || {
        // Tests that count tasks wait until unused connections are closed.
        let builder = Postgres::builder(database.url())
            .idle_timeout(Duration::from_secs(1))
            // On a busy machine, a test of the order may take long.
            .requeue_after(Duration::MAX)
            .connect_timeout(Duration::from_secs(20));
        builder.open().await.expect("a connection")
    };
    let store = two(connect).await;
    (store, Box::new(database))
}

/// Two connections to a private table.
async fn postgres_table() -> Stage {
    let database = Database::make().await;
    let connect = async || {
        // Connecting is not what is tested. On a busy machine it may take long.
        let builder = PostgresTable::builder(database.url()).create_table(true);
        let builder = builder.connect_timeout(Duration::from_secs(20));
        builder.open().await.expect("a connection")
    };
    let store = two(connect).await;
    (store, Box::new(database))
}

/// Two sessions on a private server, or below a private node of the server that `FENCEPOST_SHARED_ZK` (host:port) names. The
/// server removes what is left there, because a folder is a container.
async fn zookeeper() -> Stage {
    // Longer than the longest TTL of a test.
    const SESSION: Duration = Duration::from_secs(65);
    let shared = std::env::var("FENCEPOST_SHARED_ZK").ok();
    let (address, server): (_, Box<dyn Any>) = match shared {
        Some(address) => (address, Box::new(())),
        None => {
            let server = fencepost_rig::Zookeeper::start().expect("a private ZooKeeper");
            (server.address().to_string(), Box::new(server))
        }
    };
    let process = std::process::id();
    let address = format!("zk://{address}/conformance-{process}");
    let connect = async || {
        let store = Zookeeper::builder(&address).session_timeout(SESSION);
        store.open().await.expect("a session")
    };
    let store = two(connect).await;
    (store, server)
}

/// A ZooKeeper lease ends after its TTL while its process lives, which is all that tests in a single process can see.
fn of_living_clients() -> Capabilities {
    let mut capabilities = Zookeeper::CAPABILITIES;
    capabilities.leases = true;
    capabilities
}

/// Two connections to a private server, or to the one that all tests share, below a private key.
async fn etcd() -> Stage {
    let (address, server): (String, Box<dyn Any>) = match std::env::var("FENCEPOST_SHARED_ETCD") {
        Ok(shared) => {
            let address = format!("{shared}/trial-{}", std::process::id());
            (address, Box::new(()))
        }
        Err(_) => {
            let server = fencepost_rig::Etcd::start().expect("a private etcd");
            (server.url(), Box::new(server))
        }
    };
    let connect = async || Etcd::open(&address).await.expect("a connection");
    let store = two(connect).await;
    (store, server)
}

/// Two connections to each of three private servers.
async fn redlock() -> Stage {
    let servers = [(); 3].map(|()| fencepost_rig::Redis::start().expect("a private redis-server"));
    let addresses = servers
        .each_ref()
        .map(|server| server.address().to_string());
    let address = format!("redlock://{}", addresses.join(","));
    let connect = async || Redlock::open(&address).await.expect("a connection");
    let store = two(connect).await;
    (store, Box::new(servers))
}

/// Returns the name of the store and its tests.
fn tests_of<F>(
    store: &'static str,
    capabilities: Capabilities,
    stage: fn() -> F,
) -> (&'static str, Vec<Trial>)
where
    F: Future<Output = Stage> + 'static,
{
    let whole = |store| store;
    (store, tests_on(store, capabilities, stage, whole))
}

/// Returns the tests of locks that are shares in the records of a store: one permit of one, and writing.
fn shares_as_locks<F>(name: &str, capabilities: Capabilities, stage: fn() -> F) -> Vec<Trial>
where
    F: Future<Output = Stage> + 'static,
{
    if !capabilities.records {
        return Vec::new();
    }
    let parts = [
        ("permits", Part::Permits { count: 1, of: 1 }),
        ("write", Part::Write),
    ];
    let capabilities = capabilities
        .fifo(true)
        .leases(true)
        .records(false)
        .shares(false);
    let tests = parts.map(|(what, part)| {
        let shared = move |store: StoreUnderTest| {
            let shared = store.with_locks_as(part);
            shared.expect("a store with records")
        };
        tests_on(&format!("{name}::{what}"), capabilities, stage, shared)
    });
    tests.into_iter().flatten().collect()
}

/// Returns the tests of what `made_of` makes of the store.
fn tests_on<F>(
    name: &str,
    capabilities: Capabilities,
    stage: fn() -> F,
    made_of: impl Fn(StoreUnderTest) -> StoreUnderTest + Copy + Send + 'static,
) -> Vec<Trial>
where
    F: Future<Output = Stage> + 'static,
{
    let applicable = conformance::requirements().filter(|one| one.applies_to(capabilities));
    let test = |requirement: &'static fencepost::conformance::Requirement| {
        Trial::test(format!("{name}::{}", requirement.name()), move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let (store, _place) = stage().await;
                requirement.run(made_of(store)).await;
            });
            Ok(())
        })
    };
    applicable.map(test).collect()
}
