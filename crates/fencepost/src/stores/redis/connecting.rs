//! Opens the connection that all requests share, and starts its heartbeats.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::failure;
use super::heartbeats;
use super::hub::{Hub, Unconnected};
use super::session::{self, Session};
use crate::clock::{BootClock, Clock, within};
use crate::error::{Operation, Result};
use crate::random::{Random, SystemRandom};

impl Hub {
    /// Returns the connection, and opens a new one if there is none.
    pub(crate) async fn session(self: &Arc<Self>, operation: Operation) -> Result<Arc<Session>> {
        let session = self.session.get_or_connect(|| self.clone().connect());
        match session.await {
            Some(Ok(session)) => Ok(session),
            Some(Err(Unconnected::Failed(cause))) => Err(failure::of_connecting(operation, cause)),
            Some(Err(Unconnected::NoAnswer)) | None => Err(failure::unreachable(operation)),
        }
    }

    async fn connect(self: Arc<Self>) -> std::result::Result<Arc<Session>, Unconnected> {
        let replaced = self.session.retire();
        let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
        let hub = Arc::downgrade(&self);
        let on_push = move |push| {
            if let Some(hub) = hub.upgrade() {
                hub.pushed(generation, push);
            }
        };
        let channel = format!("fp:{:016x}", SystemRandom.next_u64());
        let connecting = session::connect(
            &self.client,
            channel,
            generation,
            self.sent.clone(),
            &replaced,
            on_push,
        );
        let until = BootClock.now() + self.settings.connect_timeout;
        let session = within(&BootClock, until, connecting)
            .await
            .ok_or(Unconnected::NoAnswer)?
            .map_err(Unconnected::Failed)?;
        let session = self.session.replace(session);
        // After a reconnect we may talk to a different server. Heartbeats do not raise its epoch counter; only a lock request does.
        self.waiters.forget_deserted(BootClock.now());
        for waiter in self.waiters.all() {
            waiter.session_was_replaced();
        }
        tokio::spawn(heartbeats::run(Arc::downgrade(&self), session.clone()));
        Ok(session)
    }
}
