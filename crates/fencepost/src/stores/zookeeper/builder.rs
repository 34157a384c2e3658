//! [`ZookeeperBuilder`]: holds the settings, and opens the store by an address or with the user's own connector.

use std::fmt;
use std::time::Duration;

use zookeeper_client::{Client, Connector};

use super::address::Address;
use super::hub::Hub;
use super::layout::ElectionLayout;
use super::settings::Settings;
use super::{STORE, Zookeeper, view};
use crate::error::{Error, Result};
#[cfg(feature = "blocking")]
use crate::stores::kit::blocking;
use crate::ttl::DEFAULT_TTL;

/// The settings for opening a [`Zookeeper`]; [`Zookeeper::builder`] and [`Zookeeper::builder_from`] create it.
#[derive(Clone)]
#[must_use]
pub struct ZookeeperBuilder {
    servers: Servers,
    settings: Settings,
    /// Whether only we may access our nodes, or `None` to let the address decide.
    creator_only: Option<bool>,
    /// How candidates of elections are laid out, or `None` to let the address decide.
    layout: Option<ElectionLayout>,
}

/// Where the servers are, and how to log in.
#[derive(Clone)]
pub(super) enum Servers {
    Address(String),
    /// The user's own connector.
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
                max_outage: Duration::from_secs(30),
            },
            creator_only: None,
            layout: None,
        }
    }

    /// Sets whether only clients with the same authentication can access the nodes that this store creates. The default is `true` if the
    /// address contains a user, and otherwise `false`. Without authentication, the server refuses to create such nodes.
    pub fn creator_only(mut self, creator_only: bool) -> Self {
        self.creator_only = Some(creator_only);
        self
    }

    /// Sets how candidates of elections are laid out below a path. All candidates of an election need the same layout. The default is that of the
    /// address, and otherwise [`ElectionLayout::Curator`].
    pub fn election_layout(mut self, layout: ElectionLayout) -> Self {
        self.layout = Some(layout);
        self
    }

    /// Sets after how much silence the server ends the session and gives its locks to others. This is the longest possible TTL, and the
    /// time for which a killed process blocks others. The default is 10 s, like the default TTL.
    ///
    /// The server limits the value, by default to 4 to 40 s (2 to 20 of its ticks).
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.settings.session_timeout = timeout;
        self
    }

    /// Sets how long connecting may take. The default is 3 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// Sets how long waiters tolerate a server that cannot be reached before they get an error, counted from the end of the session. The
    /// default is 30 s.
    pub fn max_outage(mut self, longest: Duration) -> Self {
        self.settings.max_outage = longest;
        self
    }

    /// Connects.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the address is invalid,
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if no ZooKeeper answers there, and
    /// [`ErrorKind::Unusable`](crate::ErrorKind::Unusable) if it does not let this user in.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connection is closed.
    pub async fn open(self) -> Result<Zookeeper> {
        let hub = self.hub()?;
        let store = Zookeeper {
            address: hub.address.shown(),
            hub,
        };
        Box::pin(view::probe(&store.hub)).await?;
        Ok(store)
    }

    pub(super) fn hub(self) -> Result<Hub> {
        if !(MIN_SESSION..=MAX_SESSION).contains(&self.settings.session_timeout) {
            return Err(invalid("a session timeout is 100 ms to 24 h"));
        }
        let address = self.address()?;
        let creator_only = self.creator_only.unwrap_or(address.credentials.is_some());
        let connector = match self.servers {
            Servers::Connector { connector, .. } if !is_ours_alone(&connector) => {
                return Err(invalid(
                    "a connector with a session of its own, or one that leaves its session behind, cannot hold locks: make it without with_session and with_detached",
                ));
            }
            Servers::Connector { connector, .. } => *connector,
            Servers::Address(_) => connector_of(&address),
        };
        // A server that is cut off from the others grants nothing, and must not look as if it did.
        let connector = connector
            .with_session_timeout(self.settings.session_timeout)
            .with_readonly(false)
            .with_fail_eagerly();
        Ok(Hub::new(address, connector, creator_only, self.settings))
    }

    pub(super) fn address(&self) -> Result<Address> {
        let address = self.given_address()?;
        let layout = self.layout.unwrap_or(address.layout);
        Ok(Address { layout, ..address })
    }

    fn given_address(&self) -> Result<Address> {
        match &self.servers {
            Servers::Address(address) => Address::parse(address).ok_or_else(|| {
                invalid(
                    "not an address of ZooKeeper; expected zk://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/BASE][?election=curator|kazoo]",
                )
            }),
            Servers::Connector { servers, .. } => Address::of_servers(servers).ok_or_else(|| {
                invalid("not servers of ZooKeeper; expected HOST[:PORT][,HOST[:PORT]…][/BASE]")
            }),
        }
    }

    /// Connects like [`open`](Self::open), but blocks the calling thread; for [`fencepost::blocking`](crate::blocking). The first use of
    /// the store connects again, in its own runtime.
    ///
    /// # Errors
    /// Returns the same errors as [`open`](Self::open), and [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async
    /// runtime.
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
    Error::invalid_settings(STORE, message)
}

fn connector_of(address: &Address) -> Connector {
    let connector = Client::connector();
    match &address.credentials {
        Some(credentials) => connector.with_auth("digest", credentials.as_bytes()),
        None => connector,
    }
}

/// Returns whether each session of the connector is new and ends with its client. Only the connector's `Debug` output shows that.
fn is_ours_alone(connector: &Connector) -> bool {
    let shown = format!("{connector:?}");
    shown.contains("session: None") && shown.contains("detached: false")
}

const MIN_SESSION: Duration = Duration::from_millis(100);
const MAX_SESSION: Duration = Duration::from_secs(24 * 60 * 60);

impl fmt::Debug for ZookeeperBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may contain a password.
        f.debug_struct("ZookeeperBuilder")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If the client library shows its connectors in another way, [`is_ours_alone`] has to be rewritten.
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
