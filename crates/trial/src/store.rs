//! What the strategies stand on: one store that holds the stock and the records of hand-made locks.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use swept::Swept;
pub use trial_store::{TrialStore, lock_only_kinds, private_name};

use fencepost::stores::StoreAddress;
use fencepost::stores::kinds::{POSTGRES, POSTGRES_TABLE, REDIS, SQLITE};

use locks::Apart;

use crate::protocol::Failure;
use latch::Latches;
use stock::Stock;

pub mod latch;
pub mod locks;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(not(feature = "postgres"))]
#[path = "store/without_postgres.rs"]
pub(crate) mod postgres;
pub mod reach;
pub(crate) mod redis;
pub mod stock;
mod swept;
mod trial_store;

/// The lock of a trial with one lock; the first of two.
pub const FIRST: &str = "product_A";
/// The second of two locks.
pub const SECOND: &str = "product_B";

/// Where a trial takes place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ground {
    /// A file, shared by the processes of this machine.
    Sqlite(PathBuf),
    /// A Redis server, by its address. After a `#`, the space in which the keys of this trial are.
    Redis(String),
    /// A Postgres database, by its address. After a `#`, the schema in which the tables of this trial are.
    Postgres(String),
    /// Servers that keep locks and nothing else of the lab's, and a file for the rest.
    Locks(Apart),
}

impl Ground {
    /// The ground that a single endpoint names: `sqlite:PATH`, `redis://…` or `postgres://…`.
    pub fn parse(endpoint: &str) -> Option<Self> {
        let address: StoreAddress = endpoint.parse().ok()?;
        let kind = address.kind();
        if *kind == REDIS {
            Some(Self::Redis(endpoint.to_owned()))
        } else if *kind == POSTGRES || *kind == POSTGRES_TABLE {
            Some(Self::Postgres(endpoint.to_owned()))
        } else if *kind == SQLITE {
            Some(Self::Sqlite(PathBuf::from(address.rest())))
        } else {
            None
        }
    }

    /// The ground that a subject's endpoints name: the first of them, or `etcd://…`, `zk://…` or `redlock://…` with a file after it.
    ///
    /// # Errors
    /// Returns an error if no endpoint names a store.
    pub fn among(endpoints: &[String]) -> Result<Self, Failure> {
        let ground = endpoints.iter().find_map(|endpoint| Self::parse(endpoint));
        let servers = endpoints
            .iter()
            .find(|endpoint| TrialStore::named(endpoint).is_some_and(|store| !store.keeps_stock()));
        match (servers, ground) {
            (Some(servers), Some(Self::Sqlite(data))) => Ok(Self::Locks(Apart {
                servers: servers.clone(),
                data,
            })),
            (None, Some(ground)) => Ok(ground),
            _ => Err(Failure::definite(format!("no store among {endpoints:?}"))),
        }
    }

    /// Where it is, as subjects are told.
    pub fn endpoints(&self) -> Vec<String> {
        match self {
            Self::Locks(apart) => vec![
                apart.servers.clone(),
                Self::Sqlite(apart.data.clone()).to_string(),
            ],
            ground => vec![ground.to_string()],
        }
    }

    /// Makes it ready for a trial. Called once, before the first process connects.
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
            Self::Locks(apart) => stock::sqlite::create(&apart.data),
        }
    }

    /// Removes what the trial has left there. A file goes with its folder.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub fn clear(&self) -> Result<(), Failure> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Locks(apart) => apart.clear(),
            Self::Redis(endpoint) => redis::Connection::open(endpoint)?.clear(),
            Self::Postgres(endpoint) => postgres::clear(endpoint),
        }
    }

    /// Lets the stock of these products last where it would vanish by itself; to be called every minute.
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
            Self::Locks(apart) => Box::new(stock::sqlite::SqliteStock::open(&apart.data)?),
        })
    }

    /// Connects to the records of hand-made locks.
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

    /// Looks at a lock with the lab's own eyes: hand-made ones and the library's alike.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub fn look(&self, key: &str) -> Result<Look, Failure> {
        match self {
            Self::Locks(apart) => apart.look(key),
            ground => ground.latches()?.look(key),
        }
    }
}

fn only_locks() -> Failure {
    Failure::definite("there are no locks made by hand on these servers")
}

/// As an endpoint; of several, the one with the locks.
impl fmt::Display for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Redis(endpoint) | Self::Postgres(endpoint) => f.write_str(endpoint),
            Self::Locks(apart) => f.write_str(&apart.servers),
        }
    }
}

/// What the store says about a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Somebody's key is there, and has not expired.
    pub taken: bool,
    /// How long until it expires. `None` on a key that is taken: never.
    pub ttl_left: Option<Duration>,
}

impl Look {
    /// Nobody's.
    pub const FREE: Self = Self {
        taken: false,
        ttl_left: None,
    };

    /// Somebody's, and no time will free it.
    pub fn is_for_ever(self) -> bool {
        self.taken && self.ttl_left.is_none()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use super::*;
    use fencepost_rig::{Redis, RedisError};

    /// A private server; `None`, said aloud, where none is installed.
    pub(crate) fn redis() -> Option<Redis> {
        match Redis::start() {
            Ok(server) => Some(server),
            Err(RedisError::NotInstalled) => {
                println!("skipped: no redis-server ({})", RedisError::INSTALL);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// A Postgres to use: the one that all tests share, or a private one as long as the keeper lives.
    pub(crate) struct SomePostgres {
        url: String,
        _keeper: Option<fencepost_rig::Postgres>,
    }

    impl SomePostgres {
        pub(crate) fn place(&self) -> TrialStore {
            TrialStore::private(&POSTGRES).at(self.url.clone())
        }
    }

    /// `None`, said aloud, where none is installed; in silence where this build cannot use it.
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

    /// What is gone with the last of its grounds: schemas on a server that others use too.
    struct Cleared(Vec<Ground>);

    impl Drop for Cleared {
        fn drop(&mut self) {
            for ground in &self.0 {
                let _ = ground.clear();
            }
        }
    }

    /// The servers there are here.
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
        /// Every place there is here.
        pub(crate) fn places(&self) -> Vec<TrialStore> {
            let redis = self.redis.as_ref();
            let redis = redis.map(|server| TrialStore::private(&REDIS).at(server.url()));
            let postgres = self.postgres.as_ref().map(SomePostgres::place);
            let all = [Some(TrialStore::sqlite()), redis, postgres];
            all.into_iter().flatten().collect()
        }

        /// Grounds in a state as new, as long as the keeper lives.
        pub(crate) fn grounds(&self, places: &[TrialStore]) -> (impl Sized + use<>, Vec<Ground>) {
            let folder = tempfile::tempdir().unwrap();
            let grounds = places.iter().map(|place| place.ground(folder.path()));
            let grounds: Vec<Ground> = grounds.collect();
            for ground in &grounds {
                ground.prepare().unwrap();
            }
            ((Cleared(grounds.clone()), folder), grounds)
        }
    }

    /// Every ground there is here, each in a state as new, as long as the keeper lives.
    pub(crate) fn grounds() -> (impl Sized, Vec<Ground>) {
        let servers = servers();
        let (keeper, grounds) = servers.grounds(&servers.places());
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
        let place = TrialStore::named("etcd://127.0.0.1:2379,127.0.0.1:2479").unwrap();
        let ground = place.ground(Path::new("/tmp"));
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
            apart_and_nothing_left(&database.place());
        }
    }

    fn apart_and_nothing_left(place: &TrialStore) {
        let [one, two] = [(); 2].map(|()| place.ground(Path::new("")));
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
