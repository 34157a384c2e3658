//! The store of a trial, as `--store` and histories name it.

use std::path::Path;
use std::time::Duration;

use fencepost::random::{Random, SystemRandom};
use fencepost::stores::kinds::{POSTGRES, REDIS, REDLOCK, SQLITE};
use fencepost::stores::{KINDS, RedlockAddress, StoreAddress, StoreKind, without_password};

use super::kinds::{Data, StoreFacts, kind_in_lab};
use super::locks::LockServers;
use super::{Ground, advisory, redis};
use crate::text::shell_word;

/// The store of a trial: a temporary file, private servers that the lab starts, or servers that the user runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialStore {
    kind: &'static StoreKind,
    /// The name for `--store`: the kind for a file or for private servers, otherwise the address without a password.
    name: String,
    /// The address; the same as the name while private servers have not been started.
    address: String,
}

impl TrialStore {
    /// Returns the store with this name (`sqlite`, `zk`, `redlock?restart_delay=30s`, `postgres?locks=advisory`) or address. `None` if the
    /// lab has no such store.
    ///
    /// Histories name stores without passwords, so the name alone is not always enough to repeat a trial.
    pub fn named(text: &str) -> Option<Self> {
        let kind = if text.contains("://") {
            kind_of_address(text)?
        } else {
            kind_with_name(text)?
        };
        Some(Self {
            kind,
            name: without_password(text),
            address: text.to_owned(),
        })
    }

    /// Returns a temporary file.
    pub fn sqlite() -> Self {
        Self::private(&SQLITE)
    }

    /// Returns private servers of this kind. They are not started yet; [`at`](Self::at) sets their address.
    pub fn private(kind: &'static StoreKind) -> Self {
        let name = private_name(kind);
        Self {
            kind: kind_in_lab(kind),
            name: name.to_owned(),
            address: name.to_owned(),
        }
    }

    /// Returns the same store at this address.
    #[must_use]
    pub fn at(self, address: String) -> Self {
        Self { address, ..self }
    }

    /// Returns the kind of store. Both kinds of Postgres locks count as `postgres`, because the lab creates its own tables
    /// there.
    pub fn kind(&self) -> &'static StoreKind {
        self.kind
    }

    /// Returns what the lab knows about this kind of store.
    pub fn facts(&self) -> &'static StoreFacts {
        StoreFacts::of(self.kind)
    }

    /// Returns whether it is of this kind.
    pub fn is(&self, kind: &StoreKind) -> bool {
        self.kind == kind
    }

    /// Returns whether it belongs to the lab: a file, or servers that the lab starts.
    pub fn is_private(&self) -> bool {
        !self.name.contains("://")
    }

    /// Returns whether it also keeps the stock. Otherwise the stock is in a file beside the lock servers.
    pub fn keeps_stock(&self) -> bool {
        self.facts().keeps_stock()
    }

    /// Returns the address, which may contain a password.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the name for `--store`, which contains no password.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the parameters of private servers, such as `?restart_delay=30s`; empty if there are none.
    pub fn parameters(&self) -> &str {
        split_parameters(&self.name).1
    }

    /// Returns whether the library keeps its locks there as advisory locks of Postgres, and not in a table.
    pub(crate) fn has_advisory_locks(&self) -> bool {
        self.is(&POSTGRES) && advisory::is_chosen_by(self.parameters())
    }

    /// Returns how long a restarted server of Redlock does not vote, if the name or address says so.
    pub fn restart_delay(&self) -> Option<Duration> {
        let address = if self.is_private() {
            private_redlock(self.parameters())
        } else {
            RedlockAddress::parse(&self.name)
        };
        address.filter(|_| self.is(&REDLOCK))?.restart_delay
    }

    /// Returns the name, quoted for a shell if necessary.
    pub fn typed(&self) -> String {
        shell_word(&self.name)
    }

    /// Returns the name with a gloss, for titles.
    pub fn title(&self) -> String {
        if !self.is_private() {
            return self.name.clone();
        }
        format!("{} ({})", self.name, self.facts().private_gloss)
    }

    /// Returns a separate ground for one trial: a file in `folder`, or its own key space or schema on the server.
    pub fn ground(&self, folder: &Path) -> Ground {
        let address = &self.address;
        let space = SystemRandom.next_u64();
        match self.facts().data {
            Data::File => Ground::Sqlite(folder.join("run.db")),
            Data::Redis => Ground::Redis(format!("{address}#fencepost-lab-{space:016x}")),
            Data::Postgres => Ground::Postgres(format!("{address}#fencepost_lab_{space:016x}")),
            Data::LocksOnly => Ground::Locks(LockServers {
                address: format!("{address}#fencepost-lab-{space:016x}"),
                stock_file: folder.join("run.db"),
            }),
        }
    }

    /// Returns a ground for a process that may be killed before it can clear it. On a Redis server its keys expire unless they
    /// are [kept](Ground::keep).
    pub fn scratch(&self, folder: &Path) -> Ground {
        if self.is(&REDIS) {
            Ground::Redis(redis::scratch(&self.address, SystemRandom.next_u64()))
        } else {
            self.ground(folder)
        }
    }

    /// Returns the shortest TTL that can be judged here. The servers determine how soon the lock of a dead process is free.
    pub fn shortest_ttl_ms(&self) -> u64 {
        let shortest = self.facts().shortest_ttl;
        if self.is_private() {
            shortest.private_ms
        } else {
            shortest.yours_ms
        }
    }

    /// Returns why a shorter TTL cannot be judged here.
    pub fn why_no_shorter_ttl(&self) -> &'static str {
        self.facts().shortest_ttl.reason
    }
}

impl Default for TrialStore {
    fn default() -> Self {
        Self::sqlite()
    }
}

/// Returns the kinds that keep only locks.
pub fn lock_only_kinds() -> impl Iterator<Item = &'static StoreKind> {
    let kinds = KINDS.iter().copied();
    kinds.filter(|kind| !StoreFacts::of(kind).keeps_stock())
}

/// Returns the `--store` names of a file and of private servers, one for each kind that the lab knows.
pub fn private_names() -> Vec<&'static str> {
    let mut names: Vec<&str> = KINDS.iter().map(|kind| private_name(kind)).collect();
    // Both kinds of Postgres locks have the same servers.
    names.dedup();
    names
}

/// Returns the `--store` name of a file, or of private servers of this kind.
pub fn private_name(kind: &StoreKind) -> &'static str {
    let scheme = kind.schemes.first().map_or("", |scheme| scheme.prefix);
    scheme.split(':').next().unwrap_or_default()
}

fn kind_of_address(text: &str) -> Option<&'static StoreKind> {
    let address: StoreAddress = text.parse().ok()?;
    let kind = kind_in_lab(address.kind());
    let is_reached = match StoreFacts::of(kind).data {
        Data::File => false,
        // The lab's own connections to Redis support no other scheme.
        Data::Redis => text.starts_with("redis://"),
        Data::Postgres | Data::LocksOnly => true,
    };
    is_reached.then_some(kind)
}

fn kind_with_name(text: &str) -> Option<&'static StoreKind> {
    let (name, parameters) = split_parameters(text);
    let mut kinds = KINDS.iter().map(|kind| kind_in_lab(kind));
    let kind = kinds.find(|kind| private_name(kind) == name)?;
    let is_understood = parameters.is_empty()
        || *kind == REDLOCK && private_redlock(parameters).is_some()
        || *kind == POSTGRES && advisory::is_chosen_by(parameters);
    is_understood.then_some(kind)
}

/// Returns the private servers of every kind, and a server of the user with every scheme that the lab knows.
#[cfg(test)]
pub(crate) fn one_of_each() -> Vec<TrialStore> {
    let private = KINDS.iter().map(|kind| TrialStore::private(kind));
    let schemes = KINDS.iter().flat_map(|kind| kind.schemes);
    let yours =
        schemes.filter_map(|scheme| TrialStore::named(&format!("{}10.0.0.1", scheme.prefix)));
    private.chain(yours).collect()
}

/// Splits before the question mark.
fn split_parameters(name: &str) -> (&str, &str) {
    name.split_at(name.find('?').unwrap_or(name.len()))
}

/// Lets the library read the parameters of private servers, which have no address yet. `None` if they are invalid.
fn private_redlock(parameters: &str) -> Option<RedlockAddress> {
    RedlockAddress::parse(&format!("redlock://private{parameters}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost::stores::kinds::{ETCD, ZOOKEEPER};

    #[test]
    fn a_name_that_nobody_knows_is_no_store() {
        for name in [
            "mysql",
            "mysql://shop",
            "",
            "redis2",
            "Redis",
            "etcd?x=1",
            "redlock?restart_delay=soon",
            "redlock?restart_delay=3",
            "redlock?restart_delay=3s&restart_delay=3s",
            "redlock?delay=3s",
            "postgres?locks=rows",
            "redis?locks=advisory",
            "sqlite:/tmp/x",
            "rediss://cache",
        ] {
            assert_eq!(TrialStore::named(name), None, "{name}");
        }
    }

    #[test]
    fn the_names_in_histories_are_stores() {
        for (name, kind) in [
            ("sqlite", &SQLITE),
            ("redis", &REDIS),
            ("redis://cache:6379", &REDIS),
            ("postgres", &POSTGRES),
            ("postgres?locks=advisory", &POSTGRES),
            ("postgres://shop", &POSTGRES),
            ("postgresql://shop", &POSTGRES),
            ("postgres://shop?table=shedlock", &POSTGRES),
            ("etcd", &ETCD),
            ("etcds://a,b", &ETCD),
            ("zk", &ZOOKEEPER),
            ("zk://a/base", &ZOOKEEPER),
            ("redlock?restart_delay=3s", &REDLOCK),
        ] {
            let store = TrialStore::named(name).unwrap();
            assert_eq!(store.name(), name);
            assert_eq!(store.kind(), kind, "{name}");
        }
    }

    #[test]
    fn parameters_of_redlock_are_those_of_the_library() {
        for (parameters, delay_ms) in [
            ("?restart_delay=1m", Some(60_000)),
            ("?restart_delay=500ms&keep_fences=24h", Some(500)),
            ("?keep_fences=24h&restart_delay=3s", Some(3_000)),
            ("?keep_fences=7d", None),
            ("", None),
        ] {
            for servers in ["redlock", "redlock://u:p@a:1,b,c/2"] {
                let name = format!("{servers}{parameters}");
                let store = TrialStore::named(&name).expect(&name);
                let delay = store.restart_delay();
                assert_eq!(delay, delay_ms.map(Duration::from_millis), "{name}");
            }
        }
    }

    #[test]
    fn a_password_is_in_the_address_and_nowhere_else() {
        let store = TrialStore::named("redis://u:hunter2@cache").unwrap();
        assert_eq!(store.name(), "redis://u:***@cache");
        assert_eq!(store.address(), "redis://u:hunter2@cache");
    }

    #[test]
    fn every_private_name_is_a_store_and_listed_once() {
        let names = private_names();
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        for name in names {
            assert!(TrialStore::named(name).unwrap().is_private(), "{name}");
        }
    }

    #[test]
    fn the_lock_servers_are_those_that_keep_nothing_else() {
        let names: Vec<&str> = lock_only_kinds().map(|kind| kind.name).collect();
        assert_eq!(names, ["redlock", "etcd", "zookeeper"]);
    }
}
