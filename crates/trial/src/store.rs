//! Where a trial keeps its data: the store that keeps the stock and the records of handmade locks.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use kinds::{ServerFault, StoreFacts};
pub use locks::wait_until_voting;
pub use temporary_ground::TemporaryGround;
#[cfg(test)]
pub(crate) use trial_store::one_of_each;
pub use trial_store::{TrialStore, lock_only_kinds, private_name, private_names};

use fencepost::stores::StoreAddress;

use kinds::Data;
use locks::LockServers;

use crate::protocol::Failure;
use latch::Latches;
use stock::Stock;

mod kinds;
pub(crate) mod latch;
pub(crate) mod locks;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(not(feature = "postgres"))]
#[path = "store/without_postgres.rs"]
pub(crate) mod postgres;
pub mod reach;
pub(crate) mod redis;
pub(crate) mod stock;
mod temporary_ground;
mod trial_store;

/// The lock of a trial with one lock, and the first lock of a trial with two.
pub const FIRST: &str = "product_A";
/// The second of two locks.
pub const SECOND: &str = "product_B";

/// Where a trial keeps its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ground {
    /// A SQLite file, shared by the processes of this machine.
    Sqlite(PathBuf),
    /// The address of a Redis server. The part after `#` is the key space of this trial.
    Redis(String),
    /// The address of a Postgres database. The part after `#` is the schema of this trial.
    Postgres(String),
    /// Servers that keep only the locks, and a file for everything else.
    Locks(LockServers),
}

impl Ground {
    /// Parses a single endpoint: `sqlite:PATH`, `redis://…` or `postgres://…`.
    pub fn parse(endpoint: &str) -> Option<Self> {
        let address: StoreAddress = endpoint.parse().ok()?;
        match StoreFacts::of(address.kind()).data {
            Data::File => Some(Self::Sqlite(PathBuf::from(address.without_scheme()))),
            Data::Redis => Some(Self::Redis(endpoint.to_owned())),
            Data::Postgres => Some(Self::Postgres(endpoint.to_owned())),
            Data::LocksOnly => None,
        }
    }

    /// Finds the ground in a subject's endpoints: the first endpoint, or `etcd://…`, `zk://…` or `redlock://…` followed by a
    /// file.
    ///
    /// # Errors
    /// Returns an error if no endpoint names a store.
    pub fn among(endpoints: &[String]) -> Result<Self, Failure> {
        let ground = endpoints.iter().find_map(|endpoint| Self::parse(endpoint));
        let servers = endpoints
            .iter()
            .find(|endpoint| TrialStore::named(endpoint).is_some_and(|store| !store.keeps_stock()));
        match (servers, ground) {
            (Some(servers), Some(Self::Sqlite(stock_file))) => Ok(Self::Locks(LockServers {
                address: servers.clone(),
                stock_file,
            })),
            (None, Some(ground)) => Ok(ground),
            _ => Err(Failure::definite(format!("no store among {endpoints:?}"))),
        }
    }

    /// Returns the endpoints that subjects receive.
    pub fn endpoints(&self) -> Vec<String> {
        match self {
            Self::Locks(servers) => vec![
                servers.address.clone(),
                Self::Sqlite(servers.stock_file.clone()).to_string(),
            ],
            ground => vec![ground.to_string()],
        }
    }

    /// Prepares the store for a trial. Call this once, before the first process connects.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub fn prepare(&self) -> Result<(), Failure> {
        match self {
            Self::Sqlite(path) => {
                stock::sqlite::create(path)?;
                latch::sqlite::create(path)
            }
            Self::Redis(endpoint) => redis::Connection::open(endpoint)?.clear(),
            Self::Postgres(endpoint) => postgres::prepare(endpoint),
            Self::Locks(servers) => stock::sqlite::create(&servers.stock_file),
        }
    }

    /// Removes what the trial has left in the store. A file is removed together with its folder.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub fn clear(&self) -> Result<(), Failure> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Locks(servers) => servers.clear(),
            Self::Redis(endpoint) => redis::Connection::open(endpoint)?.clear(),
            Self::Postgres(endpoint) => postgres::clear(endpoint),
        }
    }

    /// Extends the lifetime of the stock of these products where it would otherwise expire. Call this every minute.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub fn keep(&self, products: &[String]) -> Result<(), Failure> {
        let Self::Redis(endpoint) = self else {
            return Ok(());
        };
        let keys = products.iter().flat_map(|product| {
            let units = redis::key(endpoint, "stock", product);
            [stock::perishable::gate_of(&units), units]
        });
        redis::Connection::open(endpoint)?.keep(keys)
    }

    /// Connects to the stock.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub fn stock(&self) -> Result<Box<dyn Stock>, Failure> {
        Ok(match self {
            Self::Sqlite(path) => Box::new(stock::sqlite::SqliteStock::open(path)?),
            Self::Redis(endpoint) => Box::new(stock::redis::RedisStock::open(endpoint)?),
            Self::Postgres(endpoint) => postgres::stock(endpoint)?,
            Self::Locks(servers) => {
                Box::new(stock::sqlite::SqliteStock::open(&servers.stock_file)?)
            }
        })
    }

    /// Connects to the records of handmade locks.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub fn latches(&self) -> Result<Box<dyn Latches>, Failure> {
        Ok(match self {
            Self::Sqlite(path) => Box::new(latch::sqlite::SqliteLatches::open(path)?),
            Self::Redis(endpoint) => Box::new(latch::redis::RedisLatches::open(endpoint)?),
            Self::Postgres(endpoint) => postgres::latches(endpoint)?,
            Self::Locks(_) => return Err(only_locks()),
        })
    }

    /// Inspects a lock through the lab's own connection. This works for handmade locks and for those of the library.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub fn inspect(&self, key: &str) -> Result<LockState, Failure> {
        match self {
            Self::Locks(servers) => servers.inspect(key),
            ground => ground.latches()?.inspect(key),
        }
    }
}

fn only_locks() -> Failure {
    Failure::definite("handmade locks do not run on these servers")
}

/// Formats the ground as an endpoint; of several endpoints, the one with the locks.
impl fmt::Display for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Redis(endpoint) | Self::Postgres(endpoint) => f.write_str(endpoint),
            Self::Locks(servers) => f.write_str(&servers.address),
        }
    }
}

/// The state of a lock in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockState {
    /// Whether the store has a record of the lock that has not expired.
    pub taken: bool,
    /// How long until the record expires; `None` if the lock is free, or if the record never expires.
    pub ttl_left: Option<Duration>,
}

impl LockState {
    /// The state of a free lock.
    pub const FREE: Self = Self {
        taken: false,
        ttl_left: None,
    };

    /// Returns whether the lock is taken and never expires.
    pub fn never_expires(self) -> bool {
        self.taken && self.ttl_left.is_none()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use super::*;
    use fencepost::stores::kinds::{POSTGRES, REDIS};
    use fencepost_rig::{Redis, ServerError};

    /// Starts a private server. If none is installed, says so and returns `None`.
    pub(crate) fn redis() -> Option<Redis> {
        match Redis::start() {
            Ok(server) => Some(server),
            Err(ServerError::NotInstalled { .. }) => {
                println!("skipped: no redis-server ({})", Redis::INSTALL);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// A Postgres server for a test: the one that all tests share, or a private one that lives as long as its keeper.
    pub(crate) struct SomePostgres {
        url: String,
        _keeper: Option<fencepost_rig::Postgres>,
    }

    impl SomePostgres {
        pub(crate) fn store(&self) -> TrialStore {
            TrialStore::private(&POSTGRES).at(self.url.clone())
        }
    }

    /// Returns `None` if none is installed, and says so, or if this build does not support Postgres.
    pub(crate) fn postgres() -> Option<SomePostgres> {
        use fencepost_rig::{Postgres, ServerError};
        if !cfg!(feature = "postgres") {
            return None;
        }
        if let Ok(url) = std::env::var("FENCEPOST_SHARED_POSTGRES") {
            return Some(SomePostgres { url, _keeper: None });
        }
        match Postgres::start() {
            Ok(server) => Some(SomePostgres {
                url: server.url(),
                _keeper: Some(server),
            }),
            Err(error @ ServerError::NotInstalled { .. }) => {
                println!("skipped: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Clears its grounds when dropped: schemas on a server that others also use.
    struct Cleared(Vec<Ground>);

    impl Drop for Cleared {
        fn drop(&mut self) {
            for ground in &self.0 {
                let _ = ground.clear();
            }
        }
    }

    /// The servers that are available on this machine.
    pub(crate) struct Servers {
        redis: Option<Redis>,
        postgres: Option<SomePostgres>,
    }

    pub(crate) fn servers() -> Servers {
        Servers {
            redis: redis(),
            postgres: postgres(),
        }
    }

    impl Servers {
        /// Returns every store that is available on this machine.
        pub(crate) fn stores(&self) -> Vec<TrialStore> {
            let redis = self.redis.as_ref();
            let redis = redis.map(|server| TrialStore::private(&REDIS).at(server.url()));
            let postgres = self.postgres.as_ref().map(SomePostgres::store);
            let all = [Some(TrialStore::sqlite()), redis, postgres];
            all.into_iter().flatten().collect()
        }

        /// Returns fresh grounds, which exist as long as their keeper.
        pub(crate) fn grounds(&self, stores: &[TrialStore]) -> (impl Sized + use<>, Vec<Ground>) {
            let folder = tempfile::tempdir().unwrap();
            let grounds = stores.iter().map(|store| store.ground(folder.path()));
            let grounds: Vec<Ground> = grounds.collect();
            for ground in &grounds {
                ground.prepare().unwrap();
            }
            ((Cleared(grounds.clone()), folder), grounds)
        }
    }

    /// Returns every ground that is available on this machine, each freshly prepared, together with their keeper.
    pub(crate) fn grounds() -> (impl Sized, Vec<Ground>) {
        let servers = servers();
        let (keeper, grounds) = servers.grounds(&servers.stores());
        ((keeper, servers), grounds)
    }

    #[test]
    fn an_endpoint_names_its_ground() {
        for endpoint in [
            "sqlite:/tmp/run.db",
            "redis://127.0.0.1:6379#a",
            "postgres://127.0.0.1/shop#a",
        ] {
            assert_eq!(Ground::parse(endpoint).unwrap().to_string(), endpoint);
        }
        assert_eq!(Ground::parse("mysql://x"), None);
    }

    #[test]
    fn servers_for_locks_come_with_a_file() {
        let store = TrialStore::named("etcd://127.0.0.1:2379,127.0.0.1:2479").unwrap();
        let ground = store.ground(Path::new("/tmp"));
        let endpoints = ground.endpoints();
        assert_eq!(endpoints[1], "sqlite:/tmp/run.db");
        assert_eq!(Ground::among(&endpoints), Ok(ground));
        assert!(Ground::among(&endpoints[..1]).is_err());
    }

    #[test]
    fn each_trial_has_a_ground_of_its_own_and_leaves_nothing() {
        if let Some(server) = redis() {
            apart_and_nothing_left(&TrialStore::private(&REDIS).at(server.url()));
        }
        if let Some(database) = postgres() {
            apart_and_nothing_left(&database.store());
        }
    }

    fn apart_and_nothing_left(store: &TrialStore) {
        let [one, two] = [(); 2].map(|()| store.ground(Path::new("")));
        one.prepare().unwrap();
        two.prepare().unwrap();
        one.stock().unwrap().write("product_A", 1).unwrap();
        two.stock().unwrap().write("product_A", 2).unwrap();
        assert_eq!(one.stock().unwrap().read("product_A").unwrap(), 1);
        one.clear().unwrap();
        assert!(one.stock().unwrap().read("product_A").is_err());
        assert_eq!(two.stock().unwrap().read("product_A").unwrap(), 2);
        two.clear().unwrap();
    }

    #[test]
    fn a_server_that_is_not_there_is_a_certain_failure() {
        let mut nowhere = vec![Ground::Redis("redis://127.0.0.1:1".into())];
        if cfg!(feature = "postgres") {
            nowhere.push(Ground::Postgres("postgres://u@127.0.0.1:1/d#x".into()));
        }
        for ground in nowhere {
            let failure = ground.prepare().unwrap_err();
            assert!(failure.definite, "{failure}");
            assert!(failure.message.contains("no connection"), "{failure}");
        }
    }
}
