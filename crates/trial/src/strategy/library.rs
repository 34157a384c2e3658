//! The lock of the library as a strategy, with or without keep-alive.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost::backend::Backend;
use fencepost::clock::BoxFuture;
#[cfg(feature = "postgres")]
use fencepost::stores::postgres_table::PostgresTable;
use fencepost::stores::redis::Redis;
use fencepost::stores::sqlite::Sqlite;
use fencepost::{DEFAULT_STORE_TIMEOUT, ErrorKind, Guard, Locker, ReleaseOutcome};

use super::{Failure, Granted, Halt, Locking, Setup};
use crate::protocol::{Claims, ReleaseResult};
use crate::store::locks::LockServers;
#[cfg(feature = "postgres")]
use crate::store::postgres;
use crate::store::{Ground, redis};

/// How long to wait before asking an unavailable store again.
const PAUSE: Duration = Duration::from_millis(20);

/// Takes locks with the library.
pub(super) struct Library {
    locker: Locker,
    place: LibraryStore,
    keep_alive: bool,
    /// Whether the store promises to serve waiters in order.
    is_fifo: bool,
    ttl: Duration,
    holds: HashMap<u64, Guard>,
    last_hold: u64,
}

/// What the strategy needs to know about the store besides its backend.
enum LibraryStore {
    File,
    Locks(LockServers),
    /// A Redis server, whose backend counts the commands it sends.
    Server {
        server: Arc<Redis>,
        endpoint: String,
    },
    /// A Postgres table, whose backend also counts them.
    #[cfg(feature = "postgres")]
    Table(Arc<PostgresTable>),
    /// Advisory locks. All schemas of a database share them, so the schema is part of their names.
    #[cfg(feature = "postgres")]
    Advisory {
        schema: String,
    },
}

impl LibraryStore {
    /// Returns the name of a key's lock. On a server it is the key that handmade locks use, so the two exclude each other and
    /// the lab sees both.
    fn name(&self, key: &str) -> String {
        match self {
            Self::File => key.to_owned(),
            Self::Locks(servers) => servers.name(key),
            #[cfg(feature = "postgres")]
            Self::Table(_) => key.to_owned(),
            #[cfg(feature = "postgres")]
            Self::Advisory { schema } => format!("{schema}/{key}"),
            Self::Server { endpoint, .. } => redis::key(endpoint, "lock", key),
        }
    }

    /// Returns whether the locks belong to connections, which end with their server.
    fn is_connections(&self) -> bool {
        #[cfg(feature = "postgres")]
        if matches!(self, Self::Advisory { .. }) {
            return true;
        }
        false
    }
}

async fn open(setup: &Setup) -> Result<(Arc<dyn Backend>, LibraryStore), Failure> {
    match &setup.ground {
        Ground::Sqlite(path) => {
            // Every run has a new file. Small fences are easier to read.
            let file = Sqlite::builder(path).first_epoch(1).open().await;
            Ok((
                Arc::new(file.map_err(Failure::definite)?),
                LibraryStore::File,
            ))
        }
        Ground::Redis(endpoint) => {
            let server = Arc::new(redis::library(endpoint).await?);
            let endpoint = endpoint.clone();
            Ok((server.clone(), LibraryStore::Server { server, endpoint }))
        }
        #[cfg(feature = "postgres")]
        Ground::Postgres(endpoint) => {
            if let Some(opened) = postgres::advisory_library(endpoint).await {
                let (_, schema) = postgres::split(endpoint).unwrap_or((endpoint, "public"));
                let schema = schema.to_owned();
                return Ok((Arc::new(opened?), LibraryStore::Advisory { schema }));
            }
            let table = Arc::new(postgres::library(endpoint).await?);
            Ok((table.clone(), LibraryStore::Table(table)))
        }
        #[cfg(not(feature = "postgres"))]
        Ground::Postgres(_) => Err(Failure::definite("the lab was built without Postgres")),
        Ground::Locks(servers) => {
            let backend = servers.library(setup.ttl).await?;
            Ok((backend, LibraryStore::Locks(servers.clone())))
        }
    }
}

impl Library {
    /// Connects to the store. Without keep-alive, the holder does not check the clock either.
    pub(super) async fn open(setup: &Setup, keep_alive: bool) -> Result<Self, Failure> {
        let (backend, place) = open(setup).await?;
        let is_fifo = backend.capabilities().fifo;
        let locker = Locker::builder(backend)
            .ttl(setup.ttl)
            .keep_alive(keep_alive)
            .build();
        Ok(Self {
            locker: locker.map_err(Failure::definite)?,
            place,
            keep_alive,
            is_fifo,
            ttl: setup.ttl,
            holds: HashMap::new(),
            last_hold: 0,
        })
    }

    /// Returns the guard of a hold.
    pub(super) fn guard(&self, hold: u64) -> Option<&Guard> {
        self.holds.get(&hold)
    }

    async fn take(
        &mut self,
        key: &str,
        wait: Duration,
        halt: &mut dyn Halt,
    ) -> Result<Option<Granted>, Failure> {
        let key = self.place.name(key);
        let asked = Instant::now();
        let (guard, contended) = loop {
            let left = wait.saturating_sub(asked.elapsed());
            match self.ask(&key, left).await {
                // If the store was unavailable, a waiter asks again, but a single try does not.
                Err(error) if error.kind() == ErrorKind::Unavailable && left > PAUSE => {
                    tokio::time::sleep(PAUSE).await;
                }
                answer => break answer.map_err(Failure::indefinite)?,
            }
        };
        let Some(guard) = guard else {
            return Ok(None);
        };
        halt.after(1, 1, "takes the lock");
        self.last_hold += 1;
        let held = Granted {
            hold: self.last_hold,
            fence: Some(guard.fence().to_string()),
            valid_ms: Some(guard.valid_for().as_secs_f64() * 1e3),
            contended,
        };
        self.holds.insert(self.last_hold, guard);
        Ok(Some(held))
    }

    /// Requests the lock. Returns its guard if it was granted, and whether somebody else had the lock at the first try.
    async fn ask(&self, key: &str, wait: Duration) -> fencepost::Result<(Option<Guard>, bool)> {
        let at_once = match self.locker.try_acquire(key).await {
            // The store is crowded. A caller that has time waits.
            Err(error) if error.kind() == ErrorKind::Timeout && !wait.is_zero() => None,
            at_once => at_once?,
        };
        let contended = at_once.is_none();
        let guard = match at_once {
            None if !wait.is_zero() => self.wait(key, wait).await?,
            at_once => at_once,
        };
        Ok((guard, contended))
    }

    async fn wait(&self, key: &str, wait: Duration) -> fencepost::Result<Option<Guard>> {
        match self.locker.acquire_within(key, wait).await {
            // The store said before that the lock is taken. There was not enough time for the same answer again.
            Err(error) if error.kind() == ErrorKind::Timeout && wait < DEFAULT_STORE_TIMEOUT => {
                Ok(None)
            }
            turn => turn,
        }
    }

    async fn give_back(
        &mut self,
        hold: u64,
        halt: &mut dyn Halt,
    ) -> Result<ReleaseResult, Failure> {
        let guard = self.holds.remove(&hold);
        let guard = guard.ok_or_else(|| Failure::definite("there is no such hold"))?;
        let outcome = guard.release().await;
        halt.after(1, 1, "releases the lock if it is its own");
        Ok(match outcome {
            ReleaseOutcome::Released => ReleaseResult::Released,
            ReleaseOutcome::AlreadyLost => ReleaseResult::AlreadyLost,
            ReleaseOutcome::StillHeld | ReleaseOutcome::Unknown(_) => ReleaseResult::Unknown,
        })
    }
}

impl Locking for Library {
    fn acquire<'a>(
        &'a mut self,
        key: &'a str,
        wait: Duration,
        halt: &'a mut dyn Halt,
    ) -> BoxFuture<'a, Result<Option<Granted>, Failure>> {
        Box::pin(self.take(key, wait, halt))
    }

    /// A holder that keeps its lock alive learns of a loss at the next renewal, and there are several in a TTL. Waiters are served in order only
    /// where the store promises that.
    fn claims(&self, known: Claims) -> Claims {
        let ttl_ms = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX);
        Claims {
            fair: known.fair && self.is_fifo,
            tells_loss_ms: self.keep_alive.then_some(ttl_ms),
            ends_with_server: self.place.is_connections(),
            ..known
        }
    }

    fn commands(&self) -> Option<u64> {
        match &self.place {
            LibraryStore::File | LibraryStore::Locks(_) => None,
            #[cfg(feature = "postgres")]
            LibraryStore::Table(table) => Some(table.statements_sent()),
            #[cfg(feature = "postgres")]
            LibraryStore::Advisory { .. } => None,
            LibraryStore::Server { server, .. } => Some(server.commands_sent()),
        }
    }

    fn knows_lost(&mut self, hold: u64) -> bool {
        self.keep_alive && self.holds.get(&hold).is_some_and(Guard::is_lost)
    }

    fn release<'a>(
        &'a mut self,
        hold: u64,
        halt: &'a mut dyn Halt,
    ) -> BoxFuture<'a, Result<ReleaseResult, Failure>> {
        Box::pin(self.give_back(hold, halt))
    }
}
