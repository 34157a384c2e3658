//! [`StoreAddress`]: parses the address of a store, finds its kind, and hides its passwords.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::kinds::{KINDS, Open, Opener, Scheme, StoreKind};
use super::passwords::without_password;
use super::restricted::{Allowed, Restricted};
use crate::backend::Backend;
use crate::error::{Error, Operation, Result};

/// The address of a store, such as `redis://cache:6379`, `postgres://shop@db/shop?table=shedlock` or `sqlite:/var/lib/shop/locks.db`.
///
/// [`Display`](fmt::Display) and [`Debug`] hide its passwords; [`as_str`](Self::as_str) returns them.
///
/// ```
/// use fencepost::stores::StoreAddress;
///
/// let address: StoreAddress = "redis://shop:hunter2@cache".parse()?;
/// assert_eq!(address.kind().name, "redis");
/// assert_eq!(address.to_string(), "redis://shop:***@cache");
/// # Ok::<(), fencepost::Error>(())
/// ```
#[derive(Clone)]
pub struct StoreAddress {
    kind: &'static StoreKind,
    scheme: Scheme,
    text: String,
}

impl StoreAddress {
    /// Returns the kind of store that the address names.
    pub fn kind(&self) -> &'static StoreKind {
        self.kind
    }

    /// Returns how the address begins, and whether this build supports such addresses.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the whole address. It may contain passwords.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the address without its scheme; for SQLite, that is the path. It may contain passwords.
    #[cfg(feature = "unstable-hooks")]
    pub fn without_scheme(&self) -> &str {
        &self.text[self.scheme.prefix.len()..]
    }

    /// Opens the store with the default settings.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if this build does not contain the store, and otherwise the
    /// errors of the store's own `open`.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connections that it has opened are closed.
    pub async fn open(&self) -> Result<Arc<dyn Backend>> {
        (self.opener()?.open)(&self.text).await
    }

    /// Opens the store for locks with this TTL, with the default settings otherwise.
    ///
    /// This differs from [`open`](Self::open) for ZooKeeper, where locks end with the session: the session timeout is the TTL. It is the
    /// longest TTL that the store then grants, and the time for which a killed process blocks others.
    ///
    /// # Errors
    /// Returns the same errors as [`open`](Self::open). For ZooKeeper, it also returns
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if a session cannot last that long.
    ///
    /// # Cancel safety
    /// The same as for [`open`](Self::open).
    pub async fn open_with_ttl(&self, ttl: Duration) -> Result<Arc<dyn Backend>> {
        let opener = self.opener()?;
        match opener.others.with_ttl {
            Some(open) => open(&self.text, ttl).await,
            None => (opener.open)(&self.text).await,
        }
    }

    /// Opens the store like [`open`](Self::open), but blocks the calling thread; for [`fencepost::blocking`](crate::blocking). Every store
    /// but SQLite connects again at its first use, in the runtime of the locker.
    ///
    /// # Errors
    /// Returns the same errors as [`open`](Self::open), and [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async
    /// runtime, except for SQLite.
    #[cfg(feature = "blocking")]
    pub fn open_blocking(&self) -> Result<Arc<dyn Backend>> {
        (self.opener()?.open_blocking)(&self.text)
    }

    /// Opens the store like [`open_with_ttl`](Self::open_with_ttl), but blocks the calling thread, as [`open_blocking`](Self::open_blocking)
    /// does.
    ///
    /// # Errors
    /// Returns the same errors as [`open_with_ttl`](Self::open_with_ttl) and [`open_blocking`](Self::open_blocking).
    #[cfg(feature = "blocking")]
    pub fn open_with_ttl_blocking(&self, ttl: Duration) -> Result<Arc<dyn Backend>> {
        let opener = self.opener()?;
        match opener.others.with_ttl_blocking {
            Some(open) => open(&self.text, ttl),
            None => (opener.open_blocking)(&self.text),
        }
    }

    /// Opens the store only to look at its locks, with [`inspect`](Backend::inspect) and [`list`](Backend::list). The store refuses all
    /// other requests with [`ErrorKind::Unusable`](crate::ErrorKind::Unusable).
    ///
    /// Creates nothing: no file for SQLite, no sequences and no tables for Postgres. An SQLite file of an earlier version stays as it is.
    /// Works where [`open`](Self::open) refuses to grant locks next to programs of an older version.
    ///
    /// # Errors
    /// Returns the same errors as [`open`](Self::open), and also [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if there is no
    /// SQLite file, and [`ErrorKind::Unusable`](crate::ErrorKind::Unusable) if there is no Postgres table, even if the address says that
    /// it is to be created.
    ///
    /// # Cancel safety
    /// The same as for [`open`](Self::open).
    pub async fn open_read_only(&self) -> Result<Arc<dyn Backend>> {
        let opener = self.opener()?;
        let open = opener.others.read_only.unwrap_or(opener.open);
        self.open_restricted(open, Allowed::Nothing).await
    }

    /// Opens the store to look at its locks and to [release](Backend::release) them by force, whoever holds them. The store refuses to
    /// acquire and to renew locks with [`ErrorKind::Unusable`](crate::ErrorKind::Unusable).
    ///
    /// Creates nothing, and works where [`open`](Self::open) refuses to grant locks, as [`open_read_only`](Self::open_read_only) does. Only
    /// an SQLite file that exists is prepared as for locking: its tables are created or upgraded, because a release is written into them.
    ///
    /// # Errors
    /// Returns the same errors as [`open_read_only`](Self::open_read_only).
    ///
    /// # Cancel safety
    /// The same as for [`open`](Self::open).
    pub async fn open_to_release(&self) -> Result<Arc<dyn Backend>> {
        let opener = self.opener()?;
        let open = opener.others.to_release.unwrap_or(opener.open);
        self.open_restricted(open, Allowed::Release).await
    }

    async fn open_restricted(&self, open: Open, allowed: Allowed) -> Result<Arc<dyn Backend>> {
        let store = open(&self.text).await?;
        Ok(Arc::new(Restricted { store, allowed }))
    }

    fn opener(&self) -> Result<Opener> {
        let built_in = self.kind.opener.filter(|_| self.scheme.is_built_in);
        built_in.ok_or_else(|| {
            let message = not_built_in(self.kind, &self.scheme, self.kind.is_built_in());
            Error::invalid_settings(self.kind.name, message)
        })
    }
}

/// Compares the text only, because the text determines the kind.
impl PartialEq for StoreAddress {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for StoreAddress {}

impl FromStr for StoreAddress {
    type Err = Error;

    /// Finds the kind of store. Does not check the rest of the address; the store does that when it is opened.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if no store has such addresses. The error does not quote the
    /// address.
    fn from_str(text: &str) -> Result<Self> {
        for kind in KINDS {
            let scheme = kind.schemes.iter().find(|all| text.starts_with(all.prefix));
            let is_meant = kind.parameter.is_none_or(|name| has_parameter(text, name));
            if let (Some(scheme), true) = (scheme, is_meant) {
                return Ok(Self {
                    kind,
                    scheme: *scheme,
                    text: text.to_owned(),
                });
            }
        }
        Err(Error::of_no_store(
            Operation::Open,
            format!("not a store address; an address begins with {}", prefixes()),
        ))
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_password(&self.text))
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreAddress({self})")
    }
}

/// Returns the prefixes of all addresses, as part of a sentence.
fn prefixes() -> String {
    let mut prefixes: Vec<&str> = Vec::new();
    for scheme in KINDS.iter().flat_map(|kind| kind.schemes) {
        // Two kinds of store have the schemes of Postgres.
        if !prefixes.contains(&scheme.prefix) {
            prefixes.push(scheme.prefix);
        }
    }
    let last = prefixes.pop().unwrap_or_default();
    format!("{} or {last}", prefixes.join(", "))
}

/// Returns what to do about an address that this build cannot open. If it has the kind of store, only this scheme is missing.
fn not_built_in(kind: &StoreKind, scheme: &Scheme, has_kind: bool) -> String {
    let (prefix, feature) = (scheme.prefix, scheme.feature);
    let what = if has_kind {
        format!("does not support {prefix}")
    } else {
        format!("has no {} store", kind.title)
    };
    format!("this build {what}; enable the feature `{feature}` of fencepost")
}

/// Returns whether an address has this parameter after its question mark.
fn has_parameter(address: &str, name: &str) -> bool {
    let query = address.split_once('?').map_or("", |(_, query)| query);
    let mut names = query
        .split('&')
        .filter_map(|pair| Some(pair.split_once('=')?.0));
    names.any(|own| own == name)
}

#[cfg(test)]
mod tests {
    use super::super::kinds::REDIS;
    use super::*;
    use crate::error::ErrorKind;

    fn kind_of(text: &str) -> &'static str {
        text.parse::<StoreAddress>().expect(text).kind().name
    }

    #[test]
    fn an_address_names_a_kind_of_store_whether_it_is_built_in_or_not() {
        for (address, name) in [
            ("sqlite:/srv/locks.db", "sqlite"),
            ("redis://cache", "redis"),
            ("rediss://u:p@cache:6380/2", "redis"),
            ("unix:/run/redis.sock", "redis"),
            ("redlock://a,b,c", "redlock"),
            ("postgres://db/shop", "postgres"),
            ("postgresql://db/table=x?sslmode=require", "postgres"),
            ("postgres://db/shop?application_name=table", "postgres"),
            (
                "postgres://db/shop?sslmode=require&table=shedlock",
                "postgres_table",
            ),
            ("etcd://a,b,c/locks", "etcd"),
            ("etcds://a", "etcd"),
            ("zk://a:2181", "zookeeper"),
        ] {
            assert_eq!(kind_of(address), name, "{address}");
        }
    }

    #[test]
    fn what_is_not_an_address_is_refused_without_quoting_it() {
        for wrong in ["", "redis", "mysql://shop:hunter2@db", "etcd:hunter2"] {
            let error = wrong.parse::<StoreAddress>().expect_err(wrong);
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert_eq!(error.store(), None);
            assert!(!error.to_string().contains("hunter2"), "{error}");
            assert_eq!(
                error.message(),
                "not a store address; an address begins with sqlite:, redis://, rediss://, unix:, redlock://, postgres://, \
                 postgresql://, etcd://, etcds:// or zk://"
            );
        }
    }

    #[test]
    fn a_store_that_is_not_built_in_is_named_with_its_feature() {
        let [plain, tls, _] = *REDIS.schemes else {
            panic!("three schemes")
        };
        let missing = "this build has no Redis store; enable the feature `redis` of fencepost";
        assert_eq!(not_built_in(&REDIS, &plain, false), missing);
        let missing =
            "this build does not support rediss://; enable the feature `redis-tls` of fencepost";
        assert_eq!(not_built_in(&REDIS, &tls, true), missing);
    }

    #[test]
    fn every_kind_can_be_named_by_what_its_form_shows() {
        for kind in KINDS {
            assert_eq!(kind_of(kind.address_form), kind.name);
        }
    }

    #[test]
    fn an_address_hides_its_passwords() {
        for (address, shown) in [
            (
                "redis://shop:hunter2@cache:6379",
                "redis://shop:***@cache:6379",
            ),
            ("redis://:p@ss@cache", "redis://:***@cache"),
            ("redis://cache", "redis://cache"),
            ("etcds://ci:p@a,b", "etcds://ci:***@a,b"),
            (
                "redlock://u:hunter2@a:1,b:2,[::1]:3,:hunter3@[::2]/5?restart_delay=3s",
                "redlock://u:***@a:1,b:2,[::1]:3,:***@[::2]/5?restart_delay=3s",
            ),
            (
                "unix:/run/redis.sock?db=1&pass=hunter2&user=shop",
                "unix:/run/redis.sock?db=1&pass=***&user=shop",
            ),
        ] {
            let address: StoreAddress = address.parse().expect(address);
            assert_eq!(address.to_string(), shown);
            assert_eq!(format!("{address:?}"), format!("StoreAddress({shown})"));
        }
    }
}
