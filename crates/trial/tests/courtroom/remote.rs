//! Locks on servers other than a single Redis, each written from scratch.

use std::time::Duration;

use crate::part::ExternalLock;

/// A lock on servers, from the point of view of one process.
pub(crate) trait Remote {
    /// Tries once, in the name of this token. Returns whether the lock is granted.
    fn take(&mut self, key: &str, token: &str) -> bool;

    /// Withdraws a request that was refused.
    fn give_up(&mut self, _key: &str, _token: &str) {}

    /// Releases the lock. Returns whether the grant was still there.
    fn give_back(&mut self, key: &str, token: &str) -> bool;

    /// Returns whether a grant lasts until it is released, or until its process is gone.
    fn is_untimed(&self) -> bool {
        false
    }
}

/// Opens the lock at these endpoints; `None` if they belong to a file or to a single Redis.
pub(crate) fn open(
    endpoints: &[String],
    ttl: Duration,
    lock: ExternalLock,
) -> Option<Box<dyn Remote>> {
    let first = endpoints.first()?;
    let (scheme, rest) = first.split_once("://")?;
    let (address, space) = rest.rsplit_once('#')?;
    match scheme {
        "redis" if endpoints.len() > 1 => Some(Box::new(crate::redlock_latch::RedlockLatch::at(
            endpoints, ttl, lock,
        ))),
        "etcd" => Some(Box::new(crate::etcd_latch::EtcdLatch::at(
            endpoints, space, ttl, lock,
        ))),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Some(Box::new(crate::postgres_latch::PostgresLatch::at(
            first, lock,
        ))),
        #[cfg(feature = "zookeeper")]
        "zk" => Some(Box::new(crate::zookeeper_latch::ZookeeperLatch::at(
            address, space, ttl, lock.flaw,
        ))),
        _ => None,
    }
}
