//! Which store an address names.

use std::sync::Arc;

use crate::backend::Backend;
use crate::error::{Error, ErrorKind, Operation, Result};

const STORE: &str = "address";

/// The kinds of stores that addresses name: how each begins, and the feature that brings it.
#[rustfmt::skip]
const SCHEMES: &[(&str, &str)] = &[
    ("sqlite:", "sqlite"),
    ("redis://", "redis"), ("rediss://", "redis-tls"), ("unix:", "redis"),
    ("postgres://", "postgres"), ("postgresql://", "postgres"),
    ("etcd://", "etcd"), ("etcds://", "etcd-tls"),
    ("zk://", "zookeeper"),
    ("redlock://", "redlock"),
];

/// Opens the store that an address names, with the default settings:
///
/// | address | store |
/// |---|---|
/// | `sqlite:PATH` | the file, which is made where there is none |
/// | `redis://…`, `rediss://…`, `unix:/PATH` | a Redis server |
/// | `postgres://…` | advisory locks of Postgres |
/// | `postgres://…?table=NAME` | leases in a table of Postgres, as ShedLock has them; `&create=true` makes it where it is missing |
/// | `etcd://HOST,HOST,HOST`, `etcds://…` | an etcd cluster |
/// | `zk://HOST,HOST,HOST/CHROOT` | a ZooKeeper ensemble |
/// | `redlock://HOST,HOST,HOST` | a majority of independent Redis servers |
///
/// Each but SQLite and Redis needs the feature of its name.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] when the address names no store that this build has, and those of the store's own `open`.
///
/// # Cancel safety
/// Dropping the future closes what it has opened.
pub async fn open(address: &str) -> Result<Arc<dyn Backend>> {
    let Some((_, feature)) = SCHEMES
        .iter()
        .find(|(scheme, _)| address.starts_with(scheme))
    else {
        let known: Vec<&str> = SCHEMES.iter().map(|(scheme, _)| *scheme).collect();
        return Err(invalid(format!(
            "not the address of a store; it begins with one of {}",
            known.join(" ")
        )));
    };
    match *feature {
        #[cfg(feature = "sqlite")]
        "sqlite" => {
            let path = address.trim_start_matches("sqlite:");
            Ok(Arc::new(super::sqlite::Sqlite::open(path).await?))
        }
        #[cfg(feature = "redis")]
        "redis" | "redis-tls" => Ok(Arc::new(super::redis::Redis::open(address).await?)),
        #[cfg(feature = "postgres")]
        "postgres" if has_parameter(address, "table") => Ok(Arc::new(
            super::postgres_table::PostgresTable::open(address).await?,
        )),
        #[cfg(feature = "postgres")]
        "postgres" if has_parameter(address, "create") => Err(invalid(
            "create is about the table, and the address names none: ?table=shedlock&create=true"
                .to_owned(),
        )),
        #[cfg(feature = "postgres")]
        "postgres" => Ok(Arc::new(super::postgres::Postgres::open(address).await?)),
        #[cfg(feature = "etcd")]
        "etcd" | "etcd-tls" => Ok(Arc::new(super::etcd::Etcd::open(address).await?)),
        #[cfg(feature = "zookeeper")]
        "zookeeper" => Ok(Arc::new(super::zookeeper::Zookeeper::open(address).await?)),
        #[cfg(feature = "redlock")]
        "redlock" => Ok(Arc::new(super::redlock::Redlock::open(address).await?)),
        missing => Err(invalid(format!(
            "built without this kind of store: it needs the feature {missing}"
        ))),
    }
}

/// Opens the store that an address names to look at its locks, with [`inspect`](Backend::inspect) and [`list`](Backend::list).
///
/// It differs from [`open`] where a store is changed by opening it, or refuses to grant locks beside programs of an older version:
/// `Sqlite::builder(…).open_to_look` and `Postgres::builder(…).open_to_look`.
///
/// # Errors
/// As [`open`].
///
/// # Cancel safety
/// As [`open`].
pub async fn open_to_look(address: &str) -> Result<Arc<dyn Backend>> {
    #[cfg(feature = "sqlite")]
    if let Some(path) = address.strip_prefix("sqlite:") {
        let builder = super::sqlite::Sqlite::builder(path);
        return Ok(Arc::new(builder.open_to_look().await?));
    }
    #[cfg(feature = "postgres")]
    if ["postgres://", "postgresql://"]
        .iter()
        .any(|scheme| address.starts_with(scheme))
        && !has_parameter(address, "table")
        && !has_parameter(address, "create")
    {
        let builder = super::postgres::Postgres::builder(address);
        return Ok(Arc::new(builder.open_to_look().await?));
    }
    open(address).await
}

#[cfg(feature = "postgres")]
fn has_parameter(address: &str, name: &str) -> bool {
    let query = address.split_once('?').map_or("", |(_, query)| query);
    let mut names = query
        .split('&')
        .filter_map(|pair| Some(pair.split_once('=')?.0));
    names.any(|own| own == name)
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidInput, STORE, Operation::Open, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_no_address_is_refused_without_quoting_it() {
        for wrong in ["", "redis", "mysql://shop:hunter2@db", "etcd:hunter2"] {
            let error = open(wrong).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    /// How every kind of address begins that a backend can read: each gets as far as its backend, which finds the rest missing.
    #[cfg(all(
        feature = "etcd",
        feature = "zookeeper",
        feature = "redlock",
        feature = "postgres"
    ))]
    #[tokio::test]
    async fn every_kind_of_address_is_known() {
        for scheme in [
            "redis://",
            "rediss://",
            "postgres://?x=y",
            "postgresql://?x=y",
            "etcd://",
            "etcds://",
            "zk://",
            "redlock://",
        ] {
            let error = open(scheme).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{scheme}: {error}");
            assert_ne!(error.store(), STORE, "{scheme}: {error}");
        }
    }

    #[cfg(feature = "sqlite")]
    #[tokio::test]
    async fn a_file_is_a_store() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        let store = open(&format!("sqlite:{}", path.display())).await.unwrap();
        assert_eq!(store.store(), "sqlite");
        assert!(path.exists());
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn a_table_is_asked_for_by_its_parameter() {
        let asks = |address| has_parameter(address, "table");
        assert!(asks("postgres://db/shop?sslmode=require&table=shedlock"));
        assert!(!asks("postgres://db/table=x?sslmode=require"));
        assert!(!asks("postgres://db/shop?application_name=table"));
    }

    #[cfg(feature = "postgres")]
    #[tokio::test]
    async fn advisory_locks_have_no_table_to_make() {
        let error = open("postgres://u:hunter2@127.0.0.1:1/d?create=true").await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains("?table=shedlock&create=true"));
    }
}
