//! A small pool of Postgres connections, each used by one transaction at a time.
//!
//! A connection returns to the pool only after its transaction succeeded. After a failure it is closed, and the server rolls back. The pool
//! has its own timeout for a silent server or a broken network, because the server's timeouts cannot reach us then. See
//! `docs/decisions/0018-a-pool-of-our-own-for-the-checkout.md`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fencepost::clock::BoxFuture;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::error::SqlState;

use super::connection::{Connection, DatabaseAddress, words};
use crate::storage::{Decision, StorageError};

/// The maximum number of connections.
const MAX_CONNECTIONS: usize = 16;
/// How long to wait for a connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(4);
/// How long a transaction may take from its beginning to its commit. Longer than the server's own timeouts, whose errors say more.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(12);
/// Begins a transaction with an explicit isolation level, whatever the default of the database is.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// What can go wrong inside a transaction.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("{}", words(.0))]
    Postgres(#[from] tokio_postgres::Error),
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl Fault {
    /// Returns whether the failure is a conflict with another transaction: nothing was changed, and a retry may succeed.
    pub(super) fn is_collision(&self) -> bool {
        let Self::Postgres(error) = self else {
            return false;
        };
        error.code().is_some_and(|code| {
            [
                SqlState::T_R_SERIALIZATION_FAILURE,
                SqlState::T_R_DEADLOCK_DETECTED,
                SqlState::LOCK_NOT_AVAILABLE,
            ]
            .contains(code)
        })
    }
}

impl From<Fault> for StorageError {
    fn from(fault: Fault) -> Self {
        let error = match fault {
            Fault::Postgres(error) => error,
            Fault::Storage(error) => return error,
        };
        // Error classes for connection, rollback, resources and operator intervention. Without a code, the connection is broken.
        let passing = ["08", "40", "53", "55", "57"];
        let code = error.code().map(|code| code.code().to_owned());
        match code {
            Some(code) if !passing.iter().any(|class| code.starts_with(class)) => {
                Self::Broken(words(&error))
            }
            _ => Self::Unavailable(words(&error)),
        }
    }
}

/// The work of a transaction.
pub(super) type Work<'a, T> = BoxFuture<'a, Result<Decision<T>, Fault>>;

#[derive(Clone)]
pub(super) struct Pool(Arc<Inner>);

struct Inner {
    address: DatabaseAddress,
    idle: Mutex<Vec<Connection>>,
    connection_permits: Semaphore,
}

impl Pool {
    pub(super) fn new(address: DatabaseAddress) -> Self {
        Self(Arc::new(Inner {
            address,
            idle: Mutex::new(Vec::new()),
            connection_permits: Semaphore::new(MAX_CONNECTIONS),
        }))
    }

    /// Does `work` in a transaction, which completes even if the future is dropped.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl for<'a> FnOnce(&'a mut Connection) -> Work<'a, T> + Send + 'static,
    ) -> Result<T, StorageError> {
        let pool = self.clone();
        let task = tokio::spawn(async move { pool.transaction(work).await });
        let ended = |_| StorageError::Broken("a transaction ended in the middle".into());
        Ok(task.await.map_err(ended)??)
    }

    async fn transaction<T>(
        &self,
        work: impl for<'a> FnOnce(&'a mut Connection) -> Work<'a, T> + Send,
    ) -> Result<T, Fault> {
        let permit = self.0.connection_permits.acquire();
        let permit = tokio::time::timeout(CONNECTION_TIMEOUT, permit).await;
        let Ok(Ok(_permit)) = permit else {
            let busy = StorageError::Unavailable("all connections are in use".into());
            return Err(busy.into());
        };
        let until = Instant::now() + TRANSACTION_TIMEOUT;
        let mut connection = self.begin(until).await?;
        match timeout_at(until, carry_out(&mut connection, work)).await {
            Ok(ended) => {
                let value = ended?;
                let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
                idle.push(connection);
                Ok(value)
            }
            Err(_) => Err(self.give_up_on(&connection)),
        }
    }

    /// Begins a transaction on a pooled or a new connection.
    async fn begin(&self, until: Instant) -> Result<Connection, Fault> {
        // If the server was restarted, all pooled connections are dead.
        while let Some(connection) = self.idle() {
            if connection.is_closed() {
                continue;
            }
            match timeout_at(until, connection.batch(BEGIN)).await {
                Ok(Ok(())) => return Ok(connection),
                Ok(Err(_)) => {}
                Err(_) => return Err(self.give_up_on(&connection)),
            }
        }
        let connection = self.0.address.connect().await?;
        match timeout_at(until, connection.batch(BEGIN)).await {
            Ok(begun) => begun.map(|()| connection).map_err(Fault::from),
            Err(_) => Err(self.give_up_on(&connection)),
        }
    }

    /// Drops all idle connections after one did not answer, since they lead to the same server.
    fn give_up_on(&self, connection: &Connection) -> Fault {
        connection.cut();
        let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.drain(..).for_each(|connection| connection.cut());
        StorageError::Unavailable("no answer in time".into()).into()
    }

    fn idle(&self) -> Option<Connection> {
        let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.pop()
    }
}

async fn carry_out<T>(
    connection: &mut Connection,
    work: impl for<'a> FnOnce(&'a mut Connection) -> Work<'a, T> + Send,
) -> Result<T, Fault> {
    let (end, value) = match work(connection).await? {
        Decision::Commit(value) => ("COMMIT", value),
        Decision::RollBack(value) => ("ROLLBACK", value),
    };
    connection.batch(end).await?;
    Ok(value)
}
