//! [`RedlockBuilder`]: holds the settings, and opens the store by addresses or with the user's own clients.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::Client;

#[cfg(feature = "blocking")]
use super::STORE;
use super::hub::Hub;
use super::server::Server;
use super::settings::Settings;
use super::{Redlock, failure};
use crate::error::{Error, ErrorKind, Operation, Result};
#[cfg(feature = "blocking")]
use crate::stores::kit::blocking;
use crate::stores::redis::for_redlock::{Hub as RedisHub, KEEP_FENCES, MIN_KEEP_FENCES};
use crate::stores::redis::{Redis, RedisBuilder};
use crate::stores::redlock_address::RedlockAddress;

/// The expected form, for errors about invalid addresses.
const EXPECTED: &str = "expected redlock://[USER:PASSWORD@]HOST[:PORT],… with at least three servers and, \
     for all of them, [/DATABASE]; [?restart_delay=30s&keep_fences=24h] may follow; a comma in a password is written %2C";

/// The smallest number of servers: a majority of fewer does not survive the loss of one.
const FEWEST: usize = 3;

/// The settings for opening a [`Redlock`]; [`Redlock::builder`], [`Redlock::builder_with_addresses`] and [`Redlock::builder_from`] create
/// it.
#[derive(Clone)]
#[must_use]
pub struct RedlockBuilder {
    pub(super) servers: Servers,
    connect_timeout: Duration,
    pub(super) settings: Settings,
}

/// Where the servers are, and how to log in.
#[derive(Clone)]
pub(super) enum Servers {
    /// The address is invalid.
    Invalid,
    Addresses(Vec<String>),
    /// The user's own clients, which open the connections.
    Clients(Vec<Client>),
}

impl RedlockBuilder {
    pub(super) fn at(address: &str) -> Self {
        let Some(address) = RedlockAddress::parse(address) else {
            return Self::new(Servers::Invalid);
        };
        let mut builder = Self::new(Servers::Addresses(address.servers));
        if let Some(delay) = address.restart_delay {
            builder.settings.restart_delay = delay;
        }
        if let Some(time) = address.keep_fences {
            builder.settings.keep_fences = time;
        }
        builder
    }

    pub(super) fn new(servers: Servers) -> Self {
        Self {
            servers,
            connect_timeout: Duration::from_secs(3),
            settings: Settings {
                server_timeout: Duration::from_millis(500),
                max_outage: Duration::from_secs(30),
                restart_delay: Duration::ZERO,
                keep_fences: KEEP_FENCES,
            },
        }
    }

    /// Sets how long connecting may take. The default is 3 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long a single server may take to answer before it counts as silent; at most half the TTL of the lock in question. The
    /// default is 0.5 s.
    pub fn server_timeout(mut self, timeout: Duration) -> Self {
        self.settings.server_timeout = timeout;
        self
    }

    /// Sets how long waiters tolerate a majority that cannot be reached before they get an error. The default is 30 s.
    pub fn max_outage(mut self, longest: Duration) -> Self {
        self.settings.max_outage = longest;
        self
    }

    /// Ignores a server that was started less than this ago, because it may have come back without locks that are still believed in. Off by
    /// default.
    ///
    /// If servers lose their data in a restart, set this to at least the longest TTL that any client uses. Then no lock is held twice after
    /// a restart. After a start of *all* servers, no lock can be acquired for that long plus up to 2 s, because servers count their age in
    /// whole seconds. They count it by the time of day: a server whose clock is set forward after its start seems older than it is. Clients
    /// of other libraries do not know this setting. The user needs permission to call `INFO`.
    ///
    /// Takes precedence over `restart_delay` in the address (`?restart_delay=30s`).
    pub fn restart_delay(mut self, longest_ttl: Duration) -> Self {
        self.settings.restart_delay = longest_ttl;
        self
    }

    /// Sets how long a server keeps the counter of a name after its last use, at least 2 hours. The default is 24 hours. Every name that
    /// was used in this time takes memory.
    ///
    /// A counter that is gone starts at the server's time. That is past all earlier epochs unless the clock was set back by more than this
    /// since the name was last used.
    ///
    /// Takes precedence over `keep_fences` in the address (`?keep_fences=24h`).
    pub fn keep_fences(mut self, time: Duration) -> Self {
        self.settings.keep_fences = time;
        self
    }

    /// Connects. A minority of the servers may be unreachable.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if an address is invalid or one of several sets `keep_fences`, there are fewer than three servers,
    /// a server occurs twice (by two different addresses, too, if the user may call `INFO`), or fences would be kept for less than 2 hours.
    /// Returns [`ErrorKind::Unavailable`] if less than a majority answers. Returns [`ErrorKind::Unusable`] if *any* server that answers
    /// cannot hold locks: wrong password, too old, not Redis or, if the user may call `INFO`, a replica.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connections are closed.
    pub async fn open(self) -> Result<Redlock> {
        let servers = self.prepare()?;
        let hub = Hub::new(servers, self.settings);
        check(&hub).await?;
        Ok(Redlock { hub: Arc::new(hub) })
    }

    /// Connects like [`open`](Self::open), but blocks the calling thread; for [`fencepost::blocking`](crate::blocking). The first use of
    /// the store connects again, in its own runtime.
    ///
    /// # Errors
    /// Returns the same errors as [`open`](Self::open), and [`ErrorKind::WrongContext`] inside an async runtime.
    #[cfg(feature = "blocking")]
    pub fn open_blocking(self) -> Result<Redlock> {
        blocking::open(STORE, self.open())
    }

    /// Returns the builder of each server, in order.
    fn server_builders(&self) -> Result<Vec<RedisBuilder>> {
        match &self.servers {
            Servers::Invalid => Err(not_an_address()),
            Servers::Addresses(servers) => {
                Ok(servers.iter().map(|one| Redis::builder(one)).collect())
            }
            Servers::Clients(clients) => {
                Ok(clients.iter().cloned().map(Redis::builder_from).collect())
            }
        }
    }

    fn prepare(&self) -> Result<Vec<Arc<Server>>> {
        let servers = self.server_builders()?;
        if servers.len() < FEWEST {
            let count = servers.len();
            let message = format!(
                "{count} servers are too few: a majority of them does not outlive the loss of one; {}",
                EXPECTED
            );
            return Err(failure::invalid(message));
        }
        if self.settings.keep_fences < MIN_KEEP_FENCES {
            let message =
                "keep_fences must be at least 2h: a clock that is set back would let fences fall";
            return Err(failure::invalid(message));
        }
        if servers.iter().any(RedisBuilder::has_keep_fences_in_address) {
            let message = "keep_fences is set for all servers: use RedlockBuilder::keep_fences";
            return Err(failure::invalid(message));
        }
        let prepare = |server: RedisBuilder| -> Result<(String, Arc<RedisHub>)> {
            let prepared = server.connect_timeout(self.connect_timeout).prepare();
            prepared.map_err(|error| failure::ours(&error))
        };
        let prepared = servers.into_iter().map(prepare);
        let prepared = prepared.collect::<Result<Vec<_>>>()?;
        if let Some(twice) = repeated(prepared.iter().map(|(shown, _)| shown.as_str())) {
            return Err(failure::invalid(format!("{twice} would vote twice")));
        }
        let server = |(shown, hub): (String, Arc<RedisHub>)| {
            Arc::new(Server::new(shown, hub, self.settings.clone()))
        };
        Ok(prepared.into_iter().map(server).collect())
    }
}

pub(super) fn not_an_address() -> Error {
    failure::invalid(format!("not an address of Redlock; {}", EXPECTED))
}

/// Connects to all servers. A majority must answer, and every server that answers must be usable and distinct.
async fn check(hub: &Hub) -> Result<()> {
    let mut failures = hub.failures(Operation::Open);
    let mut here = 0;
    let mut identities: Vec<(String, &str)> = Vec::new();
    let sessions = join_all(hub.servers.iter().map(|server| server.identity())).await;
    for (server, identity) in hub.servers.iter().zip(sessions) {
        match identity {
            Ok(identity) => {
                here += 1;
                let Some(identity) = identity else { continue };
                let same = identities.iter().find(|(known, _)| *known == identity);
                if let Some((_, other)) = same {
                    return Err(failure::twice(&server.address, other));
                }
                identities.push((identity, &server.address));
            }
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                failures.add(&server.address, error);
            }
            Err(error) => return Err(failure::at(&server.address, &error)),
        }
    }
    if here >= hub.majority() {
        Ok(())
    } else {
        Err(failures.into_error())
    }
}

/// Returns the first address that occurs twice: its server would vote twice.
fn repeated<'a>(shown: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = BTreeSet::new();
    shown.into_iter().find(|address| !seen.insert(*address))
}

impl fmt::Debug for RedlockBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The addresses may contain passwords.
        f.debug_struct("RedlockBuilder")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_would_vote_twice_is_found() {
        assert_eq!(repeated(["a", "b", "a"]), Some("a"));
        assert_eq!(repeated(["a", "b"]), None);
    }

    #[test]
    fn keep_fences_of_one_server_is_refused() {
        let open = |last| {
            let servers = ["redis://a", "redis://b", last];
            Redlock::builder_with_addresses(servers).prepare().err()
        };
        assert!(open("unix:/run/c").is_none());
        for last in ["redis://c?keep_fences=7d", "unix:/run/c?keep_fences=7d"] {
            let error = open(last).expect(last);
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let words = "RedlockBuilder::keep_fences";
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
