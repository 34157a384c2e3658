//! How a store is opened: by an address or with the user's own connector, and with which settings.

use std::fmt;
use std::time::Duration;

use zookeeper_client::{Client, Connector};

use super::address::Address;
use super::hub::{Hub, Settings};
use super::{STORE, Zookeeper, view};
use crate::error::{Error, ErrorKind, Operation, Result};
#[cfg(feature = "blocking")]
use crate::stores::kit::blocking;
use crate::ttl::DEFAULT_TTL;

/// How a [`Zookeeper`] is opened; made by [`Zookeeper::builder`] or [`Zookeeper::builder_from`].
#[derive(Clone)]
pub struct ZookeeperBuilder {
    servers: Servers,
    settings: Settings,
    /// `None`: as the address has it.
    creator_only: Option<bool>,
}

/// Where the servers are, and who we are there.
#[derive(Clone)]
pub(super) enum Servers {
    Address(String),
    /// What the user connects with.
    Connector {
        servers: String,
        connector: Box<Connector>,
    },
}

impl ZookeeperBuilder {
    pub(super) fn new(servers: Servers) -> Self {
        Self {
            servers,
            settings: Settings {
                session_timeout: DEFAULT_TTL,
                connect_timeout: Duration::from_secs(3),
                outage: Duration::from_secs(30),
            },
            creator_only: None,
        }
    }

    /// Whether only those who authenticate as this store does may touch the nodes that it makes. Default: yes if the address has a user, otherwise
    /// no. Without authentication, the server refuses to make such nodes.
    #[must_use]
    pub fn creator_only(mut self, creator_only: bool) -> Self {
        self.creator_only = Some(creator_only);
        self
    }

    /// After how much silence the server ends the session, and gives its locks to others: the longest TTL, and what a killed
    /// process costs. Default: 10 s, as long as the default TTL.
    ///
    /// The server has the last word: 4 to 40 s unless it is configured otherwise (2 to 20 of its ticks).
    #[must_use]
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.settings.session_timeout = timeout;
        self
    }

    /// How long connecting may take. Default: 3 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// How long those who wait in line put up with a server that cannot be reached, before they get an error, counted from the end of
    /// the session. Default: 30 s.
    #[must_use]
    pub fn outage(mut self, longest: Duration) -> Self {
        self.settings.outage = longest;
        self
    }

    /// Connects.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the address is invalid, [`ErrorKind::Unavailable`] if no ZooKeeper answers there, and
    /// [`ErrorKind::Unusable`] if it does not let this user in.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn open(self) -> Result<Zookeeper> {
        let hub = self.hub()?;
        let store = Zookeeper {
            address: hub.address.shown(),
            hub,
        };
        view::probe(&store.hub).await?;
        Ok(store)
    }

    pub(super) fn hub(self) -> Result<Hub> {
        if !(MIN_SESSION..=MAX_SESSION).contains(&self.settings.session_timeout) {
            return Err(invalid("a session timeout is 100 ms to 24 h"));
        }
        let address = self.address()?;
        let creator_only = self.creator_only.unwrap_or(address.credentials.is_some());
        let connector = match self.servers {
            Servers::Connector { connector, .. } => *connector,
            Servers::Address(_) => connector_of(&address),
        };
        if !is_ours_alone(&connector) {
            return Err(invalid(
                "a connector with a session of its own, or one that leaves its session behind, cannot hold locks: make it without with_session and with_detached",
            ));
        }
        // A server that is cut off from the others grants nothing, and must not look as if it did.
        let connector = connector
            .with_session_timeout(self.settings.session_timeout)
            .with_readonly(false)
            .with_fail_eagerly();
        Ok(Hub::new(address, connector, creator_only, self.settings))
    }

    pub(super) fn address(&self) -> Result<Address> {
        match &self.servers {
            Servers::Address(address) => Address::read(address).ok_or_else(|| {
                invalid(
                    "not an address of ZooKeeper; expected zk://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/BASE]",
                )
            }),
            Servers::Connector { servers, .. } => Address::of_servers(servers).ok_or_else(|| {
                invalid("not servers of ZooKeeper; expected HOST[:PORT][,HOST[:PORT]…][/BASE]")
            }),
        }
    }

    /// [`open`](Self::open), blocking the calling thread; for [`fencepost::blocking`](crate::blocking). Whoever uses the store first
    /// connects anew in its own runtime.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`ErrorKind::WrongContext`] inside an async runtime.
    #[cfg(feature = "blocking")]
    pub fn open_blocking(self) -> Result<Zookeeper> {
        blocking::open(STORE, async {
            let store = self.open().await?;
            store.hub.close().await;
            Ok(store)
        })
    }
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidInput, STORE, Operation::Open, message)
}

fn connector_of(address: &Address) -> Connector {
    let connector = Client::connector();
    match &address.credentials {
        Some(credentials) => connector.with_auth("digest", credentials.as_bytes()),
        None => connector,
    }
}

/// Whether each session it makes is a new one and ends with its client. The connector tells only by the way it is shown.
fn is_ours_alone(connector: &Connector) -> bool {
    let shown = format!("{connector:?}");
    shown.contains("session: None") && shown.contains("detached: false")
}

const MIN_SESSION: Duration = Duration::from_millis(100);
const MAX_SESSION: Duration = Duration::from_secs(24 * 60 * 60);

impl fmt::Debug for ZookeeperBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may carry a password.
        f.debug_struct("ZookeeperBuilder")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If the client library shows its connectors in another way, [`is_ours_alone`] has to be written anew.
    #[test]
    fn a_connector_that_keeps_its_session_is_refused() {
        let opens = |connector| {
            let builder = Zookeeper::builder_from("h:2181", connector);
            builder.hub().map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(opens(Client::connector()), Ok(()));
        let secret = Client::connector().with_auth("digest", b"shop:secret");
        assert_eq!(opens(secret), Ok(()));
        let said = opens(Client::connector().with_detached()).expect_err("a refusal");
        assert!(said.contains("with_detached"), "{said}");
    }
}
