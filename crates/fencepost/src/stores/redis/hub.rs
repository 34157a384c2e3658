//! What all requests of one [`Redis`](super::Redis) share: the connection and the waiters.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use redis::{Client, PushInfo, PushKind, RedisError, Value};

use super::failure;
use super::heartbeats;
use super::names::Names;
use super::scripts::{ReadValue, is_epoch, millis};
use super::session::{self, Identity, Session};
use super::waiting::LocalWaiter;
use crate::backend::LossBell;
use crate::claim::{Claim, Grant, OwnerId};
use crate::clock::{BootClock, Clock, Moment, within};
use crate::error::{Operation, Result};
use crate::mutex::lock;
use crate::random::{Random, SystemRandom};
use crate::stores::kit::connecting::Connecting;

/// The settings of the builder.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) connect_timeout: Duration,
    pub(crate) max_outage: Duration,
    pub(crate) gap: Option<Gap>,
    /// How long the server keeps a name's last epoch after its last use.
    pub(crate) keep_fences: Duration,
}

/// Leaves the lock free for `length` each time `every` has passed since the last such gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(super) every: Duration,
    pub(super) length: Duration,
}

/// Why there is no connection.
#[derive(Clone)]
enum Unconnected {
    Silence,
    Failed(RedisError),
}

/// Called with the watched keys that changed, or with `None` if all may have changed, as after a broken connection.
pub(crate) type Listener = Box<dyn Fn(Option<&[Value]>) + Send + Sync>;

pub(crate) struct Hub {
    client: Client,
    pub(super) settings: Settings,
    waiters: Mutex<HashMap<OwnerId, Arc<LocalWaiter>>>,
    session: Mutex<Option<Arc<Session>>>,
    connecting: Connecting<std::result::Result<Arc<Session>, Unconnected>>,
    /// The connections that the server must end before the next one is used.
    replaced: Mutex<Vec<Identity>>,
    /// How many connections were opened. Distinguishes the push messages of different connections.
    generation: AtomicU64,
    pub(crate) names: Names,
    /// Rings when a connection ends, because the server may have ended with it and lost all locks.
    pub(super) loss_bell: LossBell,
    /// Another listener for changes.
    pub(super) listener: OnceLock<Listener>,
    /// How many commands were sent, not counting those for connecting.
    pub(super) sent: Arc<AtomicU64>,
}

impl Hub {
    pub(super) fn new(client: Client, settings: Settings) -> Self {
        Self {
            client,
            settings,
            waiters: Mutex::default(),
            session: Mutex::default(),
            connecting: Connecting::default(),
            replaced: Mutex::default(),
            generation: AtomicU64::new(0),
            names: Names::default(),
            loss_bell: LossBell::new(),
            listener: OnceLock::new(),
            sent: Arc::default(),
        }
    }

    /// Returns the connection, and opens a new one if there is none.
    pub(crate) async fn session(self: &Arc<Self>, operation: Operation) -> Result<Arc<Session>> {
        match self.current() {
            Some(session) => Ok(session),
            None => self.connect(operation).await,
        }
    }

    pub(super) fn current(&self) -> Option<Arc<Session>> {
        let session = lock(&self.session);
        session
            .as_ref()
            .filter(|session| !session.is_down())
            .cloned()
    }

    async fn connect(self: &Arc<Self>, operation: Operation) -> Result<Arc<Session>> {
        let connected = self.connecting.outcome(|| self.clone().connect_now()).await;
        match connected {
            Some(Ok(session)) => Ok(session),
            Some(Err(Unconnected::Failed(cause))) => Err(failure::of_connecting(operation, cause)),
            Some(Err(Unconnected::Silence)) | None => Err(failure::unreachable(operation)),
        }
    }

    async fn connect_now(self: Arc<Self>) -> std::result::Result<Arc<Session>, Unconnected> {
        // A caller may have asked for a connection just when the last attempt had opened one.
        if let Some(session) = self.current() {
            return Ok(session);
        }
        let mut replaced = lock(&self.replaced).clone();
        if let Some(old) = lock(&self.session).take() {
            replaced.extend(old.identity.clone());
            lock(&self.replaced).clone_from(&replaced);
        }
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
            .ok_or(Unconnected::Silence)?
            .map_err(Unconnected::Failed)?;
        lock(&self.replaced).clear();
        let session = Arc::new(session);
        *lock(&self.session) = Some(session.clone());
        // After a reconnect we may talk to a different server. Heartbeats do not raise its epoch counter; only a lock request does.
        self.forget_deserted(BootClock.now());
        for waiter in self.waiters() {
            waiter.session_was_replaced();
        }
        tokio::spawn(heartbeats::attend(Arc::downgrade(&self), session.clone()));
        Ok(session)
    }

    /// Gives up a connection. All waiters ask again, and holders check whether they still hold their locks.
    pub(super) fn lost(&self, session: &Session) {
        session.give_up();
        for waiter in self.waiters() {
            waiter.ask_again();
        }
        self.loss_bell.ring_all();
        self.tell_listener(None);
    }

    fn tell_listener(&self, changed: Option<&[Value]>) {
        if let Some(listener) = self.listener.get() {
            listener(changed);
        }
    }

    fn pushed(&self, generation: u64, push: PushInfo) {
        match push.kind {
            PushKind::Message => {
                let payload = push.data.get(1).and_then(|payload| payload.text());
                if let Some((owner, grant)) = payload.and_then(parse_grant)
                    && let Some(waiter) = self.waiter_of(owner)
                {
                    self.names.saw(&waiter.claim.name, grant.epoch);
                    waiter.granted(grant);
                }
            }
            PushKind::Invalidate => self.changed(&push.data),
            PushKind::Disconnection => {
                let current = self.generation.load(Ordering::Relaxed) == generation;
                let session = lock(&self.session).clone();
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
        for waiter in self.waiters() {
            if is_named(waiter.claim.name.as_str()) {
                waiter.beat_by(now);
            }
        }
        if let Some(session) = self.current() {
            session.watched.have_changed(names);
            session.wake.notify_one();
        }
        self.tell_listener(names);
    }

    /// Returns the waiter of this claim, and creates it if necessary.
    pub(super) fn waiter(&self, claim: &Claim) -> Arc<LocalWaiter> {
        let mut waiters = lock(&self.waiters);
        let make = || Arc::new(LocalWaiter::new(claim.clone()));
        waiters.entry(claim.owner).or_insert_with(make).clone()
    }

    pub(super) fn waiter_of(&self, owner: OwnerId) -> Option<Arc<LocalWaiter>> {
        lock(&self.waiters).get(&owner).cloned()
    }

    pub(super) fn waiters(&self) -> Vec<Arc<LocalWaiter>> {
        lock(&self.waiters).values().cloned().collect()
    }

    pub(super) fn forget(&self, owner: OwnerId) {
        lock(&self.waiters).remove(&owner);
    }

    /// Removes waiters that were left behind because an outage lasted longer than their release.
    pub(super) fn forget_deserted(&self, now: Moment) {
        lock(&self.waiters).retain(|_, waiter| !waiter.is_deserted(now));
    }

    /// Returns the gap in the form that the scripts expect: interval and length in milliseconds, or 0 for no gap.
    pub(super) fn gap(&self) -> [u64; 2] {
        match self.settings.gap {
            Some(gap) => [gap.every, gap.length].map(millis),
            None => [0, 0],
        }
    }

    /// Returns how long fences are kept, in the form that the scripts expect.
    pub(super) fn keep(&self) -> u64 {
        millis(self.settings.keep_fences)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        if let Some(session) = lock(&self.session).take() {
            session.give_up();
        }
    }
}

/// Belongs to a task that serves the connection, and announces when the task ends, including when its runtime ends.
pub(super) struct OnDuty {
    pub(super) hub: Weak<Hub>,
    pub(super) session: Arc<Session>,
}

impl Drop for OnDuty {
    fn drop(&mut self) {
        match self.hub.upgrade() {
            Some(hub) => hub.lost(&self.session),
            None => self.session.give_up(),
        }
    }
}

/// Returns the time of sending, which goes to the server and comes back with a grant: whole microseconds, rounded down.
pub(super) fn stamp(moment: Moment) -> u64 {
    moment.as_nanos() / 1000
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
        asked_at: Moment::from_nanos(stamp.checked_mul(1000)?),
        lease: Duration::from_millis(lease),
    };
    Some((owner, grant))
}
