//! What the doctor needs from the Redlock store, beyond the public API.

use std::time::Duration;

use super::RedlockBuilder;
use super::builder::{Servers, not_an_address};
use super::failure;
use crate::error::Result;

impl RedlockBuilder {
    /// Returns the address of each server, in the form of [`Redis::open`](crate::stores::redis::Redis::open), for programs that look at the
    /// servers themselves. The addresses may contain passwords.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the address is invalid, or if clients were passed in.
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

    /// Returns how long a restarted server does not vote.
    pub fn chosen_restart_delay(&self) -> Duration {
        self.settings.restart_delay
    }
}
