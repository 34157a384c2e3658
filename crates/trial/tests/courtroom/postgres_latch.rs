//! An advisory lock of Postgres, which belongs to the session of a process.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::flaw::Flaw;
use crate::remote::Remote;

/// How many connections a pool has.
const POOL: usize = 2;

/// The lock from the point of view of one process.
pub(crate) struct PostgresLatch {
    runtime: Runtime,
    clients: Vec<Client>,
    statements: usize,
    space: String,
    flaw: Option<Flaw>,
}

impl PostgresLatch {
    /// Opens the lock at `postgres://…#SCHEMA`.
    pub(crate) fn at(endpoint: &str, flaw: Option<Flaw>) -> Self {
        let (url, space) = endpoint.rsplit_once('#').unwrap();
        // A session does nothing while nobody asks.
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let connect = |_| {
            let connected = runtime.block_on(tokio_postgres::connect(url, NoTls));
            let (client, connection) = connected.unwrap();
            runtime.spawn(connection);
            client
        };
        let is_pooled = flaw == Some(Flaw::Pooled);
        let clients = (0..if is_pooled { POOL } else { 1 }).map(connect).collect();
        Self {
            runtime,
            clients,
            statements: 0,
            space: space.into(),
            flaw,
        }
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
        let client = &self.clients[self.statements % self.clients.len()];
        self.statements += 1;
        let answer = self.runtime.block_on(client.simple_query(sql));
        answer
            .unwrap_or_default()
            .iter()
            .any(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0) == Some("t"),
                _ => false,
            })
    }
}

impl Remote for PostgresLatch {
    fn take(&mut self, key: &str, _token: &str) -> bool {
        let function = match self.flaw {
            Some(Flaw::SharedLock) => "pg_try_advisory_lock_shared",
            Some(Flaw::LockOfTransaction) => "pg_try_advisory_xact_lock",
            _ => "pg_try_advisory_lock",
        };
        let number = self.number(key);
        self.ask(&format!("SELECT {function}({number})"))
    }

    fn give_back(&mut self, key: &str, _token: &str) -> bool {
        let function = match self.flaw {
            Some(Flaw::SharedLock) => "pg_advisory_unlock_shared",
            // The transaction was over long ago.
            Some(Flaw::LockOfTransaction) => return true,
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
