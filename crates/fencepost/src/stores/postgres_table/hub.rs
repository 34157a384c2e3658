//! What all requests of one [`PostgresTable`](super::PostgresTable) share: the connection and the waiters.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak};

use tokio_postgres::AsyncMessage;

use super::failure;
use super::session::{self, Identity, Session, Wanted};
use super::settings::Settings;
use super::tables::Tables;
use super::waiting::Waiters;
use crate::clock::{BootClock, Clock, within};
use crate::error::{Error, Operation, Result};
use crate::stores::kit::current_session::{CurrentSession, Replaceable};
use crate::stores::kit::key_bells::KeyBells;
use crate::stores::kit::silence::ANSWER_TIMEOUT;
use crate::stores::postgres::address::Address;

pub(super) struct Hub {
    pub(super) address: Address,
    pub(super) settings: Settings,
    pub(super) waiters: Waiters,
    /// What the server announces about records.
    pub(super) record_bells: KeyBells,
    tables: OnceLock<Tables>,
    session: CurrentSession<Session, Error>,
    /// How many statements were sent, not counting those for connecting.
    pub(super) sent: Arc<AtomicU64>,
}

impl Hub {
    pub(super) fn new(address: Address, settings: Settings) -> Self {
        Self {
            address,
            settings,
            waiters: Waiters::default(),
            record_bells: KeyBells::default(),
            tables: OnceLock::new(),
            session: CurrentSession::default(),
            sent: Arc::default(),
        }
    }

    /// Returns the tables in use, which are known after the first connection.
    pub(super) fn tables(&self) -> &Tables {
        self.tables.get().unwrap_or(&self.settings.tables)
    }

    /// Returns the connection, and opens a new one if there is none.
    pub(super) async fn session(self: &Arc<Self>, operation: Operation) -> Result<Arc<Session>> {
        let session = self
            .session
            .get_or_connect(|| self.clone().connect(operation));
        match session.await {
            Some(outcome) => outcome.map_err(|error| during(operation, error)),
            None => Err(failure::unreachable(operation)),
        }
    }

    async fn connect(self: Arc<Self>, operation: Operation) -> Result<Arc<Session>> {
        let replaced = self.session.retire();
        let wanted = Wanted {
            address: &self.address,
            settings: &self.settings,
            found: self.tables.get().cloned(),
            replaced: &replaced,
            sent: self.sent.clone(),
        };
        let mut listener = NotificationListener(Arc::downgrade(&self));
        let connecting = session::connect(operation, wanted, move |message| listener.hear(message));
        // Ending the old session has its own time limit.
        let until = BootClock.now() + self.settings.connect_timeout + ANSWER_TIMEOUT;
        let connected = within(&BootClock, until, connecting).await;
        let (session, tables) =
            connected.unwrap_or_else(|| Err(failure::unreachable(operation)))?;
        let _same = self.tables.set(tables);
        let session = self.session.replace(session);
        // Notifications that were sent while nobody listened are lost.
        self.tell_all();
        Ok(session)
    }

    /// Gives up a connection. All waiters ask again.
    pub(super) fn give_up(&self, session: &Session) {
        session.give_up();
        self.tell_all();
    }

    /// Makes all waiters ask, because notifications may be missing.
    fn tell_all(&self) {
        self.waiters.ask_all();
        self.record_bells.ring_all();
    }
}

impl Replaceable for Session {
    type Identity = Identity;

    fn is_down(&self) -> bool {
        Self::is_down(self)
    }

    fn identity(&self) -> Option<Identity> {
        self.identity.clone()
    }
}

/// Receives the unsolicited messages of the server, and notices when there will be no more.
struct NotificationListener(Weak<Hub>);

impl NotificationListener {
    fn hear(&mut self, message: AsyncMessage) {
        let AsyncMessage::Notification(notice) = message else {
            return;
        };
        let Some((owner, row)) = notice.payload().split_once(' ') else {
            return;
        };
        let Some(hub) = self.0.upgrade() else { return };
        if owner == "record" {
            hub.record_bells.ring(row);
        } else if let Ok(owner) = owner.parse() {
            hub.waiters.notify_free(row, owner);
        }
    }
}

impl Drop for NotificationListener {
    fn drop(&mut self) {
        if let Some(hub) = self.0.upgrade() {
            hub.tell_all();
        }
    }
}

/// Returns the same failure as an error of another operation.
fn during(operation: Operation, error: Error) -> Error {
    if error.operation() == operation {
        error
    } else {
        Error::new(
            error.kind(),
            super::STORE,
            operation,
            error.message().to_owned(),
        )
        .with_effect(error.effect())
        .with_source(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A holder's renewal and a waiter share an attempt to connect, which meets a standby.
    #[test]
    fn who_waits_recognizes_what_another_operation_has_met() {
        let met = failure::standby();
        assert!(failure::is_transient(&met));
        let told = during(Operation::Acquire, met);
        assert_eq!(told.operation(), Operation::Acquire);
        assert!(failure::is_transient(&told), "{told:?}");
    }
}
