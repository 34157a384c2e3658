//! The databases, the stores of the locks beside them, and the bare update.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost::Backend;
use fencepost::stores::redis::Redis;
use fencepost::stores::sqlite::Sqlite;
use fencepost_checkout::storage::Storage;
use fencepost_checkout::storage::postgres::PostgresStorage;
use fencepost_checkout::storage::sqlite::SqliteStorage;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const UPDATE: &str = "UPDATE checkout_products SET stock = stock - 1, reserved = reserved + 1 WHERE id = $1 AND stock >= 1";
/// The bare updates reserve without an order; this gives the units back, so that the books agree.
const UNDO: &str =
    "UPDATE checkout_products SET stock = stock + $1, reserved = reserved - $1 WHERE id = $2";

/// A database and a store of locks.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) locks: Arc<dyn Backend>,
    bare: Bare,
    _servers: Box<dyn std::any::Any>,
}

enum Bare {
    File(PathBuf),
    Server(String),
}

impl Stage {
    pub(crate) fn all(runtime: &Runtime) -> Vec<Self> {
        let mut all = vec![runtime.block_on(Self::sqlite())];
        match fencepost_rig::Postgres::start() {
            Ok(server) => all.push(runtime.block_on(Self::postgres(server))),
            Err(error) => println!("skipped: Postgres with Redis: {error}"),
        }
        all
    }

    async fn sqlite() -> Self {
        let folder = fencepost_rig::folder().unwrap();
        let path = folder.path().join("shop.db");
        let locks = Sqlite::open(folder.path().join("locks.db")).await.unwrap();
        Self {
            name: "SQLite, locks in SQLite",
            storage: Arc::new(SqliteStorage::open(&path).unwrap()),
            locks: Arc::new(locks),
            bare: Bare::File(path),
            _servers: Box::new(folder),
        }
    }

    async fn postgres(server: fencepost_rig::Postgres) -> Self {
        let redis = fencepost_rig::Redis::start().unwrap();
        let locks = Redis::open(&format!("redis://{}", redis.address())).await;
        Self {
            name: "Postgres, locks in Redis",
            storage: Arc::new(PostgresStorage::open(&server.url()).await.unwrap()),
            locks: Arc::new(locks.unwrap()),
            bare: Bare::Server(server.url()),
            _servers: Box::new((server, redis)),
        }
    }

    /// Returns bare updates per second.
    pub(crate) async fn bare(&self, ids: &[String], buyers: u64, round: Duration) -> f64 {
        match &self.bare {
            Bare::File(path) => {
                let (path, ids) = (path.clone(), ids.to_vec());
                let updates = tokio::task::spawn_blocking(move || in_a_file(path, &ids, round));
                updates.await.unwrap()
            }
            Bare::Server(url) => at_a_server(url, ids, buyers, round).await,
        }
    }
}

/// One thread runs one transaction after the other, without contention.
fn in_a_file(path: PathBuf, ids: &[String], round: Duration) -> f64 {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    connection
        .pragma_update(None, "synchronous", "FULL")
        .unwrap();
    let began = Instant::now();
    let mut done = vec![0_i64; ids.len()];
    let mut turn = 0;
    while began.elapsed() < round {
        turn += 7;
        let at = turn % ids.len();
        let mut update = connection.prepare_cached(UPDATE).unwrap();
        assert_eq!(update.execute([&ids[at]]).unwrap(), 1);
        done[at] += 1;
    }
    let rate = done.iter().sum::<i64>() as f64 / began.elapsed().as_secs_f64();
    for (id, count) in ids.iter().zip(done) {
        connection
            .execute(UNDO, rusqlite::params![count, id])
            .unwrap();
    }
    rate
}

/// A connection for every buyer.
async fn at_a_server(url: &str, ids: &[String], buyers: u64, round: Duration) -> f64 {
    let connect = async || {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        client
    };
    let mut players = JoinSet::new();
    let mut clients = Vec::new();
    for _ in 0..buyers {
        let client = connect().await;
        let update = client.prepare(UPDATE).await.unwrap();
        clients.push((client, update));
    }
    let began = Instant::now();
    for (buyer, (client, update)) in clients.into_iter().enumerate() {
        let ids = ids.to_vec();
        players.spawn(async move {
            let mut done = vec![0_i64; ids.len()];
            let mut turn = buyer;
            while began.elapsed() < round {
                turn += 7;
                let at = turn % ids.len();
                assert_eq!(client.execute(&update, &[&ids[at]]).await.unwrap(), 1);
                done[at] += 1;
            }
            done
        });
    }
    let done = players.join_all().await;
    let count = |done: &Vec<i64>| done.iter().sum::<i64>();
    let rate = done.iter().map(count).sum::<i64>() as f64 / began.elapsed().as_secs_f64();
    let client = connect().await;
    for (at, id) in ids.iter().enumerate() {
        let count: i64 = done.iter().map(|done| done[at]).sum();
        client.execute(UNDO, &[&count, id]).await.unwrap();
    }
    rate
}
