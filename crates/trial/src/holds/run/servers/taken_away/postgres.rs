//! A Postgres server that ends the sessions which hold locks, and loses the rows of locks that are rows.

use std::time::{Duration, Instant};

use fencepost_rig::Postgres;

use super::{Keeper, Watched};
use crate::holds::run::servers::redis::ANSWER_TIMEOUT;
use crate::protocol::Failure;
use crate::store::postgres::{Connection, StoreError};
use crate::store::{Ground, TrialStore};

/// How often the lab asks again.
const LOOK: Duration = Duration::from_millis(2);
/// The tables in which our own locks have a row. A lock on a row or on a table of the user is held by a session.
const RECORDS: [&str; 3] = [
    "DELETE FROM latch",
    "DELETE FROM shedlock",
    "DELETE FROM lock_row",
];
/// Ends every session that holds a lock. Whoever only waits to be asked holds none.
const TERMINATE: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
    AND pid IN (SELECT pid FROM pg_locks WHERE granted)";
/// Counts the sessions that hold a lock.
const HOLDING: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
    AND pid IN (SELECT pid FROM pg_locks WHERE granted)";

/// One server.
pub(super) struct Terminated {
    server: Postgres,
    store: TrialStore,
}

impl Terminated {
    pub(super) fn start(store: &TrialStore) -> Result<Self, Failure> {
        let server = Postgres::start_with(&["fsync=off"]).map_err(Failure::definite)?;
        let address = format!("{}{}", server.url(), store.parameters());
        let store = store.clone().at(address);
        Ok(Self { server, store })
    }
}

impl Keeper for Terminated {
    fn store(&self) -> TrialStore {
        self.store.clone()
    }

    fn take_away(&self, watched: &Watched<'_>) -> Result<bool, Failure> {
        let mut connection = Connection::open(&format!("{}#public", self.server.url()))?;
        let ended = number(&mut connection, TERMINATE)?;
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        while number(&mut connection, HOLDING)? > 0 {
            if Instant::now() > deadline {
                return Ok(false);
            }
            std::thread::sleep(LOOK);
        }
        let rows = match watched.ground {
            // What the tables of an external lock mean is not known.
            Ground::Postgres(endpoint) if watched.is_known => delete_records(endpoint)?,
            _ => 0,
        };
        Ok(ended > 0 || rows > 0)
    }
}

/// Deletes the rows of our own locks. Returns how many there were.
fn delete_records(endpoint: &str) -> Result<u64, Failure> {
    let mut connection = Connection::open(endpoint)?;
    let mut rows = 0;
    for statement in RECORDS {
        let deleted = connection.change(statement, &[]);
        rows += deleted.map_err(StoreError::into_write_failure)?;
    }
    Ok(rows)
}

fn number(connection: &mut Connection, question: &'static str) -> Result<i64, Failure> {
    let row = connection
        .ask_one(question, &[])
        .map_err(StoreError::into_read_failure)?;
    Ok(row.map_or(0, |row| row.get(0)))
}
