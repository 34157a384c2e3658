//! The stores that are measured: their servers, and the parties at each.

use std::any::Any;

use fencepost::stores::postgres_table::PostgresTable;
use fencepost_rig::{Etcd, Postgres, Redis, Zookeeper, folder};

use crate::Bench;
use crate::contests::{Parties, Party, ours};
use crate::foreign;
use crate::lock::{Here, NAMES};
use crate::native::{Advisory, EtcdLock};
use crate::ours::{Ours, player};
use crate::raw::{self, Bare, Limit};
use crate::wire::Raw;

/// A store that is measured.
pub(crate) struct Store {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) one_is: &'static str,
    pub(crate) start: fn(&Bench) -> Stage,
}

#[rustfmt::skip]
pub(crate) const STORES: &[Store] = &[
    Store { name: "sqlite", title: "SQLite", start: sqlite,
            one_is: "an insert and a delete, each a transaction" },
    Store { name: "redis", title: "Redis", start: redis,
            one_is: "SET NX PX and compare-and-delete on a blocking socket" },
    Store { name: "redlock", title: "Redlock (3 servers)", start: redlock,
            one_is: "the same on three blocking sockets at once" },
    Store { name: "postgres", title: "Postgres advisory", start: postgres,
            one_is: "pg_try_advisory_lock and pg_advisory_unlock on a held connection" },
    Store { name: "postgres-table", title: "Postgres table", start: postgres_table,
            one_is: "ShedLock's two statements on a held connection" },
    Store { name: "etcd", title: "etcd", start: etcd,
            one_is: "a key put if absent under a lease that is there, and its delete" },
    Store { name: "zookeeper", title: "ZooKeeper", start: zookeeper,
            one_is: "create, list children, delete in one session" },
    Store { name: "versus", title: "Redis against Postgres", start: versus,
            one_is: "ours on Redis" },
];

/// A running store, with all its participants.
pub(crate) struct Stage {
    pub(crate) parties: Parties,
    pub(crate) versions: Vec<String>,
    pub(crate) skipped: Vec<String>,
    /// The servers, which live as long as their clients.
    pub(crate) servers: Vec<Box<dyn Any>>,
}

impl Stage {
    fn new(limit: Option<Box<dyn Limit>>, version: String) -> Self {
        Self {
            parties: Parties {
                limit,
                list: Vec::new(),
            },
            versions: vec![version],
            skipped: Vec::new(),
            servers: Vec::new(),
        }
    }

    fn ours(self, bench: &Bench, address: &str) -> Self {
        self.ours_as(bench, address, ours())
    }

    fn ours_as(mut self, bench: &Bench, address: &str, name: String) -> Self {
        let lock = bench.runtime.block_on(Ours::open(address));
        let address = address.to_owned();
        self.parties.list.push(Party {
            name,
            play: Box::new(Here {
                runtime: bench.runtime.clone(),
                lock,
            }),
            process: Some(Box::new(move || player("ours", &address))),
        });
        self
    }

    fn advisory(mut self, bench: &Bench, address: &str) -> Self {
        let seats = bench.effort.pick(200, 64) + 1;
        let lock = bench.runtime.block_on(Advisory::open(address, seats));
        let address = address.to_owned();
        self.parties.list.push(Party {
            name: "tokio-postgres".to_owned(),
            play: Box::new(Here {
                runtime: bench.runtime.clone(),
                lock,
            }),
            process: Some(Box::new(move || player("advisory", &address))),
        });
        self
    }

    fn foreign(mut self, started: Result<Party, String>) -> Self {
        match started {
            Ok(party) => self.parties.list.push(party),
            Err(why) => {
                eprintln!("skipped: {why}");
                self.skipped.push(why);
            }
        }
        self
    }

    fn keep(mut self, server: impl Any) -> Self {
        self.servers.push(Box::new(server));
        self
    }
}

fn bare<R: raw::Requests>(bench: &Bench, requests: R) -> Option<Box<dyn Limit>> {
    Some(Box::new(Bare {
        runtime: bench.runtime.clone(),
        requests,
    }))
}

fn sqlite(bench: &Bench) -> Stage {
    let folder = folder().expect("a folder");
    let limit = raw::Sqlite::open(&folder.path().join("raw.db"));
    let address = format!("sqlite:{}", folder.path().join("locks.db").display());
    let version = format!("SQLite {}", rusqlite::version());
    Stage::new(Some(Box::new(limit)), version)
        .ours(bench, &address)
        .keep(folder)
}

fn redis(bench: &Bench) -> Stage {
    let server = Redis::start().expect("a private redis-server");
    let limit = raw::Redis(vec![Raw::connect(server.address())]);
    let version = format!("redis-server {}", server.version());
    Stage::new(Some(Box::new(limit)), version)
        .ours(bench, &server.url())
        .foreign(foreign::node_redlock(vec![server.url()]))
        .keep(server)
}

fn redlock(bench: &Bench) -> Stage {
    let servers: Vec<Redis> = (0..3)
        .map(|_| Redis::start().expect("a private redis-server"))
        .collect();
    let wires = servers.iter().map(|server| Raw::connect(server.address()));
    let limit = raw::Redis(wires.collect());
    let hosts: Vec<String> = servers
        .iter()
        .map(|server| server.address().to_string())
        .collect();
    let urls = servers.iter().map(Redis::url).collect();
    let version = format!("redis-server {}", servers[0].version());
    Stage::new(Some(Box::new(limit)), version)
        .ours(bench, &format!("redlock://{}", hosts.join(",")))
        .foreign(foreign::node_redlock(urls))
        .keep(servers)
}

fn postgres(bench: &Bench) -> Stage {
    let server = Postgres::start().expect("a private Postgres");
    let limit = bench
        .runtime
        .block_on(raw::Postgres::advisory(&server.url()));
    let version = format!("Postgres {}", server.version());
    Stage::new(bare(bench, limit), version)
        .ours(bench, &server.url())
        .advisory(bench, &server.url())
        .keep(server)
}

fn postgres_table(bench: &Bench) -> Stage {
    let server = Postgres::start().expect("a private Postgres");
    let limit = bench.runtime.block_on(raw::Postgres::table(&server.url()));
    let version = format!("Postgres {}", server.version());
    Stage::new(bare(bench, limit), version)
        .ours(bench, &with_table(bench, &server))
        .keep(server)
}

/// Creates the tables, and returns their address.
fn with_table(bench: &Bench, server: &Postgres) -> String {
    let address = format!("{}?table=shedlock", server.url());
    let making = PostgresTable::builder(&address).create_table(true).open();
    drop(bench.runtime.block_on(making).expect("tables"));
    address
}

fn etcd(bench: &Bench) -> Stage {
    let server = Etcd::start().expect("a private etcd");
    let address = server.url();
    let limit = bench.runtime.block_on(raw::Etcd::open(&address));
    let seats = bench.effort.pick(200, 64) + 1;
    let lock = bench.runtime.block_on(EtcdLock::open(&address, seats));
    let mut stage = Stage::new(bare(bench, limit), version("etcd", "etcd")).ours(bench, &address);
    stage.parties.list.push(Party {
        name: "etcd-client".to_owned(),
        play: Box::new(Here {
            runtime: bench.runtime.clone(),
            lock,
        }),
        process: Some(Box::new(move || player("etcd", &address))),
    });
    stage.keep(server)
}

fn zookeeper(bench: &Bench) -> Stage {
    let server = Zookeeper::start().expect("a private ZooKeeper");
    let hosts = server.address().to_string();
    let limit = bench.runtime.block_on(raw::Zookeeper::open(&hosts, NAMES));
    let classes = folder().expect("a folder");
    Stage::new(
        bare(bench, limit),
        format!("ZooKeeper {}", server.version()),
    )
    .ours(bench, &format!("zk://{hosts}"))
    .foreign(foreign::curator(&hosts, classes.path()))
    .foreign(foreign::kazoo(&hosts))
    .keep(classes)
    .keep(server)
}

/// Ours on Redis is 1, compared with ours on Postgres, with and without waiting for its disk, and with Postgres' own locks.
fn versus(bench: &Bench) -> Stage {
    let redis = Redis::start().expect("a private redis-server");
    let server = Postgres::start().expect("a private Postgres");
    let lax = Postgres::start_with(&["fsync=off"]).expect("a private Postgres");
    let version = format!("redis-server {}", redis.version());
    let mut stage = Stage::new(None, version)
        .ours_as(bench, &redis.url(), "on Redis".into())
        .ours_as(bench, &server.url(), "advisory".into())
        .ours_as(bench, &lax.url(), "advisory, fsync off".into())
        .ours_as(bench, &with_table(bench, &server), "table".into())
        .ours_as(bench, &with_table(bench, &lax), "table, fsync off".into())
        .advisory(bench, &server.url());
    stage
        .versions
        .push(format!("Postgres {}", server.version()));
    stage.keep(redis).keep(server).keep(lax)
}

/// Returns the first number in a program's output.
fn version(name: &str, program: &str) -> String {
    let said = std::process::Command::new(program)
        .arg("--version")
        .output();
    let said = said.map_or(Vec::new(), |output| output.stdout);
    let said = String::from_utf8_lossy(&said).into_owned();
    let number = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    let version = said.split_whitespace().find(number).unwrap_or_default();
    format!("{name} {version}")
}
