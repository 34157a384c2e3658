//! Advisory locks of Postgres, for which the server keeps the line. They belong to a session, so each seat has a connection.

use std::future::Future;
use std::time::Duration;

use tokio::task::spawn_local;
use tokio_postgres::{Client, NoTls, Statement};

use crate::Peer;

pub(crate) struct Advisory {
    address: String,
    sessions: Vec<Session>,
}

struct Session {
    client: Client,
    lock: Statement,
    unlock: Statement,
}

impl Advisory {
    pub(crate) fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            sessions: Vec::new(),
        }
    }
}

impl Session {
    async fn open(address: &str) -> Result<Self, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
        spawn_local(connection);
        let lock = client.prepare("SELECT pg_advisory_lock($1)").await?;
        let unlock = client.prepare("SELECT pg_advisory_unlock($1)").await?;
        Ok(Self {
            client,
            lock,
            unlock,
        })
    }
}

impl Peer for Advisory {
    /// Each session has its own process in the server, and processes that are woken together arrive in any order.
    const APART: Option<Duration> = Some(Duration::from_millis(1));

    async fn seats(&mut self, count: usize) {
        while self.sessions.len() < count {
            let session = Session::open(&self.address).await;
            self.sessions.push(session.expect("a session"));
        }
    }

    async fn under(&self, seat: usize, lock: i64, inside: impl Future<Output = ()>) {
        let session = &self.sessions[seat];
        let taken = session.client.query_one(&session.lock, &[&lock]).await;
        taken.expect("the lock");
        inside.await;
        let released = session.client.query_one(&session.unlock, &[&lock]).await;
        assert!(
            released.expect("an answer").get::<_, bool>(0),
            "held until now"
        );
    }
}
