//! The table of stores: one entry each, whether this build has it or not.

use std::sync::Arc;

use crate::backend::Backend;
use crate::clock::BoxFuture;
use crate::error::Result;

/// A kind of store, as addresses name it.
///
/// Those of this crate are in [`KINDS`], also the ones that this build leaves out: whoever names one is told which feature brings it.
#[derive(Debug)]
#[non_exhaustive]
pub struct StoreKind {
    /// A short name, such as `redis`: that of its module.
    pub name: &'static str,
    /// What people call it, such as `Redis`.
    pub title: &'static str,
    /// The server that a user has to run, such as `Redis` for Redlock; for SQLite, the library itself.
    pub server: &'static str,
    /// What an address of it looks like, for people.
    pub form: &'static str,
    /// How addresses of it begin.
    pub schemes: &'static [Scheme],
    /// The parameter that tells it from another kind with the same schemes.
    pub(super) parameter: Option<&'static str>,
    /// `None` if this build does not have it.
    pub(super) opener: Option<Opener>,
}

impl StoreKind {
    /// Whether this build has the store.
    pub fn is_built_in(&self) -> bool {
        self.opener.is_some()
    }

    /// The kind with this [name](Self::name).
    pub fn named(name: &str) -> Option<&'static Self> {
        KINDS.iter().copied().find(|kind| kind.name == name)
    }
}

/// No two kinds have the same name.
impl PartialEq for StoreKind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for StoreKind {}

/// How an address begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scheme {
    /// Such as `redis://`.
    pub prefix: &'static str,
    /// The feature of this crate that it needs.
    pub feature: &'static str,
    /// Whether this build has that feature.
    pub is_built_in: bool,
}

/// How a store is opened by its address.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opener {
    pub(super) open: fn(&str) -> Opening<'_>,
    /// To look at its locks.
    pub(super) look: fn(&str) -> Opening<'_>,
}

pub(super) type Opening<'a> = BoxFuture<'a, Result<Arc<dyn Backend>>>;

macro_rules! scheme {
    ($prefix:literal, $feature:literal) => {
        Scheme {
            prefix: $prefix,
            feature: $feature,
            is_built_in: cfg!(feature = $feature),
        }
    };
}

/// The opener of a store, if its feature is on.
macro_rules! opener {
    ($feature:literal, $open:expr) => {
        opener!($feature, $open, look $open)
    };
    ($feature:literal, $open:expr, look $look:expr) => {{
        #[cfg(feature = $feature)]
        let opener = Some(Opener {
            open: |address| Box::pin(async move { shared($open(address).await) }),
            look: |address| Box::pin(async move { shared($look(address).await) }),
        });
        #[cfg(not(feature = $feature))]
        let opener = None;
        opener
    }};
}

#[allow(dead_code, reason = "a build without stores opens none")]
fn shared(opened: Result<impl Backend>) -> Result<Arc<dyn Backend>> {
    let store: Arc<dyn Backend> = Arc::new(opened?);
    Ok(store)
}

/// Every store of this crate that has an address. Of several that fit an address, the first is meant.
pub static KINDS: &[&StoreKind] = &[
    &SQLITE,
    &REDIS,
    &REDLOCK,
    &POSTGRES_TABLE,
    &POSTGRES,
    &ETCD,
    &ZOOKEEPER,
];

/// Locks in a file.
pub static SQLITE: StoreKind = StoreKind {
    name: "sqlite",
    title: "SQLite",
    server: "SQLite",
    form: "sqlite:PATH",
    schemes: &[scheme!("sqlite:", "sqlite")],
    parameter: None,
    opener: opener!("sqlite", super::sqlite::open_address, look super::sqlite::look_at_address),
};

/// Locks on one Redis server.
pub static REDIS: StoreKind = StoreKind {
    name: "redis",
    title: "Redis",
    server: "Redis",
    form: "redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]",
    schemes: &[
        scheme!("redis://", "redis"),
        scheme!("rediss://", "redis-tls"),
        scheme!("unix:", "redis"),
    ],
    parameter: None,
    opener: opener!("redis", super::redis::Redis::open),
};

/// Locks on several Redis servers, of which a majority decides.
pub static REDLOCK: StoreKind = StoreKind {
    name: "redlock",
    title: "Redlock",
    server: "Redis",
    form: "redlock://[USER:PASSWORD@]HOST,HOST,HOST[/DATABASE][?restart_delay=30s]",
    schemes: &[scheme!("redlock://", "redlock")],
    parameter: None,
    opener: opener!("redlock", super::redlock::Redlock::open),
};

/// Leases in a table of Postgres.
pub static POSTGRES_TABLE: StoreKind = StoreKind {
    name: "postgres_table",
    title: "Postgres",
    server: "Postgres",
    form: "postgres://USER[:PASSWORD]@HOST/DATABASE?table=shedlock[&create=true]",
    schemes: POSTGRES_SCHEMES,
    parameter: Some("table"),
    opener: opener!("postgres", super::postgres_table::PostgresTable::open),
};

/// Advisory locks of Postgres.
pub static POSTGRES: StoreKind = StoreKind {
    name: "postgres",
    title: "Postgres",
    server: "Postgres",
    form: "postgres://USER[:PASSWORD]@HOST/DATABASE",
    schemes: POSTGRES_SCHEMES,
    parameter: None,
    opener: opener!("postgres", super::postgres::open_address, look super::postgres::look_at_address),
};

/// Locks in etcd.
pub static ETCD: StoreKind = StoreKind {
    name: "etcd",
    title: "etcd",
    server: "etcd",
    form: "etcd://HOST,HOST,HOST[/PREFIX]",
    schemes: &[scheme!("etcd://", "etcd"), scheme!("etcds://", "etcd-tls")],
    parameter: None,
    opener: opener!("etcd", super::etcd::Etcd::open),
};

/// Locks in ZooKeeper.
pub static ZOOKEEPER: StoreKind = StoreKind {
    name: "zookeeper",
    title: "ZooKeeper",
    server: "ZooKeeper",
    form: "zk://HOST,HOST,HOST[/CHROOT]",
    schemes: &[scheme!("zk://", "zookeeper")],
    parameter: None,
    opener: opener!("zookeeper", super::zookeeper::Zookeeper::open),
};

const POSTGRES_SCHEMES: &[Scheme] = &[
    scheme!("postgres://", "postgres"),
    scheme!("postgresql://", "postgres"),
];
