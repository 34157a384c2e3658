//! What the doctor and the tests need from the etcd store, beyond the public API.

use std::fmt;
use std::time::Duration;

use etcd_client::Client;

use super::line::OtherKey;
use super::owners::Leases;
use super::waiting::{Behind, until_gone};
use super::{Etcd, builder, failure, leases};
use crate::claim::Claim;
use crate::clock::Moment;
use crate::error::{Operation, Result};

/// The servers of an address, each with a separate client; [`Etcd::visit`] creates it.
#[non_exhaustive]
pub struct Visit {
    /// `HOST:PORT` of each server, as in the address, with its client or the reason why there is none.
    pub servers: Vec<(String, Result<Client>)>,
    /// The prefix of the keys of all locks.
    pub prefix: String,
    /// The user name.
    pub user: Option<String>,
    /// Whether the connections use TLS.
    pub is_tls: bool,
}

impl fmt::Debug for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.servers.iter().map(|(host, _)| host);
        f.debug_list().entries(hosts).finish()
    }
}

impl Etcd {
    /// Creates separate clients, one for each server of `address`, for programs that look at the servers themselves. An unreachable server
    /// may not be noticed until the first request.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the address is invalid.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connections are closed.
    pub async fn visit(address: &str, timeout: Duration) -> Result<Visit> {
        let builder = Self::builder(address).connect_timeout(timeout);
        let address = builder::read(address)?;
        // A server without a leader must report it instead of refusing the connection.
        let options = builder.options(&address)?.with_require_leader(false);
        let mut servers = Vec::new();
        for (host, endpoint) in address.hosts.iter().zip(address.endpoints()) {
            let connecting = Client::connect([endpoint], Some(options.clone()));
            let connected = match tokio::time::timeout(timeout, connecting).await {
                Ok(connected) => {
                    connected.map_err(|cause| failure::of_connecting(Operation::Open, cause))
                }
                Err(_) => Err(failure::unanswered(Operation::Open)),
            };
            servers.push((host.clone(), connected));
        }
        Ok(Visit {
            servers,
            prefix: address.prefix,
            user: address.user.map(|(name, _)| name),
            is_tls: address.is_tls,
        })
    }
}

/// Requests leases as one owner does; [`Etcd::borrower`] creates it.
pub struct Borrower<'a> {
    store: &'a Etcd,
    leases: Leases,
}

impl fmt::Debug for Borrower<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Borrower").finish_non_exhaustive()
    }
}

impl Borrower<'_> {
    /// Requests a lease, if possible with the number `wanted`. Returns its number, and until when the store can be trusted to keep it.
    ///
    /// # Errors
    /// Returns an error if the store does.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lease may have been granted.
    pub async fn borrow(&mut self, wanted: i64, ttl: Duration) -> Result<(i64, Moment)> {
        let granted = leases::grant(&self.store.hub, &mut self.leases, wanted, ttl).await?;
        Ok((granted.lease, granted.asked_at + granted.ttl))
    }
}

impl Etcd {
    /// Creates a borrower without leases.
    pub fn borrower(&self) -> Borrower<'_> {
        Borrower {
            store: self,
            leases: Leases::default(),
        }
    }

    /// Waits until `key`, which revision `since` created, is gone, as a claim in line behind it does. Keeps `lease` alive in the meantime.
    ///
    /// # Errors
    /// Returns an error if the store does.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn until_gone(
        &self,
        claim: &Claim,
        (key, since): (&str, i64),
        (lease, lease_ttl): (i64, Duration),
    ) -> Result<()> {
        let other = OtherKey {
            since,
            key: key.as_bytes().to_vec(),
        };
        let behind = Behind {
            other,
            lease,
            lease_ttl,
        };
        until_gone(&self.hub, claim, &behind).await
    }
}
