//! What the doctor and the tests need of this store.

use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::{Client, ProtocolVersion};

use super::Redis;
use crate::clock::{BootClock, Clock};
use crate::error::Result;

impl Redis {
    /// A client of the caller's own for the server of `address`, for programs that look at the server itself. Nothing is sent yet.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the address is invalid, or names files that hold no certificates.
    pub fn visit(address: &str, protocol: ProtocolVersion) -> Result<Client> {
        let (_, client, _) = Self::builder(address).client(protocol)?;
        Ok(client)
    }

    /// How many commands were sent to the server: one for each attempt (three when nobody else seems to want the lock), place in line,
    /// sign of life, renewal, release or access to
    /// a resource. What connecting takes is not counted.
    pub fn commands_sent(&self) -> u64 {
        self.hub.sent.load(Ordering::Relaxed)
    }

    /// Forgets the claims that nobody will have asked about or released for long, seen from `later` from now on. Returns how many are
    /// remembered.
    pub fn forget_deserted(&self, later: Duration) -> usize {
        self.hub.forget_deserted(BootClock.now() + later);
        self.hub.seats().len()
    }
}
