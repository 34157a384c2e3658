//! What all requests of one [`PostgresTable`](super::PostgresTable) share: the connection, and the seats of those who wait.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use futures_util::FutureExt;
use futures_util::future::Shared;
use tokio::task::JoinError;
use tokio_postgres::AsyncMessage;

use super::builder::Settings;
use super::failure;
use super::line::Line;
use super::link::{self, Identity, Link, Wanted};
use super::tables::Tables;
use crate::clock::{BootClock, BoxFuture, Clock, within};
use crate::error::{Error, Operation, Result};
use crate::lease::lock;
use crate::stores::postgres::address::Address;

/// An attempt to connect, shared by all who wait for it. The outer error: its runtime ended.
type Attempt = Shared<BoxFuture<'static, std::result::Result<Result<Arc<Link>>, Arc<JoinError>>>>;

pub(super) struct Hub {
    pub(super) address: Address,
    pub(super) settings: Settings,
    pub(super) line: Line,
    tables: OnceLock<Tables>,
    link: Mutex<Option<Arc<Link>>>,
    /// The attempt to connect that is under way, or the last one.
    attempt: Mutex<Option<Attempt>>,
    /// The sessions that must not outlive the next.
    replaced: Mutex<Vec<Identity>>,
    /// Statements sent, other than those that connecting takes.
    pub(super) sent: Arc<AtomicU64>,
}

impl Hub {
    pub(super) fn new(address: Address, settings: Settings) -> Self {
        Self {
            address,
            settings,
            line: Line::default(),
            tables: OnceLock::new(),
            link: Mutex::default(),
            attempt: Mutex::default(),
            replaced: Mutex::default(),
            sent: Arc::default(),
        }
    }

    /// The tables in use; known once a connection was made.
    pub(super) fn tables(&self) -> &Tables {
        self.tables.get().unwrap_or(&self.settings.tables)
    }

    /// The connection; made anew when there is none.
    pub(super) async fn link(self: &Arc<Self>, operation: Operation) -> Result<Arc<Link>> {
        match self.current() {
            Some(link) => Ok(link),
            None => self.connect(operation).await,
        }
    }

    fn current(&self) -> Option<Arc<Link>> {
        let link = lock(&self.link);
        link.as_ref().filter(|link| !link.is_down()).cloned()
    }

    /// All who need a connection wait for the same attempt, which goes on when they give up: on a long road it takes longer
    /// than a single request may.
    async fn connect(self: &Arc<Self>, operation: Operation) -> Result<Arc<Link>> {
        // An attempt ends with the runtime it runs in. If that was not this one, another is made here.
        for _ in 0..2 {
            match self.attempt(operation).await {
                Ok(outcome) => return outcome.map_err(|error| during(operation, error)),
                Err(_ended) => {}
            }
        }
        Err(failure::unreachable(operation))
    }

    fn attempt(self: &Arc<Self>, operation: Operation) -> Attempt {
        let mut attempt = lock(&self.attempt);
        if let Some(under_way) = attempt.as_ref().filter(|attempt| attempt.peek().is_none()) {
            return under_way.clone();
        }
        let hub = self.clone();
        let task = tokio::spawn(async move {
            let outcome = hub.connect_now(operation).await;
            // Those who wait have a copy. Nobody later is to hear of an old failure.
            *lock(&hub.attempt) = None;
            outcome
        });
        let new: BoxFuture<'static, _> = Box::pin(async move { task.await.map_err(Arc::new) });
        attempt.insert(new.shared()).clone()
    }

    async fn connect_now(self: &Arc<Self>, operation: Operation) -> Result<Arc<Link>> {
        // Somebody may have asked for a connection just when the last attempt had made one.
        if let Some(link) = self.current() {
            return Ok(link);
        }
        let mut replaced = lock(&self.replaced).clone();
        if let Some(old) = lock(&self.link).take() {
            replaced.extend(old.identity.clone());
            lock(&self.replaced).clone_from(&replaced);
        }
        let wanted = Wanted {
            address: &self.address,
            settings: &self.settings,
            found: self.tables.get().cloned(),
            replaced: &replaced,
            sent: self.sent.clone(),
        };
        let mut ears = Ears(Arc::downgrade(self));
        let connecting = link::connect(operation, wanted, move |message| ears.hear(message));
        // Ending the old session has its own patience.
        let until = BootClock.now() + self.settings.connect_timeout + link::SILENCE;
        let connected = within(&BootClock, until, connecting).await;
        let (link, tables) = connected.unwrap_or_else(|| Err(failure::unreachable(operation)))?;
        let _same = self.tables.set(tables);
        lock(&self.replaced).clear();
        let link = Arc::new(link);
        *lock(&self.link) = Some(link.clone());
        // What was told while nobody listened is lost.
        self.line.ask_all();
        Ok(link)
    }

    /// A connection is of no use any more: everybody asks anew.
    pub(super) fn lost(&self, link: &Link) {
        link.give_up();
        self.line.ask_all();
    }
}

/// Hears what the server sends unasked, and that it sends no more.
struct Ears(Weak<Hub>);

impl Ears {
    fn hear(&mut self, message: AsyncMessage) {
        let AsyncMessage::Notification(notice) = message else {
            return;
        };
        let Some((owner, row)) = notice.payload().split_once(' ') else {
            return;
        };
        if let (Some(hub), Ok(owner)) = (self.0.upgrade(), owner.parse()) {
            hub.line.is_free(row, owner);
        }
    }
}

impl Drop for Ears {
    fn drop(&mut self) {
        if let Some(hub) = self.0.upgrade() {
            hub.line.ask_all();
        }
    }
}

/// The same failure, told of another operation.
fn during(operation: Operation, error: Error) -> Error {
    match error.operation() == operation {
        true => error,
        false => Error::new(
            error.kind(),
            super::STORE,
            operation,
            error.message().to_owned(),
        )
        .with_effect(error.effect())
        .with_source(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A holder's renewal and a waiter share an attempt to connect, which meets a standby.
    #[test]
    fn who_waits_recognizes_what_another_operation_has_met() {
        let met = failure::standby();
        assert!(failure::is_passing(&met));
        let told = during(Operation::Acquire, met);
        assert_eq!(told.operation(), Operation::Acquire);
        assert!(failure::is_passing(&told), "{told:?}");
    }
}
