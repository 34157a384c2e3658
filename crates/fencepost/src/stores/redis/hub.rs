//! What all requests of one [`Redis`](super::Redis) share: the connection and the waiters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::{Client, PushInfo, PushKind, RedisError, Value};

use super::failure;
use super::heartbeats;
use super::names::Names;
use super::scripts::{ReadValue, is_epoch, of_stamp};
use super::session::{self, Identity, Session};
use super::waiting::Waiters;
use crate::backend::LossBell;
use crate::claim::{Grant, OwnerId};
use crate::clock::{BootClock, Clock, within};
use crate::error::{Operation, Result};
use crate::random::{Random, SystemRandom};
use crate::stores::kit::current_session::{CurrentSession, Replaceable};

/// The settings of the builder. Those that go to the server are in the form that the scripts expect.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) connect_timeout: Duration,
    pub(super) max_outage: Duration,
    /// How often the lock is left free for a while, and for how long; zero for never.
    pub(super) gap_ms: [u64; 2],
    /// How long the server keeps a name's last epoch after its last use.
    pub(super) keep_fences_ms: u64,
}

/// Why there is no connection.
#[derive(Clone)]
enum Unconnected {
    NoAnswer,
    Failed(RedisError),
}

/// Called with the watched keys that changed, or with `None` if all may have changed, as after a broken connection.
pub(crate) type OnChange = Box<dyn Fn(Option<&[Value]>) + Send + Sync>;

pub(crate) struct Hub {
    client: Client,
    pub(super) settings: Settings,
    pub(super) waiters: Waiters,
    session: CurrentSession<Session, Unconnected>,
    /// How many connections were opened. Distinguishes the push messages of different connections.
    generation: AtomicU64,
    pub(crate) names: Names,
    /// Rings when a connection ends, because the server may have ended with it and lost all locks.
    pub(super) loss_bell: LossBell,
    /// Called when watched keys change. Only `stores::redlock` sets it.
    pub(super) on_change: OnceLock<OnChange>,
    /// How many commands were sent, not counting those for connecting.
    pub(super) sent: Arc<AtomicU64>,
}

impl Hub {
    pub(super) fn new(client: Client, settings: Settings) -> Self {
        Self {
            client,
            settings,
            waiters: Waiters::default(),
            session: CurrentSession::default(),
            generation: AtomicU64::new(0),
            names: Names::default(),
            loss_bell: LossBell::new(),
            on_change: OnceLock::new(),
            sent: Arc::default(),
        }
    }

    /// Returns the connection, and opens a new one if there is none.
    pub(crate) async fn session(self: &Arc<Self>, operation: Operation) -> Result<Arc<Session>> {
        let session = self.session.get_or_connect(|| self.clone().connect());
        match session.await {
            Some(Ok(session)) => Ok(session),
            Some(Err(Unconnected::Failed(cause))) => Err(failure::of_connecting(operation, cause)),
            Some(Err(Unconnected::NoAnswer)) | None => Err(failure::unreachable(operation)),
        }
    }

    /// Returns the connection, or `None` if there is none.
    pub(super) fn current(&self) -> Option<Arc<Session>> {
        self.session.get()
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
        tokio::spawn(heartbeats::attend(Arc::downgrade(&self), session.clone()));
        Ok(session)
    }

    /// Gives up a connection. All waiters ask again, and holders check whether they still hold their locks.
    pub(super) fn lost(&self, session: &Session) {
        session.give_up();
        for waiter in self.waiters.all() {
            waiter.ask_again();
        }
        self.loss_bell.ring_all();
        self.call_on_change(None);
    }

    fn call_on_change(&self, changed: Option<&[Value]>) {
        if let Some(on_change) = self.on_change.get() {
            on_change(changed);
        }
    }

    fn pushed(&self, generation: u64, push: PushInfo) {
        match push.kind {
            PushKind::Message => {
                let payload = push.data.get(1).and_then(|payload| payload.text());
                if let Some((owner, grant)) = payload.and_then(parse_grant)
                    && let Some(waiter) = self.waiters.get(owner)
                {
                    self.names.saw(&waiter.claim.name, grant.epoch);
                    waiter.granted(grant);
                }
            }
            PushKind::Invalidate => self.changed(&push.data),
            PushKind::Disconnection => {
                let current = self.generation.load(Ordering::Relaxed) == generation;
                let session = self.session.last();
                if let Some(session) = session.filter(|_| current) {
                    self.lost(&session);
                }
            }
            _ => {}
        }
    }

    /// Handles a change of watched keys. `data` contains an array of names, or nothing if all may have changed.
    fn changed(&self, data: &[Value]) {
        let names = data.first().and_then(|names| names.items());
        let is_named = |name: &str| {
            names.is_none_or(|names| names.iter().any(|changed| changed.text() == Some(name)))
        };
        let now = BootClock.now();
        for waiter in self.waiters.all() {
            if is_named(waiter.claim.name.as_str()) {
                waiter.beat_by(now);
            }
        }
        if let Some(session) = self.current() {
            session.watched.have_changed(names);
            session.wake.notify_one();
        }
        self.call_on_change(names);
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        if let Some(session) = self.session.last() {
            session.give_up();
        }
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

/// Parses "owner epoch lease stamp". Returns `None` if the text is something else.
fn parse_grant(payload: &str) -> Option<(OwnerId, Grant)> {
    let mut parts = payload.split(' ');
    let owner = parts.next()?.parse().ok()?;
    let mut number = || parts.next()?.parse::<u64>().ok();
    let [epoch, lease, stamp] = [number()?, number()?, number()?];
    if !is_epoch(epoch) {
        return None;
    }
    let grant = Grant {
        epoch,
        asked_at: of_stamp(stamp)?,
        lease: Duration::from_millis(lease),
    };
    Some((owner, grant))
}
