//! What the doctor and the tests need of this store.

use std::fmt;
use std::time::Duration;

use etcd_client::Client;

use super::line::Other;
use super::sessions::Loans;
use super::watch::{Behind, until_gone};
use super::{Etcd, builder, failure, loan};
use crate::claim::Claim;
use crate::clock::Moment;
use crate::error::{Operation, Result};

/// The servers of an address, each with a client of its own; made by [`Etcd::visit`].
#[non_exhaustive]
pub struct Visit {
    /// `HOST:PORT` of each, as in the address, and the client, or why there is none.
    pub servers: Vec<(String, Result<Client>)>,
    /// What the keys of all locks begin with.
    pub prefix: String,
    /// As whom.
    pub user: Option<String>,
    /// Whether the servers are spoken to with TLS.
    pub is_tls: bool,
}

impl fmt::Debug for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.servers.iter().map(|(host, _)| host);
        f.debug_list().entries(hosts).finish()
    }
}

impl Etcd {
    /// Clients of the caller's own, one for each server of `address`, for programs that look at the servers themselves. A server that is
    /// not there may be noticed only when it is asked something.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the address is invalid.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections.
    pub async fn visit(address: &str, patience: Duration) -> Result<Visit> {
        let builder = Self::builder(address).connect_timeout(patience);
        let address = builder::read(address)?;
        // A server that has no leader is to say so, and not to refuse.
        let options = builder.options(&address)?.with_require_leader(false);
        let mut servers = Vec::new();
        for (host, endpoint) in address.hosts.iter().zip(address.endpoints()) {
            let connecting = Client::connect([endpoint], Some(options.clone()));
            let connected = match tokio::time::timeout(patience, connecting).await {
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

/// Asks for leases as one owner does; made by [`Etcd::borrower`].
pub struct Borrower<'a> {
    store: &'a Etcd,
    loans: Loans,
}

impl fmt::Debug for Borrower<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Borrower").finish_non_exhaustive()
    }
}

impl Borrower<'_> {
    /// Asks for a lease, if possible with the number `wanted`. Returns its number, and until when the store may be believed to keep it.
    ///
    /// # Errors
    /// The store's.
    ///
    /// # Cancel safety
    /// If dropped, the lease may have been granted.
    pub async fn borrow(&mut self, wanted: i64, ttl: Duration) -> Result<(i64, Moment)> {
        let granted = loan::grant(&self.store.hub, &mut self.loans, wanted, ttl).await?;
        Ok((granted.lease, granted.asked_at + granted.ttl))
    }
}

impl Etcd {
    /// Somebody who has not borrowed anything yet.
    pub fn borrower(&self) -> Borrower<'_> {
        Borrower {
            store: self,
            loans: Loans::default(),
        }
    }

    /// Waits until `key`, which revision `since` created, is gone, as a claim does that stands in line behind it. Keeps `lease` alive meanwhile.
    ///
    /// # Errors
    /// The store's.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn until_gone(
        &self,
        claim: &Claim,
        (key, since): (&str, i64),
        (lease, lease_ttl): (i64, Duration),
    ) -> Result<()> {
        let other = Other {
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
