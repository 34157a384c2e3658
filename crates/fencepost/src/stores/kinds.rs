//! [`StoreKind`]: what the crate knows about each store, whether or not this build contains it; and [`KINDS`], the table of all stores.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::Backend;
use crate::clock::BoxFuture;
use crate::error::Result;

/// A kind of store, as addresses name it.
///
/// [`KINDS`] lists all kinds of this crate, including those that this build does not contain, so that an error can name the missing
/// feature. The texts for people may change in any release.
#[derive(Debug)]
#[non_exhaustive]
pub struct StoreKind {
    /// The short name, such as `redis`, which is also the name of the module.
    pub name: &'static str,
    /// The name for people, such as `Redis`.
    pub title: &'static str,
    /// The name of the server that a user has to run, such as `Redis` for Redlock. For SQLite, the library itself.
    pub server: &'static str,
    /// The form of its addresses, for people, such as `sqlite:PATH`.
    pub address_form: &'static str,
    /// The schemes of its addresses.
    pub schemes: &'static [Scheme],
    /// The parameter that distinguishes it from another kind with the same schemes.
    pub(super) parameter: Option<&'static str>,
    /// Whether each server in the address may have a user and a password of its own.
    pub(super) has_user_per_server: bool,
    /// Whether a user may stand in the address without a password. Elsewhere, what stands alone before the `@` may be a password.
    pub(super) has_user_alone: bool,
    /// How to open the store, or `None` if this build does not contain it.
    pub(super) opener: Option<Opener>,
}

impl StoreKind {
    /// Returns whether this build contains the store.
    pub fn is_built_in(&self) -> bool {
        self.opener.is_some()
    }

    /// Returns the kind with this [name](Self::name).
    pub fn named(name: &str) -> Option<&'static Self> {
        KINDS.iter().copied().find(|kind| kind.name == name)
    }
}

/// Compares names, because no two kinds have the same name.
impl PartialEq for StoreKind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for StoreKind {}

/// The beginning of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scheme {
    /// The text, such as `redis://`.
    pub prefix: &'static str,
    /// The feature of this crate that enables it.
    pub feature: &'static str,
    /// Whether this build has that feature.
    pub is_built_in: bool,
}

/// The functions that open a store by its address.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opener {
    pub(super) open: Open,
    #[cfg(feature = "blocking")]
    pub(super) open_blocking: fn(&str) -> Opened,
    pub(super) others: OtherWays,
}

/// Functions that open a store for less than everything, or for certain locks. `None` where [`Opener::open`] does the same.
#[derive(Debug, Clone, Copy)]
pub(super) struct OtherWays {
    /// Opens the store for locks with this TTL.
    pub(super) with_ttl: Option<fn(&str, Duration) -> OpenFuture<'_>>,
    #[cfg(feature = "blocking")]
    pub(super) with_ttl_blocking: Option<fn(&str, Duration) -> Opened>,
    /// Opens the store only to look at its locks. Creates nothing.
    pub(super) read_only: Option<Open>,
    /// Opens the store to look at its locks and to release them. Creates nothing.
    pub(super) to_release: Option<Open>,
}

impl OtherWays {
    #[allow(dead_code, reason = "a build without stores opens none")]
    const NONE: Self = Self {
        with_ttl: None,
        #[cfg(feature = "blocking")]
        with_ttl_blocking: None,
        read_only: None,
        to_release: None,
    };
}

type Opened = Result<Arc<dyn Backend>>;
pub(super) type Open = fn(&str) -> OpenFuture<'_>;
type OpenFuture<'a> = BoxFuture<'a, Opened>;

macro_rules! scheme {
    ($prefix:literal, $feature:literal) => {
        Scheme {
            prefix: $prefix,
            feature: $feature,
            is_built_in: cfg!(feature = $feature),
        }
    };
}

/// The opener of a store, or `None` if its feature is off: how it is opened from async and from blocking code, and [`OtherWays`].
macro_rules! opener {
    (
        $feature:literal, $open:expr, $open_blocking:expr
        $(, async $way:ident($($argument:ident),+): $function:expr)*
        $(, blocking $blocking_way:ident($($blocking_argument:ident),+): $blocking_function:expr)*
        $(,)?
    ) => {{
        #[cfg(feature = $feature)]
        let opener = Some(Opener {
            open: |address| Box::pin(async move { shared($open(address).await) }),
            #[cfg(feature = "blocking")]
            open_blocking: |address| shared($open_blocking(address)),
            others: OtherWays {
                $($way: Some(|$($argument),+| Box::pin(async move { shared($function($($argument),+).await) })),)*
                $(
                    #[cfg(feature = "blocking")]
                    $blocking_way: Some(|$($blocking_argument),+| shared($blocking_function($($blocking_argument),+))),
                )*
                ..OtherWays::NONE
            },
        });
        #[cfg(not(feature = $feature))]
        let opener = None;
        opener
    }};
}

#[allow(dead_code, reason = "a build without stores opens none")]
fn shared(opened: Result<impl Backend>) -> Opened {
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
    opener: opener!(
        "sqlite",
        super::sqlite::open_address,
        super::sqlite::open_address_blocking,
        async read_only(address): super::sqlite::open_address_read_only,
        async to_release(address): super::sqlite::open_address_to_release,
    ),
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
    opener: opener!(
        "redis",
        super::redis::Redis::open,
        super::redis::Redis::open_blocking
    ),
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
    opener: opener!(
        "redlock",
        super::redlock::Redlock::open,
        super::redlock::Redlock::open_blocking
    ),
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
    opener: opener!(
        "postgres",
        super::postgres_table::PostgresTable::open,
        super::postgres_table::PostgresTable::open_blocking,
        async read_only(address): super::postgres_table::open_existing,
        async to_release(address): super::postgres_table::open_existing,
    ),
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
    opener: opener!(
        "postgres",
        super::postgres::Postgres::open,
        super::postgres::Postgres::open_blocking,
        async read_only(address): super::postgres::open_to_release,
        async to_release(address): super::postgres::open_to_release,
    ),
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
    opener: opener!(
        "etcd",
        super::etcd::Etcd::open,
        super::etcd::Etcd::open_blocking
    ),
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
        super::zookeeper::Zookeeper::open_blocking,
        async with_ttl(address, ttl): super::zookeeper::open_with_ttl,
        blocking with_ttl_blocking(address, ttl): super::zookeeper::open_with_ttl_blocking,
    ),
};

const POSTGRES_SCHEMES: &[Scheme] = &[
    scheme!("postgres://", "postgres"),
    scheme!("postgresql://", "postgres"),
];
