//! What the doctor and the tests need of this store.

use zookeeper_client::{Client, SessionInfo};

use super::{Zookeeper, ZookeeperBuilder};
use crate::error::{Operation, Result};

impl ZookeeperBuilder {
    /// A session of the caller's own, for programs that look at the servers themselves. It ends when the client is dropped.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn visit(self) -> Result<Client> {
        self.hub()?.visit().await
    }

    /// `HOST:PORT` of each server, as the address names them, and the node below which the locks are.
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
    /// The session that the store's locks belong to. Whoever takes it over and closes it ends them.
    ///
    /// # Errors
    /// Those of connecting, if there is no session.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn session(&self) -> Result<SessionInfo> {
        let link = self.hub.link(Operation::Inspect).await?;
        Ok(link.client.session().clone())
    }
}
