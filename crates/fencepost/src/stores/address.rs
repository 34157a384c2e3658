//! [`StoreAddress`]: parses the address of a store, finds its kind, and hides its passwords.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::kinds::{KINDS, Open, Opener, Scheme, StoreKind};
use super::restricted::{Allowed, Restricted};
use crate::backend::Backend;
use crate::error::{Error, Result};

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
        match opener.open_with_ttl {
            Some(open) => open(&self.text, ttl).await,
            None => (opener.open)(&self.text).await,
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
        let open = opener.open_read_only.unwrap_or(opener.open);
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
        let open = opener.open_to_release.unwrap_or(opener.open);
        self.open_restricted(open, Allowed::Release).await
    }

    async fn open_restricted(&self, open: Open, allowed: Allowed) -> Result<Arc<dyn Backend>> {
        let store = open(&self.text).await?;
        Ok(Arc::new(Restricted { store, allowed }))
    }

    fn opener(&self) -> Result<Opener> {
        let built_in = self.kind.opener.filter(|_| self.scheme.is_built_in);
        built_in.ok_or_else(|| {
            invalid(format!(
                "built without this kind of store: it needs the feature {}",
                self.scheme.feature
            ))
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
        let schemes = KINDS.iter().flat_map(|kind| kind.schemes);
        let mut prefixes: Vec<&str> = schemes.map(|scheme| scheme.prefix).collect();
        prefixes.dedup();
        Err(invalid(format!(
            "not the address of a store; it begins with one of {}",
            prefixes.join(" ")
        )))
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

fn invalid(message: String) -> Error {
    Error::invalid_settings("input", message)
}

/// Returns whether an address has this parameter after its question mark.
fn has_parameter(address: &str, name: &str) -> bool {
    let query = address.split_once('?').map_or("", |(_, query)| query);
    let mut names = query
        .split('&')
        .filter_map(|pair| Some(pair.split_once('=')?.0));
    names.any(|own| own == name)
}

/// Returns the text with `***` in place of every password, even if it is not a valid address.
#[cfg_attr(
    not(feature = "unstable-hooks"),
    allow(unreachable_pub, reason = "our own programs use it, too")
)]
pub fn without_password(address: &str) -> String {
    let (scheme, rest) = match address.find("://") {
        Some(at) => address.split_at(at + 3),
        None => ("", address),
    };
    let has_scheme = |kind: &&StoreKind| kind.schemes.iter().any(|all| all.prefix == scheme);
    let kind = KINDS.iter().copied().find(has_scheme);
    let has_user_alone = scheme.is_empty() || kind.is_some_and(|kind| kind.has_user_alone);
    // A part that is neither host nor port may belong to a password that contains a comma.
    let servers: Vec<&str> = match kind {
        Some(kind) if kind.has_user_per_server && rest.split(',').all(has_user_or_is_host) => {
            rest.split(',').collect()
        }
        _ => vec![rest],
    };
    let is_path = scheme.is_empty() && rest.contains('/');
    let shown = servers.into_iter().map(|server| {
        if is_path {
            without_password_parameter(server)
        } else {
            without_user_password(server, has_user_alone)
        }
    });
    format!("{scheme}{}", shown.collect::<Vec<_>>().join(","))
}

fn has_user_or_is_host(server: &str) -> bool {
    let host = server.split(['/', '?']).next().unwrap_or_default();
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    server.contains('@') || host.ends_with(']') || port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Hides the password of the user in front of a server, and the one in the parameters behind it.
fn without_user_password(server: &str, has_user_alone: bool) -> String {
    // A question mark may also be part of a password.
    let is_query = |query: &str| query.split('&').all(|parameter| parameter.contains('='));
    let (place, query) = match server.find('?') {
        Some(at) if has_user_or_is_host(&server[..at]) && is_query(&server[at + 1..]) => {
            server.split_at(at)
        }
        _ => (server, ""),
    };
    let Some((person, host)) = place.rsplit_once('@') else {
        return without_password_parameter(server);
    };
    let person = match person.split_once(':') {
        Some((user, _)) => format!("{user}:***"),
        // The sign is part of a parameter.
        None if person.contains('?') => return without_password_parameter(server),
        None if has_user_alone => person.to_owned(),
        // It may be a password.
        None => "***".into(),
    };
    let host = without_password_parameter(&format!("{host}{query}"));
    format!("{person}@{host}")
}

/// Hides the password in the parameters of an address, and whatever may be a part of it.
fn without_password_parameter(place: &str) -> String {
    let Some((path, parameters)) = place.split_once('?') else {
        return place.to_owned();
    };
    let shown = parameters
        .split('&')
        .map(|parameter| match parameter.split_once('=') {
            Some((name, _)) if name.starts_with("pass") => format!("{name}=***"),
            // The rest of a password with an unescaped `&`.
            None if parameter.contains('@') => "***".into(),
            _ => parameter.to_owned(),
        });
    format!("{path}?{}", shown.collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
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
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn every_kind_can_be_named_by_what_its_form_shows() {
        for kind in KINDS {
            assert_eq!(kind_of(kind.address_form), kind.name);
        }
    }

    #[test]
    fn a_password_is_never_shown() {
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
        for (address, shown) in [
            (
                "postgres://db/shop?password=hunter@2",
                "postgres://db/shop?password=***",
            ),
            ("redis://cache?pass=hunter@2", "redis://cache?pass=***"),
            (
                "postgres://shop@db:5432/shop?password=p@hunter2",
                "postgres://shop@db:5432/shop?password=***",
            ),
            (
                "postgres://shop:x@db/s?sslmode=require&password=p@hunter2",
                "postgres://shop:***@db/s?sslmode=require&password=***",
            ),
            (
                "postgres://db:5432/shop?password=p@hunter2",
                "postgres://db:5432/shop?password=***",
            ),
            (
                "postgres://db/shop?password=p&w@hunter2",
                "postgres://db/shop?password=***&***",
            ),
            ("redis://u:p?hunter@2@cache", "redis://u:***@cache"),
            ("redis://hunter2@cache", "redis://***@cache"),
            ("postgres://shop@db/shop", "postgres://shop@db/shop"),
        ] {
            assert_eq!(without_password(address), shown);
        }
        let comma = without_password("redlock://a,u:hunter,2@b,c");
        assert!(!comma.contains("hunter"), "{comma}");
        assert_eq!(without_password("shop:hunter2@cache"), "shop:***@cache");
        assert_eq!(
            without_password("--store=shop:hunter2@cache"),
            "--store=shop:***@cache"
        );
        for unchanged in ["unix:/run/a@b.sock", "--name=a@b", "a:b"] {
            assert_eq!(without_password(unchanged), unchanged);
        }
    }
}
