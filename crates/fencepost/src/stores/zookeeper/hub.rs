//! The session of one [`Zookeeper`](super::Zookeeper), made anew when it has ended.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zookeeper_client::{Acls, Client, Connector, Error as Cause, SessionInfo, SessionState};

use super::address::Address;
use super::attendant;
use super::failure;
use super::link::Link;
use crate::backend::LossBell;
use crate::clock::{BootClock, Clock, Moment, within};
use crate::error::{Operation, Result};
use crate::lease::lock;

/// What the builder decided.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) session_timeout: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) outage: Duration,
}

pub(super) struct Hub {
    pub(super) address: Address,
    connector: Connector,
    /// Whether only those who authenticate as we do may touch our nodes.
    creator_only: bool,
    pub(super) settings: Settings,
    base: Arc<str>,
    link: Mutex<Option<Arc<Link>>>,
    /// Sessions of which this side has heard nothing for so long that it gave them up, though the server may not have.
    unburied: Mutex<Vec<Unburied>>,
    /// Rung when a session has ended, or a node that is held has gone.
    pub(super) bell: Arc<LossBell>,
    /// One at a time connects; the others wait for it.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Unburied {
    session: SessionInfo,
    /// Whatever the server thinks of it, nothing can be left of it then.
    over_at: Moment,
}

impl Hub {
    pub(super) fn new(
        address: Address,
        connector: Connector,
        creator_only: bool,
        settings: Settings,
    ) -> Self {
        Self {
            base: address.base.as_str().into(),
            address,
            connector,
            creator_only,
            settings,
            link: Mutex::default(),
            unburied: Mutex::default(),
            bell: Arc::default(),
            connecting: tokio::sync::Mutex::default(),
        }
    }

    /// The session; a new one when the last has ended.
    pub(super) async fn link(&self, operation: Operation) -> Result<Arc<Link>> {
        if let Some(link) = self.current() {
            return Ok(link);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(link) = self.current() {
            return Ok(link);
        }
        let until = BootClock.now() + self.settings.connect_timeout;
        match within(&BootClock, until, self.connect()).await {
            Some(Ok(link)) => Ok(link),
            Some(Err(cause)) => Err(failure::of_connecting(operation, cause)),
            None => Err(failure::unreachable(operation)),
        }
    }

    fn current(&self) -> Option<Arc<Link>> {
        let link = lock(&self.link);
        link.as_ref().filter(|link| !link.is_down()).cloned()
    }

    async fn connect(&self) -> std::result::Result<Arc<Link>, Cause> {
        self.put_away();
        self.bury().await?;
        let client = self.connector.clone().connect(&self.address.hosts).await?;
        let acls = if self.creator_only {
            Acls::creator_all()
        } else {
            Acls::anyone_all()
        };
        let link = Link::new(client, self.base.clone(), acls, self.bell.clone());
        let link = Arc::new(link);
        tokio::spawn(attendant::attend(link.clone()));
        *lock(&self.link) = Some(link.clone());
        Ok(link)
    }

    /// A session that is none of this hub's.
    #[cfg(feature = "unstable-hooks")]
    pub(super) async fn visit(&self) -> Result<Client> {
        let until = BootClock.now() + self.settings.connect_timeout;
        let connecting = self.connector.clone().connect(&self.address.hosts);
        match within(&BootClock, until, connecting).await {
            Some(Ok(client)) => Ok(client),
            Some(Err(cause)) => Err(failure::of_connecting(Operation::Open, cause)),
            None => Err(failure::unreachable(Operation::Open)),
        }
    }

    /// Lets go of the old session. If this side gave it up, it must be ended at the server: a request of it that is still on
    /// its way would be carried out after those of the new one.
    ///
    /// By then nobody believes in a lock of it: the client waits for longer than the session timeout, and no lease is longer.
    fn put_away(&self) {
        let Some(old) = lock(&self.link).take() else {
            return;
        };
        old.dismiss();
        if old.client.state() == SessionState::Expired {
            lock(&self.unburied).push(Unburied {
                session: old.client.session().clone(),
                over_at: BootClock.now() + old.timeout * 2,
            });
        }
    }

    async fn bury(&self) -> std::result::Result<(), Cause> {
        let now = BootClock.now();
        lock(&self.unburied).retain(|old| now < old.over_at);
        let unburied = lock(&self.unburied).clone();
        for Unburied { session, .. } in unburied {
            let id = session.id();
            match self
                .connector
                .clone()
                .with_session(session)
                .connect(&self.address.hosts)
                .await
            {
                Ok(client) => close(client).await,
                Err(Cause::SessionExpired) => {}
                Err(cause) => return Err(cause),
            }
            lock(&self.unburied).retain(|old| old.session.id() != id);
        }
        Ok(())
    }

    /// Ends the session, and returns when the server knows.
    #[cfg(feature = "blocking")]
    pub(super) async fn close(&self) {
        let Some(link) = lock(&self.link).take() else {
            return;
        };
        link.dismiss();
        let client = link.client.clone();
        drop(link);
        let until = BootClock.now() + self.settings.connect_timeout;
        within(&BootClock, until, close(client)).await;
    }
}

/// Ends a session that nobody else uses.
async fn close(client: Client) {
    let mut state = client.state_watcher();
    drop(client);
    while !state.state().is_terminated() {
        state.changed().await;
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may carry a password.
        f.debug_struct("Hub")
            .field("address", &self.address.shown())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        if let Some(link) = lock(&self.link).take() {
            link.dismiss();
        }
    }
}
