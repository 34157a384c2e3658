//! An advisory lock of Postgres, which belongs to the session of a process.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::flaw::Flaw;
use crate::part::ExternalLock;
use crate::remote::Remote;

/// How many connections a pool has.
const POOL: usize = 2;

/// The lock from the point of view of one process.
pub(crate) struct PostgresLatch {
    runtime: Runtime,
    url: String,
    clients: Vec<Client>,
    statements: usize,
    space: String,
    lock: ExternalLock,
    flaw: Option<Flaw>,
}

impl PostgresLatch {
    /// Opens the lock at `postgres://…#SCHEMA`.
    pub(crate) fn at(endpoint: &str, lock: ExternalLock) -> Self {
        let flaw = lock.flaw;
        let (url, space) = endpoint.rsplit_once('#').unwrap();
        // A session does nothing while nobody asks.
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let is_pooled = matches!(flaw, Some(Flaw::Pooled | Flaw::KeptByPool));
        let mut latch = Self {
            runtime,
            url: url.into(),
            clients: Vec::new(),
            statements: 0,
            space: space.into(),
            lock,
            flaw,
        };
        for _ in 0..if is_pooled { POOL } else { 1 } {
            let client = latch.connect().unwrap();
            latch.clients.push(client);
        }
        latch
    }

    fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        let connected = tokio_postgres::connect(&self.url, NoTls);
        let (client, connection) = self.runtime.block_on(connected)?;
        self.runtime.spawn(connection);
        if let Some(looks) = looks_for_dead_connections(self.lock) {
            self.runtime.block_on(client.batch_execute(&looks))?;
        }
        Ok(client)
    }

    /// Returns the number of a lock.
    fn number(&self, key: &str) -> i64 {
        if self.flaw == Some(Flaw::NumberOfEightLetters) {
            let mut letters = [0; 8];
            let bytes = key.bytes().take(letters.len());
            bytes.enumerate().for_each(|(at, byte)| letters[at] = byte);
            return i64::from_be_bytes(letters);
        }
        let mut hasher = DefaultHasher::new();
        (&self.space, key).hash(&mut hasher);
        hasher.finish().cast_signed()
    }

    /// Asks for one truth value.
    fn ask(&mut self, sql: &str) -> bool {
        let place = self.statements % self.clients.len();
        self.statements += 1;
        let mut answer = self.runtime.block_on(self.clients[place].simple_query(sql));
        // A connection that has ended holds nothing any more.
        if self.clients[place].is_closed()
            && let Ok(client) = self.connect()
        {
            answer = self.runtime.block_on(client.simple_query(sql));
            self.clients[place] = client;
        }
        answer
            .unwrap_or_default()
            .iter()
            .any(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0) == Some("t"),
                _ => false,
            })
    }
}

/// Returns the statements after which the server looks for dead connections, if the lock wants that. One that claims to be free soon after the
/// end of its connection leaves it to the system, which looks after two hours.
fn looks_for_dead_connections(lock: ExternalLock) -> Option<String> {
    let is_patient = lock.claims.recovery_ms.is_some_and(|ms| ms >= 1_000);
    let idle_s = match lock.flaw {
        Some(Flaw::LooksSeldom) => 2,
        None if is_patient => 1,
        _ => return None,
    };
    Some(format!(
        "SET tcp_keepalives_idle = {idle_s}; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 1"
    ))
}

impl Remote for PostgresLatch {
    fn take(&mut self, key: &str, _token: &str) -> bool {
        let function = match self.flaw {
            Some(Flaw::SharedLock) => "pg_try_advisory_lock_shared",
            Some(Flaw::LockOfTransaction | Flaw::RolledBack | Flaw::HeldByTransaction) => {
                "pg_try_advisory_xact_lock"
            }
            _ => "pg_try_advisory_lock",
        };
        let number = self.number(key);
        let in_transaction = matches!(
            self.flaw,
            Some(Flaw::RolledBack | Flaw::TrustsRollback | Flaw::HeldByTransaction)
        );
        if in_transaction {
            self.ask("BEGIN");
        }
        let is_granted = self.ask(&format!("SELECT {function}({number})"));
        if in_transaction && !is_granted {
            self.ask("ROLLBACK");
            return false;
        }
        if self.flaw == Some(Flaw::RolledBack) {
            // Something in the transaction fails, and whoever handles the error does not know of the lock.
            self.ask("SELECT 1 / 0");
            self.ask("ROLLBACK");
        }
        is_granted
    }

    fn give_back(&mut self, key: &str, _token: &str) -> bool {
        let function = match self.flaw {
            Some(Flaw::SharedLock) => "pg_advisory_unlock_shared",
            // The transaction was over long ago.
            Some(Flaw::LockOfTransaction | Flaw::RolledBack) => return true,
            Some(Flaw::TrustsRollback) => {
                self.ask("ROLLBACK");
                return true;
            }
            Some(Flaw::HeldByTransaction) => {
                self.ask("COMMIT");
                return true;
            }
            // Its connection goes back to the pool, and nobody unlocks it.
            Some(Flaw::KeptByPool) => return true,
            Some(Flaw::UnlocksAll) => {
                return self.ask("SELECT pg_advisory_unlock_all() IS NOT NULL");
            }
            _ => "pg_advisory_unlock",
        };
        let number = self.number(key);
        self.ask(&format!("SELECT {function}({number})"))
    }

    fn is_untimed(&self) -> bool {
        true
    }
}
