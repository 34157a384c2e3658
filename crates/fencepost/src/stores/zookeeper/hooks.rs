//! What the doctor and the tests need from the ZooKeeper store, beyond the public API.

use zookeeper_client::{Client, SessionInfo};

use super::{Zookeeper, ZookeeperBuilder};
use crate::error::{Operation, Result};

impl ZookeeperBuilder {
    /// Creates a separate session, for programs that look at the servers themselves. It ends when the client is dropped.
    ///
    /// # Errors
    /// Returns the same errors as [`open`](Self::open).
    ///
    /// # Cancel safety
    /// If the future is dropped, the connection is closed.
    pub async fn visit(self) -> Result<Client> {
        self.hub()?.visit().await
    }

    /// Returns `HOST:PORT` of each server in the address, and the node below which the locks are.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the address is invalid.
    pub fn servers(&self) -> Result<(Vec<String>, String)> {
        let address = self.address()?;
        let with_port = |host: &str| match host.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => host.to_owned(),
            _ => format!("{host}:2181"),
        };
        let hosts = address.hosts.split(',').map(with_port).collect();
        Ok((hosts, address.base))
    }
}

impl Zookeeper {
    /// Returns the session to which the store's locks belong. A client that takes it over and closes it ends the locks.
    ///
    /// # Errors
    /// Returns the errors of connecting, if there is no session.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn session(&self) -> Result<SessionInfo> {
        let session = self.hub.session(Operation::Inspect).await?;
        Ok(session.client.session().clone())
    }
}
