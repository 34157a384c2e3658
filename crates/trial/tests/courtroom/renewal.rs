//! Renews the grants of a process in the background.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::latch::{Flaw, Grant, Latch};

/// The grants to renew.
#[derive(Default, Clone)]
pub(crate) struct Renewal(Arc<Mutex<Vec<Grant>>>);

impl Renewal {
    /// Starts to renew with this connection. It ends with its process.
    pub(crate) fn start(&self, mut latch: Latch, ttl: Duration, flaw: Option<Flaw>) {
        let grants = Arc::clone(&self.0);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(ttl / 5);
                let grants = grants.lock().unwrap();
                let first = match flaw {
                    Some(Flaw::RenewsLast) => grants.len().saturating_sub(1),
                    _ => 0,
                };
                grants[first..].iter().for_each(|grant| latch.renew(grant));
            }
        });
    }

    pub(crate) fn add(&self, grant: &Grant) {
        self.0.lock().unwrap().push(grant.clone());
    }

    /// Forgets a grant before it is released. A renewal that has begun is finished.
    pub(crate) fn remove(&self, grant: &Grant) {
        let mut grants = self.0.lock().unwrap();
        grants.retain(|other| other.token != grant.token);
    }
}
