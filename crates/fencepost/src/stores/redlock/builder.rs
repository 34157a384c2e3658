//! How a store is opened: by addresses or with the user's own clients, and with which settings.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::Client;

#[cfg(feature = "blocking")]
use super::STORE;
use super::address::{self, Address};
use super::node::Node;
use super::quorum::{Quorum, Settings};
use super::{Redlock, failure};
use crate::error::{Error, ErrorKind, Operation, Result};
#[cfg(feature = "blocking")]
use crate::stores::kit::blocking;
use crate::stores::redis::hub::Hub;
use crate::stores::redis::{Redis, RedisBuilder};

/// How long counters are kept where nobody says otherwise.
const KEEP_FENCES: Duration = Duration::from_secs(24 * 3600);
/// An hour for a clock that was wrong and was set right, and an hour for counters that are ahead of the time because a name changed hands
/// more than 128,000 times a second.
const LEAST_KEPT: Duration = Duration::from_secs(2 * 3600);

/// How a [`Redlock`] is opened; made by [`Redlock::builder`], [`Redlock::builder_of`] or [`Redlock::builder_from`].
#[derive(Clone)]
pub struct RedlockBuilder {
    pub(super) servers: Servers,
    connect_timeout: Duration,
    pub(super) settings: Settings,
}

/// Where the servers are, and who we are there.
#[derive(Clone)]
pub(super) enum Servers {
    /// What was given is not an address.
    Invalid,
    Addresses(Vec<String>),
    /// The user's own clients, which open the connections.
    Clients(Vec<Client>),
}

impl RedlockBuilder {
    pub(super) fn at(address: &str) -> Self {
        let Some(Address { servers, options }) = Address::read(address) else {
            return Self::new(Servers::Invalid);
        };
        let mut builder = Self::new(Servers::Addresses(servers));
        if let Some(delay) = options.restart_delay {
            builder.settings.restart_delay = delay;
        }
        if let Some(time) = options.keep_fences {
            builder.settings.keep_fences = time;
        }
        builder
    }

    pub(super) fn new(servers: Servers) -> Self {
        Self {
            servers,
            connect_timeout: Duration::from_secs(3),
            settings: Settings {
                node_timeout: Duration::from_millis(500),
                outage: Duration::from_secs(30),
                restart_delay: Duration::ZERO,
                keep_fences: KEEP_FENCES,
            },
        }
    }

    /// How long connecting may take. Default: 3 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long a single server may take to answer before it counts as silent; at most half the TTL of the lock in question.
    /// Default: 0.5 s.
    #[must_use]
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.settings.node_timeout = timeout;
        self
    }

    /// How long those who wait put up with a majority that cannot be reached, before they get an error. Default: 30 s.
    #[must_use]
    pub fn outage(mut self, longest: Duration) -> Self {
        self.settings.outage = longest;
        self
    }

    /// Does not count on a server that was started less than this ago: it may have come back without locks that are still believed in.
    /// Off by default.
    ///
    /// Where servers lose their data in a restart, give at least the longest TTL that anybody uses. Then no lock is held twice after
    /// a restart; and after a start of *all* servers there are no locks for that long, and up to 2 s more, as servers count their age in
    /// whole seconds. They count it by the time of day: one whose clock is set forward after its start is believed to be older than it is.
    /// Other programs' clients do not know of it.
    /// The user needs the right to call `INFO`.
    #[must_use]
    pub fn restart_delay(mut self, longest_ttl: Duration) -> Self {
        self.settings.restart_delay = longest_ttl;
        self
    }

    /// How long a server keeps the counter of a name after its last use: it costs memory for every name that was used in this time.
    /// Default: 24 hours. At least 2 hours.
    ///
    /// A counter that is gone starts at the server's time, which is later than all epochs from before, unless the clock was set back by
    /// more than this since the name was last used.
    #[must_use]
    pub fn keep_fences(mut self, time: Duration) -> Self {
        self.settings.keep_fences = time;
        self
    }

    /// Connects. A minority of the servers may be away.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the address is invalid, there are fewer than three servers or one of them twice, or fences are to be
    /// kept for less than 2 hours, [`ErrorKind::Unavailable`] if less than a majority answers, and [`ErrorKind::Unusable`] if *any* that answers cannot hold locks: wrong password, too old, not
    /// Redis, or (where the user may `INFO`) a replica, or two addresses that lead to the same server.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections.
    pub async fn open(self) -> Result<Redlock> {
        let nodes = self.prepare()?;
        let quorum = Quorum::new(nodes, self.settings);
        check(&quorum).await?;
        Ok(Redlock {
            quorum: Arc::new(quorum),
        })
    }

    /// [`open`](Self::open), blocking the calling thread; for [`fencepost::blocking`](crate::blocking). Whoever uses the store first
    /// connects anew in its own runtime.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`ErrorKind::WrongContext`] inside an async runtime.
    #[cfg(feature = "blocking")]
    pub fn open_blocking(self) -> Result<Redlock> {
        blocking::open(STORE, self.open())
    }

    /// What opens each server, in their order.
    fn each(&self) -> Result<Vec<RedisBuilder>> {
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

    fn prepare(&self) -> Result<Vec<Arc<Node>>> {
        let servers = self.each()?;
        if servers.len() < address::FEWEST {
            let count = servers.len();
            let message = format!(
                "{count} servers are too few: a majority of them does not outlive the loss of one; {}",
                address::EXPECTED
            );
            return Err(failure::invalid(message));
        }
        if self.settings.keep_fences < LEAST_KEPT {
            let message =
                "keep_fences must be at least 2h: a clock that is set back would let fences fall";
            return Err(failure::invalid(message));
        }
        let prepare = |server: RedisBuilder| -> Result<(String, Arc<Hub>)> {
            let prepared = server.connect_timeout(self.connect_timeout).prepare();
            prepared.map_err(|error| failure::ours(&error))
        };
        let prepared = servers.into_iter().map(prepare);
        let prepared = prepared.collect::<Result<Vec<_>>>()?;
        if let Some(twice) = address::repeated(prepared.iter().map(|(shown, _)| shown.as_str())) {
            return Err(failure::invalid(format!("{twice} would vote twice")));
        }
        let node = |(shown, hub): (String, Arc<Hub>)| {
            Arc::new(Node::new(shown, hub, self.settings.clone()))
        };
        Ok(prepared.into_iter().map(node).collect())
    }
}

pub(super) fn not_an_address() -> Error {
    failure::invalid(format!("not an address of Redlock; {}", address::EXPECTED))
}

/// Connects to all; a majority must be there, and everyone who is must be fit and somebody else.
async fn check(quorum: &Quorum) -> Result<()> {
    let mut failures = quorum.failures(Operation::Open);
    let mut here = 0;
    let mut identities: Vec<(String, &str)> = Vec::new();
    let links = join_all(quorum.nodes.iter().map(|node| node.identity())).await;
    for (node, identity) in quorum.nodes.iter().zip(links) {
        match identity {
            Ok(identity) => {
                here += 1;
                let Some(identity) = identity else { continue };
                let same = identities.iter().find(|(known, _)| *known == identity);
                if let Some((_, other)) = same {
                    return Err(failure::twice(&node.address, other));
                }
                identities.push((identity, &node.address));
            }
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                failures.add(&node.address, error);
            }
            Err(error) => return Err(failure::at(&node.address, &error)),
        }
    }
    match here >= quorum.majority() {
        true => Ok(()),
        false => Err(failures.into_error()),
    }
}

impl fmt::Debug for RedlockBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The addresses may carry passwords.
        f.debug_struct("RedlockBuilder")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
