//! What the doctor needs of this store.

use std::time::Duration;

use super::RedlockBuilder;
use super::builder::{Servers, not_an_address};
use super::failure;
use crate::error::Result;

impl RedlockBuilder {
    /// The address of each server, as [`Redis::open`](crate::stores::redis::Redis::open) takes it, for programs that look at the servers themselves. May
    /// carry passwords.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the address is invalid, or clients were handed in.
    pub fn servers(&self) -> Result<&[String]> {
        match &self.servers {
            Servers::Addresses(servers) => Ok(servers),
            Servers::Invalid => Err(not_an_address()),
            Servers::Clients(_) => {
                let message = "clients that were handed in have no addresses".to_owned();
                Err(failure::invalid(message))
            }
        }
    }

    /// How long a server that was restarted does not vote.
    pub fn chosen_restart_delay(&self) -> Duration {
        self.settings.restart_delay
    }
}
