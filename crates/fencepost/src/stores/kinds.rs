//! The table of stores, with one entry per store, including those that this build does not contain.

use std::sync::Arc;

#[allow(unused_imports, reason = "a build without stores opens none")]
use super::kind::Opener;
use super::kind::{Scheme, StoreKind};
use crate::backend::Backend;
use crate::error::Result;

macro_rules! scheme {
    ($prefix:literal, $feature:literal) => {
        Scheme {
            prefix: $prefix,
            feature: $feature,
            is_built_in: cfg!(feature = $feature),
        }
    };
}

/// The opener of a store, or `None` if its feature is off.
macro_rules! opener {
    ($feature:literal, $open:expr) => {
        opener!($feature, $open, look $open)
    };
    ($feature:literal, $open:expr, look $look:expr) => {
        opener!($feature, $open, for |address, _ttl| $open(address), look $look)
    };
    ($feature:literal, $open:expr, for $open_for:expr, look $look:expr) => {{
        #[cfg(feature = $feature)]
        let opener = Some(Opener {
            open: |address| Box::pin(async move { shared($open(address).await) }),
            open_for: |address, ttl| Box::pin(async move { shared($open_for(address, ttl).await) }),
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

/// Every store of this crate that has an address. If several kinds match an address, the first one counts.
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
    address_form: "sqlite:PATH",
    schemes: &[scheme!("sqlite:", "sqlite")],
    parameter: None,
    has_user_per_server: false,
    has_user_alone: false,
    opener: opener!("sqlite", super::sqlite::open_address, look super::sqlite::look_at_address),
};

/// Locks on one Redis server.
pub static REDIS: StoreKind = StoreKind {
    name: "redis",
    title: "Redis",
    server: "Redis",
    address_form: "redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]",
    schemes: &[
        scheme!("redis://", "redis"),
        scheme!("rediss://", "redis-tls"),
        scheme!("unix:", "redis"),
    ],
    parameter: None,
    has_user_per_server: false,
    has_user_alone: false,
    opener: opener!("redis", super::redis::Redis::open),
};

/// Locks on several Redis servers, of which a majority decides.
pub static REDLOCK: StoreKind = StoreKind {
    name: "redlock",
    title: "Redlock",
    server: "Redis",
    address_form: "redlock://[USER:PASSWORD@]HOST,HOST,HOST[/DATABASE][?restart_delay=30s]",
    schemes: &[scheme!("redlock://", "redlock")],
    parameter: None,
    has_user_per_server: true,
    has_user_alone: false,
    opener: opener!("redlock", super::redlock::Redlock::open),
};

/// Leases in a Postgres table.
pub static POSTGRES_TABLE: StoreKind = StoreKind {
    name: "postgres_table",
    title: "Postgres",
    server: "Postgres",
    address_form: "postgres://USER[:PASSWORD]@HOST/DATABASE?table=shedlock[&create=true]",
    schemes: POSTGRES_SCHEMES,
    parameter: Some("table"),
    has_user_per_server: false,
    has_user_alone: true,
    opener: opener!("postgres", super::postgres_table::PostgresTable::open),
};

/// Advisory locks of Postgres.
pub static POSTGRES: StoreKind = StoreKind {
    name: "postgres",
    title: "Postgres",
    server: "Postgres",
    address_form: "postgres://USER[:PASSWORD]@HOST/DATABASE",
    schemes: POSTGRES_SCHEMES,
    parameter: None,
    has_user_per_server: false,
    has_user_alone: true,
    opener: opener!("postgres", super::postgres::open_address, look super::postgres::look_at_address),
};

/// Locks in etcd.
pub static ETCD: StoreKind = StoreKind {
    name: "etcd",
    title: "etcd",
    server: "etcd",
    address_form: "etcd://[USER:PASSWORD@]HOST,HOST,HOST[/PREFIX]",
    schemes: &[scheme!("etcd://", "etcd"), scheme!("etcds://", "etcd-tls")],
    parameter: None,
    has_user_per_server: false,
    has_user_alone: false,
    opener: opener!("etcd", super::etcd::Etcd::open),
};

/// Locks in ZooKeeper.
pub static ZOOKEEPER: StoreKind = StoreKind {
    name: "zookeeper",
    title: "ZooKeeper",
    server: "ZooKeeper",
    address_form: "zk://[USER:PASSWORD@]HOST,HOST,HOST[/BASE]",
    schemes: &[scheme!("zk://", "zookeeper")],
    parameter: None,
    has_user_per_server: false,
    has_user_alone: false,
    opener: opener!(
        "zookeeper",
        super::zookeeper::Zookeeper::open,
        for super::zookeeper::open_for,
        look super::zookeeper::Zookeeper::open
    ),
};

const POSTGRES_SCHEMES: &[Scheme] = &[
    scheme!("postgres://", "postgres"),
    scheme!("postgresql://", "postgres"),
];
