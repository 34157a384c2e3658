//! The limits for every store: the fewest requests that a lock needs there, sent by the store's bare client.

use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use etcd_client::{Client as EtcdClient, Compare, CompareOp, PutOptions, Txn, TxnOp};
use futures_util::future::join_all;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, Statement};
use zookeeper_client::{Acls, Client as ZkClient, CreateMode};

use crate::wire::Raw;

/// Acquires and releases a lock, and does nothing else.
pub(crate) trait Limit {
    /// Runs pairs one after the other. Returns the time per pair.
    fn pairs(&mut self, pairs: usize) -> Duration;
    /// Runs pairs on this many names at once. Returns the time per pair.
    fn many(&mut self, names: usize, pairs: usize) -> Duration;
}

/// What the async clients share.
pub(crate) struct Bare<R> {
    pub(crate) runtime: Rc<Runtime>,
    pub(crate) requests: R,
}

/// The requests of one acquire and one release.
pub(crate) trait Requests: Clone + Send + Sync + 'static {
    fn pair(&self, name: usize) -> impl Future<Output = ()> + Send;
}

impl<R: Requests> Limit for Bare<R> {
    fn pairs(&mut self, pairs: usize) -> Duration {
        let requests = self.requests.clone();
        let work = self.runtime.spawn(async move {
            let started = Instant::now();
            for _ in 0..pairs {
                requests.pair(0).await;
            }
            started.elapsed() / pairs as u32
        });
        self.runtime.block_on(work).expect("no panic")
    }

    fn many(&mut self, names: usize, pairs: usize) -> Duration {
        let requests = self.requests.clone();
        let work = self.runtime.spawn(async move {
            let started = Instant::now();
            for _ in 0..pairs {
                join_all((0..names).map(|name| requests.pair(1 + name))).await;
            }
            started.elapsed() / (names * pairs) as u32
        });
        self.runtime.block_on(work).expect("no panic")
    }
}

/// `SET NX PX` and compare-and-delete on blocking sockets: first to all servers, then the answers of all.
pub(crate) struct Redis(pub(crate) Vec<Raw>);

impl Redis {
    fn batch(&mut self, make: impl Fn(&Raw, &str) -> Vec<u8>, names: &[String]) {
        for wire in &mut self.0 {
            let commands: Vec<u8> = names.iter().flat_map(|name| make(wire, name)).collect();
            wire.send(&commands);
        }
        for wire in &mut self.0 {
            for _ in names {
                wire.answer();
            }
        }
    }
}

impl Limit for Redis {
    fn pairs(&mut self, pairs: usize) -> Duration {
        self.many(1, pairs)
    }

    fn many(&mut self, names: usize, pairs: usize) -> Duration {
        let names: Vec<String> = (0..names).map(|name| format!("raw:{name}")).collect();
        let started = Instant::now();
        for _ in 0..pairs {
            self.batch(Raw::set, &names);
            self.batch(Raw::delete, &names);
        }
        started.elapsed() / (names.len() * pairs) as u32
    }
}

/// Two writing statements, each in its own transaction, because a file has one writer at a time.
pub(crate) struct Sqlite(rusqlite::Connection);

impl Sqlite {
    pub(crate) fn open(path: &Path) -> Self {
        let connection = rusqlite::Connection::open(path).expect("a file");
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
                 CREATE TABLE raw (name TEXT PRIMARY KEY, owner TEXT, until INTEGER) WITHOUT ROWID;",
            )
            .expect("a table");
        Self(connection)
    }
}

impl Limit for Sqlite {
    fn pairs(&mut self, pairs: usize) -> Duration {
        self.many(1, pairs)
    }

    fn many(&mut self, names: usize, pairs: usize) -> Duration {
        let take = "INSERT INTO raw VALUES (?1, 'owner', 1) ON CONFLICT DO NOTHING";
        let give = "DELETE FROM raw WHERE name = ?1 AND owner = 'owner'";
        let started = Instant::now();
        for name in (0..names).cycle().take(names * pairs) {
            for statement in [take, give] {
                let mut statement = self.0.prepare_cached(statement).expect("a statement");
                assert_eq!(statement.execute([name as i64]).expect("an answer"), 1);
            }
        }
        started.elapsed() / (names * pairs) as u32
    }
}

/// Two statements on an existing connection.
#[derive(Clone)]
pub(crate) struct Postgres {
    client: std::sync::Arc<Client>,
    take: Statement,
    give: Statement,
}

impl Postgres {
    /// Advisory locks.
    pub(crate) async fn advisory(address: &str) -> Self {
        let (take, give) = (
            "SELECT pg_try_advisory_lock($1)",
            "SELECT pg_advisory_unlock($1)",
        );
        Self::open(address, "", take, give).await
    }

    /// The statements of ShedLock, on a table like its own.
    pub(crate) async fn table(address: &str) -> Self {
        let make = "CREATE TABLE IF NOT EXISTS raw (name bigint PRIMARY KEY, lock_until timestamp(3) NOT NULL,
            locked_at timestamp(3) NOT NULL, locked_by varchar(255) NOT NULL)";
        let take = "INSERT INTO raw VALUES ($1, now() at time zone 'utc' + interval '10 s', now() at time zone 'utc', 'owner')
            ON CONFLICT (name) DO UPDATE SET lock_until = excluded.lock_until, locked_at = excluded.locked_at, locked_by = excluded.locked_by
            WHERE raw.lock_until <= now() at time zone 'utc' RETURNING true";
        // Rounded down, so that a lock that was released a moment ago is free.
        let give = "UPDATE raw SET lock_until = date_trunc('milliseconds', now() at time zone 'utc') WHERE name = $1 AND locked_by = 'owner' RETURNING true";
        Self::open(address, make, take, give).await
    }

    async fn open(address: &str, make: &str, take: &str, give: &str) -> Self {
        let connected = tokio_postgres::connect(address, NoTls).await;
        let (client, connection) = connected.expect("a session");
        tokio::spawn(connection);
        client.batch_execute(make).await.expect("a table");
        Self {
            take: client.prepare(take).await.expect("a statement"),
            give: client.prepare(give).await.expect("a statement"),
            client: client.into(),
        }
    }
}

impl Requests for Postgres {
    async fn pair(&self, name: usize) {
        let name = name as i64;
        for statement in [&self.take, &self.give] {
            let row = self.client.query_one(statement, &[&name]).await;
            assert!(row.expect("an answer").get::<_, bool>(0));
        }
    }
}

/// Creates a key under an existing lease, and deletes it.
#[derive(Clone)]
pub(crate) struct Etcd {
    client: EtcdClient,
    lease: i64,
}

impl Etcd {
    pub(crate) async fn open(address: &str) -> Self {
        let host = address.trim_start_matches("etcd://");
        let client = EtcdClient::connect([host], None).await;
        let mut client = client.expect("a connection");
        let lease = client.lease_grant(3_600, None).await;
        Self {
            client,
            lease: lease.expect("a lease").id(),
        }
    }
}

impl Requests for Etcd {
    async fn pair(&self, name: usize) {
        let (mut client, key) = (self.client.clone(), format!("raw-{name}"));
        let options = PutOptions::new().with_lease(self.lease);
        let is_free = Compare::create_revision(key.as_str(), CompareOp::Equal, 0);
        let put = TxnOp::put(key.as_str(), "", Some(options));
        let taken = client.txn(Txn::new().when([is_free]).and_then([put])).await;
        assert!(taken.expect("an answer").succeeded());
        let given = client.delete(key, None).await;
        assert_eq!(given.expect("an answer").deleted(), 1);
    }
}

/// Creates a node in the line, reads the line, and deletes the node.
#[derive(Clone)]
pub(crate) struct Zookeeper(ZkClient);

impl Zookeeper {
    pub(crate) async fn open(hosts: &str, names: usize) -> Self {
        // Nobody keeps the session alive while other processes have their turns.
        let connector = ZkClient::connector().with_session_timeout(Duration::from_secs(120));
        let client = connector.connect(hosts).await.expect("a session");
        let folder = CreateMode::Persistent.with_acls(Acls::anyone_all());
        client.create("/raw", b"", &folder).await.expect("a node");
        for name in 0..=names {
            let path = format!("/raw/{name}");
            client.create(&path, b"", &folder).await.expect("a node");
        }
        Self(client)
    }
}

impl Requests for Zookeeper {
    async fn pair(&self, name: usize) {
        let folder = format!("/raw/{name}");
        let place = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let path = format!("{folder}/lock-");
        let made = self.0.create(&path, b"", &place).await;
        let (_, sequence) = made.expect("a node");
        let line = self.0.list_children(&folder).await;
        assert_eq!(line.expect("an answer").len(), 1);
        let given = self.0.delete(&format!("{path}{sequence}"), None).await;
        given.expect("an answer");
    }
}
