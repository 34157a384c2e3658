//! Opening a store by its address.

use std::sync::Arc;

use super::address::StoreAddress;
use crate::backend::Backend;
use crate::error::Result;

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
/// Each needs the feature of its name.
///
/// # Errors
/// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) when the address names no store that this build has, and those of the store's own `open`.
///
/// # Cancel safety
/// Dropping the future closes what it has opened.
pub async fn open(address: &str) -> Result<Arc<dyn Backend>> {
    address.parse::<StoreAddress>()?.open().await
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
    address.parse::<StoreAddress>()?.open_to_look().await
}

#[cfg(all(test, any(feature = "sqlite", feature = "postgres")))]
mod tests {
    use super::*;
    #[cfg(feature = "postgres")]
    use crate::error::ErrorKind;

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
            assert_ne!(error.store(), "address", "{scheme}: {error}");
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
    #[tokio::test]
    async fn advisory_locks_have_no_table_to_make() {
        let error = open("postgres://u:hunter2@127.0.0.1:1/d?create=true").await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains("?table=shedlock&create=true"));
    }
}
