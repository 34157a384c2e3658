//! `open`, `open_blocking` and `open_read_only`, which open a store by its address in one call.

use std::sync::Arc;

use super::address::StoreAddress;
use crate::backend::Backend;
use crate::error::Result;

/// Opens the store that an address names, with the default settings:
///
/// | address | store | feature |
/// |---|---|---|
/// | `sqlite:PATH` | the file, which is created if it does not exist | `sqlite` |
/// | `redis://…`, `unix:/PATH` | a Redis server | `redis` |
/// | `rediss://…` | a Redis server, over TLS | `redis-tls` |
/// | `postgres://…`, `postgresql://…` | advisory locks of Postgres | `postgres` |
/// | `postgres://…?table=NAME` | leases in a Postgres table with ShedLock's layout; `&create=true` creates it if it does not exist | `postgres` |
/// | `etcd://HOST,HOST,HOST[/PREFIX]` | an etcd cluster | `etcd` |
/// | `etcds://…` | an etcd cluster, over TLS | `etcd-tls` |
/// | `zk://HOST,HOST,HOST[/BASE]` | a ZooKeeper ensemble; locks with a TTL of up to 10 s, see [`StoreAddress::open_with_ttl`] | `zookeeper` |
/// | `redlock://HOST,HOST,HOST` | a majority of independent Redis servers | `redlock` |
///
/// # Errors
/// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the address does not name a store that this build contains, and
/// otherwise the errors of the store's own `open`.
///
/// # Cancel safety
/// If the future is dropped, the connections that it has opened are closed.
pub async fn open(address: &str) -> Result<Arc<dyn Backend>> {
    address.parse::<StoreAddress>()?.open().await
}

/// Opens the store that an address names like [`open`], but blocks the calling thread; for [`fencepost::blocking`](crate::blocking).
///
/// ```no_run
/// use fencepost::blocking::Locker;
/// use fencepost::stores;
///
/// let locker = Locker::new(stores::open_blocking("redis://localhost")?)?;
/// let guard = locker.acquire("nightly-report")?;
/// # Ok::<(), fencepost::Error>(())
/// ```
///
/// # Errors
/// Returns the same errors as [`open`], and [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async runtime, except for
/// SQLite.
#[cfg(feature = "blocking")]
pub fn open_blocking(address: &str) -> Result<Arc<dyn Backend>> {
    address.parse::<StoreAddress>()?.open_blocking()
}

/// Opens the store that an address names, only to look at its locks with [`inspect`](Backend::inspect) and [`list`](Backend::list). Creates
/// nothing, and the store refuses all other requests. See [`StoreAddress::open_read_only`].
///
/// # Errors
/// Returns the same errors as [`StoreAddress::open_read_only`], and [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the
/// address does not name a store that this build contains.
///
/// # Cancel safety
/// The same as for [`open`].
pub async fn open_read_only(address: &str) -> Result<Arc<dyn Backend>> {
    address.parse::<StoreAddress>()?.open_read_only().await
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
            assert!(error.store().is_some(), "{scheme}: {error}");
        }
    }

    #[cfg(feature = "sqlite")]
    #[tokio::test]
    async fn a_file_is_a_store() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        let store = open(&format!("sqlite:{}", path.display())).await.unwrap();
        assert_eq!(store.store_name(), "sqlite");
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
