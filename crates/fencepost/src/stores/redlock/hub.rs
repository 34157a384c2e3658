//! The quorum: all servers together, and what all requests to them share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::asking::OpenRequests;
use super::bells::Bells;
use super::collecting::collect;
use super::debts::Span;
use super::failure::{self, Failures};
use super::granted::Granted;
use super::seen::SeenEpochs;
use super::server::Server;
use super::settings::Settings;
use super::votes::majority;
use crate::backend::LossBell;
use crate::claim::Claim;
use crate::clock::{BootClock, Clock, unix_millis};
use crate::error::{Effect, Operation};

pub(super) struct Hub {
    pub(super) servers: Vec<Arc<Server>>,
    /// The addresses of the servers, without users and passwords.
    pub(super) address: String,
    pub(super) settings: Settings,
    pub(super) bells: Arc<Bells>,
    /// Rings when servers may have lost keys that are held.
    pub(super) loss_bell: Arc<LossBell>,
    pub(super) granted: Arc<Granted>,
    pub(super) seen: SeenEpochs,
    /// The last stamp that was issued.
    stamp: AtomicU64,
}

/// The result of a release.
pub(super) struct Released {
    /// The number of servers on which this owner had the key.
    pub(super) freed: usize,
    /// The number of servers that have answered.
    pub(super) answered: usize,
    /// The errors of the other servers.
    pub(super) failures: Failures,
}

impl Hub {
    pub(super) fn new(servers: Vec<Arc<Server>>, settings: Settings) -> Self {
        let bells = Arc::new(Bells::default());
        let loss_bell = Arc::new(LossBell::new());
        for server in &servers {
            let (bells, loss_bell) = (bells.clone(), loss_bell.clone());
            server.hub.call_when_changed(Box::new(move |changed| {
                bells.ring(changed);
                // `None` means that the connection broke or the server was flushed.
                if changed.is_none() {
                    loss_bell.ring_all();
                }
            }));
        }
        let short = |server: &Arc<Server>| {
            let address = server.address.strip_prefix("redis://");
            address.unwrap_or(&server.address).to_owned()
        };
        let all: Vec<String> = servers.iter().map(short).collect();
        Self {
            address: format!("redlock://{}", all.join(",")),
            servers,
            settings,
            bells,
            loss_bell,
            granted: Arc::default(),
            seen: SeenEpochs::default(),
            stamp: AtomicU64::new(0),
        }
    }

    pub(super) fn majority(&self) -> usize {
        majority(self.servers.len())
    }

    /// Returns how long a server may take to answer a request about a lease of this length, so that a silent server does not use up the
    /// lease's validity.
    pub(super) fn answer_timeout(&self, ttl: Duration) -> Duration {
        self.settings.server_timeout.min(ttl / 2)
    }

    pub(super) fn failures(&self, operation: Operation) -> Failures {
        Failures::new(operation, self.servers.len(), self.majority())
    }

    /// Returns the wall time in milliseconds, but always later than all stamps before.
    pub(super) fn next_stamp(&self) -> u64 {
        let now = unix_millis();
        let next = |last: u64| Some(now.max(last + 1));
        let order = Ordering::Relaxed;
        match self.stamp.fetch_update(order, order, next) {
            Ok(last) | Err(last) => now.max(last + 1),
        }
    }

    /// Releases the keys of `claim` on these servers. A release that is not confirmed in time is sent again later.
    pub(super) async fn give_back(
        &self,
        claim: &Claim,
        at: impl Iterator<Item = usize>,
    ) -> Released {
        let mut released = Released {
            freed: 0,
            answered: 0,
            failures: self.failures(Operation::Release),
        };
        let span = Span::up_to(self.next_stamp());
        let name: Arc<str> = claim.name.as_str().into();
        let mut asking = OpenRequests::new();
        for at in at {
            let server = &self.servers[at];
            server.debts.owe(claim, span);
            let (name, owner) = (name.clone(), claim.owner);
            asking.ask(at, server, |server, listening| async move {
                let release = server.clone().release(name, owner, span, Some(listening));
                let freed = release.await?;
                server.debts.paid(owner, span);
                Ok(freed)
            });
        }
        let until = BootClock.now() + self.answer_timeout(claim.ttl);
        loop {
            let is_enough = released.answered >= self.majority();
            let Some((at, answer)) = asking.next(until, is_enough).await else {
                break;
            };
            match answer {
                Ok(freed) => {
                    released.freed += usize::from(freed);
                    released.answered += 1;
                }
                // Whatever happened to the request, the key may exist.
                Err(error) => {
                    let error = error.with_effect(Effect::Maybe);
                    released.failures.add(&self.servers[at].address, error);
                    collect(&self.servers[at]);
                }
            }
        }
        for at in asking.silent() {
            let unanswered = failure::unanswered(Operation::Release);
            released.failures.add(&self.servers[at].address, unanswered);
            collect(&self.servers[at]);
        }
        asking.leave();
        released
    }
}
