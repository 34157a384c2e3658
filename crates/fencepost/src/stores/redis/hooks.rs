//! What the doctor and the tests need from the Redis store, beyond the public API.

use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::{Client, ProtocolVersion};

use super::Redis;
use crate::clock::{BootClock, Clock};
use crate::error::Result;

impl Redis {
    /// Creates a separate client for the server of `address`, for programs that look at the server itself. Sends nothing yet.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the address is invalid, or if its files do not contain
    /// certificates.
    pub fn visit(address: &str, protocol: ProtocolVersion) -> Result<Client> {
        let (_, client, _) = Self::builder(address).client(protocol)?;
        Ok(client)
    }

    /// Returns how many commands were sent to the server: one for each attempt (three if nobody else seems to want the lock), place in
    /// line, heartbeat, renewal, release or access to a resource. Commands for connecting do not count.
    pub fn commands_sent(&self) -> u64 {
        self.hub.sent.load(Ordering::Relaxed)
    }

    /// Forgets the claims that nobody has asked about or released for a long time, as seen at `later` from now. Returns how many are still
    /// remembered.
    pub fn forget_deserted(&self, later: Duration) -> usize {
        self.hub.waiters.forget_deserted(BootClock.now() + later);
        self.hub.waiters.all().len()
    }
}
