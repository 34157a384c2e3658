//! Where a trial keeps its data: the store that keeps the stock and the records of handmade locks.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use fencepost::stores::StoreAddress;
use fencepost_rig::TempDir;

use crate::protocol::Failure;

mod advisory;
mod kinds;
pub(crate) mod latch;
pub(crate) mod locks;
mod not_reached;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(not(feature = "postgres"))]
#[path = "store/without_postgres.rs"]
pub(crate) mod postgres;
pub mod reach;
pub(crate) mod redis;
mod server_list;
pub(crate) mod stock;
mod trial_store;

pub use kinds::{ServerFault, StoreFacts};
pub use locks::wait_until_voting;
pub(crate) use server_list::ServerList;
#[cfg(test)]
pub(crate) use trial_store::one_of_each;
pub use trial_store::{TrialStore, lock_only_kinds, private_name, private_names};

use kinds::Data;
use latch::Latches;
use locks::LockServers;
use stock::Stock;

/// The lock of a trial with one lock, and the first lock of a trial with two.
pub const FIRST_LOCK: &str = "product_A";
/// The second of two locks.
pub const SECOND_LOCK: &str = "product_B";

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

    /// Returns the endpoints that a program of the user receives: one for each server, such as `etcd://HOST:PORT#SPACE`. Servers that keep
    /// only locks are followed by the file with the stock.
    pub fn endpoints_of_each_server(&self) -> Vec<String> {
        match self {
            Self::Locks(servers) => {
                let stock = Self::Sqlite(servers.stock_file.clone());
                let mut endpoints = servers.each();
                endpoints.push(stock.to_string());
                endpoints
            }
            Self::Postgres(endpoint) => vec![advisory::without_choice(endpoint)],
            ground => ground.endpoints(),
        }
    }

    /// Prepares the store for a trial, whose space in it is new. Call this once, before the first process connects.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub fn prepare(&self) -> Result<(), Failure> {
        match self {
            Self::Sqlite(path) => {
                stock::sqlite::create(path)?;
                latch::sqlite::create(path)
            }
            // Whether the space is empty would take a look at every key of the user's server.
            Self::Redis(endpoint) => redis::Connection::open(endpoint).map(drop),
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

/// A ground that is prepared for one trial and cleared when it is dropped, even after a failure.
#[derive(Debug)]
pub struct TemporaryGround {
    /// The prepared ground.
    pub ground: Ground,
    /// A temporary folder of the trial.
    pub(crate) folder: TempDir,
}

impl TemporaryGround {
    /// Prepares a ground in this store.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no temporary folder, or if the store cannot be reached or prepared.
    pub fn prepare(store: &TrialStore) -> Result<Self, Failure> {
        let folder = fencepost_rig::folder();
        let folder =
            folder.map_err(|error| Failure::definite(format!("no temporary folder: {error}")))?;
        let ground = store.ground(folder.path());
        let temporary = Self { ground, folder };
        temporary.ground.prepare()?;
        Ok(temporary)
    }
}

impl Drop for TemporaryGround {
    fn drop(&mut self) {
        // A server that is gone cannot be cleared.
        let _ = self.ground.clear();
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
pub(crate) mod tests;
