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
    /// What an address of it looks like, for people.
    pub form: &'static str,
    /// How addresses of it begin.
    pub schemes: &'static [Scheme],
    /// The parameter that tells it from another kind with the same schemes.
    pub(super) parameter: Option<&'static str>,
    /// `None` if this build does not have it.
    pub(super) opener: Option<Opener>,
}

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

#[cfg(any(
    feature = "sqlite",
    feature = "redis",
    feature = "postgres",
    feature = "etcd",
    feature = "zookeeper"
))]
fn shared(opened: Result<impl Backend>) -> Result<Arc<dyn Backend>> {
    let store: Arc<dyn Backend> = Arc::new(opened?);
    Ok(store)
}

/// Every store of this crate that has an address. Of several that fit an address, the first is meant.
pub static KINDS: &[StoreKind] = &[
    StoreKind {
        name: "sqlite",
        title: "SQLite",
        form: "sqlite:PATH",
        schemes: &[scheme!("sqlite:", "sqlite")],
        parameter: None,
        opener: opener!("sqlite", super::sqlite::open_address, look super::sqlite::look_at_address),
    },
    StoreKind {
        name: "redis",
        title: "Redis",
        form: "redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]",
        schemes: &[
            scheme!("redis://", "redis"),
            scheme!("rediss://", "redis-tls"),
            scheme!("unix:", "redis"),
        ],
        parameter: None,
        opener: opener!("redis", super::redis::Redis::open),
    },
    StoreKind {
        name: "redlock",
        title: "Redlock",
        form: "redlock://[USER:PASSWORD@]HOST,HOST,HOST[/DATABASE][?restart_delay=30s]",
        schemes: &[scheme!("redlock://", "redlock")],
        parameter: None,
        opener: opener!("redlock", super::redlock::Redlock::open),
    },
    StoreKind {
        name: "postgres_table",
        title: "Postgres",
        form: "postgres://USER[:PASSWORD]@HOST/DATABASE?table=shedlock[&create=true]",
        schemes: POSTGRES,
        parameter: Some("table"),
        opener: opener!("postgres", super::postgres_table::PostgresTable::open),
    },
    StoreKind {
        name: "postgres",
        title: "Postgres",
        form: "postgres://USER[:PASSWORD]@HOST/DATABASE",
        schemes: POSTGRES,
        parameter: None,
        opener: opener!("postgres", super::postgres::open_address, look super::postgres::look_at_address),
    },
    StoreKind {
        name: "etcd",
        title: "etcd",
        form: "etcd://HOST,HOST,HOST[/PREFIX]",
        schemes: &[scheme!("etcd://", "etcd"), scheme!("etcds://", "etcd-tls")],
        parameter: None,
        opener: opener!("etcd", super::etcd::Etcd::open),
    },
    StoreKind {
        name: "zookeeper",
        title: "ZooKeeper",
        form: "zk://HOST,HOST,HOST[/CHROOT]",
        schemes: &[scheme!("zk://", "zookeeper")],
        parameter: None,
        opener: opener!("zookeeper", super::zookeeper::Zookeeper::open),
    },
];

const POSTGRES: &[Scheme] = &[
    scheme!("postgres://", "postgres"),
    scheme!("postgresql://", "postgres"),
];
