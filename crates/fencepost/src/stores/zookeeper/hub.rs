//! The session of one [`Zookeeper`](super::Zookeeper), which is replaced when it has ended.

use std::fmt;
use std::sync::{Arc, Mutex};

use zookeeper_client::{Acls, Client, Connector, Error as Cause, SessionInfo, SessionState};

use super::address::Address;
use super::expiry;
use super::failure;
use super::session::Session;
use super::settings::Settings;
use crate::backend::LossBell;
use crate::clock::{BootClock, Clock, Moment, within};
use crate::error::{Operation, Result};
use crate::mutex::lock;

pub(super) struct Hub {
    pub(super) address: Address,
    connector: Connector,
    /// Whether only clients with the same authentication can access our nodes.
    creator_only: bool,
    pub(super) settings: Settings,
    base: Arc<str>,
    session: Mutex<Option<Arc<Session>>>,
    /// Sessions that this side gave up after a long silence, although the server may still have them.
    given_up: Mutex<Vec<GivenUp>>,
    /// Rings when a session has ended, or when a node that is held is gone.
    pub(super) loss_bell: Arc<LossBell>,
    /// Only one task connects at a time; the others wait for it.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct GivenUp {
    session: SessionInfo,
    /// When nothing can be left of the session, whatever the server believes.
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
            session: Mutex::default(),
            given_up: Mutex::default(),
            loss_bell: Arc::default(),
            connecting: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the session, and creates a new one if the last one has ended.
    pub(super) async fn session(&self, operation: Operation) -> Result<Arc<Session>> {
        if let Some(session) = self.current() {
            return Ok(session);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(session) = self.current() {
            return Ok(session);
        }
        let until = BootClock.now() + self.settings.connect_timeout;
        match within(&BootClock, until, self.connect()).await {
            Some(Ok(session)) => Ok(session),
            Some(Err(cause)) => Err(failure::of_connecting(operation, cause)),
            None => Err(failure::unreachable(operation)),
        }
    }

    fn current(&self) -> Option<Arc<Session>> {
        let session = lock(&self.session);
        session
            .as_ref()
            .filter(|session| !session.is_down())
            .cloned()
    }

    async fn connect(&self) -> std::result::Result<Arc<Session>, Cause> {
        self.retire_session();
        self.end_given_up_sessions().await?;
        let client = self.connector.clone().connect(&self.address.hosts).await?;
        let acls = if self.creator_only {
            Acls::creator_all()
        } else {
            Acls::anyone_all()
        };
        let place = (self.base.clone(), self.address.layout.form());
        let session = Session::new(client, place, acls, self.loss_bell.clone());
        let session = Arc::new(session);
        tokio::spawn(expiry::run(session.clone()));
        *lock(&self.session) = Some(session.clone());
        Ok(session)
    }

    /// Creates a session that does not belong to this hub.
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

    /// Puts the old session away. If this side gave it up, it must be ended at the server: otherwise a request of it that is still on its
    /// way would be executed after those of the new session.
    ///
    /// By then nobody believes in a lock of the old session: the client waits for longer than the session timeout, and no lease is longer.
    fn retire_session(&self) {
        let Some(old) = lock(&self.session).take() else {
            return;
        };
        old.dismiss();
        if old.client.state() == SessionState::Expired {
            lock(&self.given_up).push(GivenUp {
                session: old.client.session().clone(),
                over_at: BootClock.now() + old.timeout * 2,
            });
        }
    }

    async fn end_given_up_sessions(&self) -> std::result::Result<(), Cause> {
        let now = BootClock.now();
        lock(&self.given_up).retain(|old| now < old.over_at);
        let given_up = lock(&self.given_up).clone();
        for GivenUp { session, .. } in given_up {
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
            lock(&self.given_up).retain(|old| old.session.id() != id);
        }
        Ok(())
    }

    /// Ends the session, and returns when the server has confirmed it.
    #[cfg(feature = "blocking")]
    pub(super) async fn close(&self) {
        let Some(session) = lock(&self.session).take() else {
            return;
        };
        session.dismiss();
        let client = session.client.clone();
        drop(session);
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
        // The address may contain a password.
        f.debug_struct("Hub")
            .field("address", &self.address.shown())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        if let Some(session) = lock(&self.session).take() {
            session.dismiss();
        }
    }
}
