//! What all requests of one [`Redis`](super::Redis) share: the connection, and the seats of those who wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::Shared;
use redis::{Client, PushInfo, PushKind, RedisError, Value};
use tokio::task::JoinError;

use super::failure;
use super::heartbeats;
use super::names::Names;
use super::scripts::{Answer, is_epoch, millis};
use super::session::{self, Identity, Session};
use super::waiting::Seat;
use crate::backend::LossBell;
use crate::claim::{Claim, Grant, OwnerId};
use crate::clock::{BootClock, BoxFuture, Clock, Moment, within};
use crate::error::{Operation, Result};
use crate::lease::lock;
use crate::random::{Random, SystemRandom};

/// What the builder decided.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) connect_timeout: Duration,
    pub(crate) outage: Duration,
    pub(crate) gap: Option<Gap>,
    /// How long the server keeps a name's last epoch after its last use.
    pub(crate) keep_fences: Duration,
}

/// The lock lies free for `length` when `every` has passed since the last such gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(super) every: Duration,
    pub(super) length: Duration,
}

/// An attempt to connect, shared by all who wait for it. The outer error: its runtime ended.
type Attempt = Shared<
    BoxFuture<
        'static,
        std::result::Result<std::result::Result<Arc<Session>, Unconnected>, Arc<JoinError>>,
    >,
>;

/// Why there is no connection.
#[derive(Clone)]
enum Unconnected {
    Silence,
    Failed(RedisError),
}

/// Called with the keys that changed among those watched; without any when all may have, as after a broken connection.
pub(crate) type Listener = Box<dyn Fn(Option<&[Value]>) + Send + Sync>;

pub(crate) struct Hub {
    client: Client,
    pub(super) settings: Settings,
    seats: Mutex<HashMap<OwnerId, Arc<Seat>>>,
    session: Mutex<Option<Arc<Session>>>,
    /// The attempt to connect that is under way, or the last one.
    attempt: Mutex<Option<Attempt>>,
    /// The connections that must not outlive the next.
    replaced: Mutex<Vec<Identity>>,
    /// How many connections were made: tells the pushes of one from those of another.
    generation: AtomicU64,
    pub(crate) names: Names,
    /// Rung when a connection ends: the server may have ended with it, and lost all locks.
    pub(super) losses: LossBell,
    /// Who else wants to hear of changes.
    listener: OnceLock<Listener>,
    /// Commands sent, other than those that connecting takes.
    pub(super) sent: Arc<AtomicU64>,
}

impl Hub {
    pub(super) fn new(client: Client, settings: Settings) -> Self {
        Self {
            client,
            settings,
            seats: Mutex::default(),
            session: Mutex::default(),
            attempt: Mutex::default(),
            replaced: Mutex::default(),
            generation: AtomicU64::new(0),
            names: Names::default(),
            losses: LossBell::new(),
            listener: OnceLock::new(),
            sent: Arc::default(),
        }
    }

    /// The connection; made anew when there is none.
    pub(crate) async fn session(self: &Arc<Self>, operation: Operation) -> Result<Arc<Session>> {
        match self.current() {
            Some(session) => Ok(session),
            None => self.connect(operation).await,
        }
    }

    fn current(&self) -> Option<Arc<Session>> {
        let session = lock(&self.session);
        session
            .as_ref()
            .filter(|session| !session.is_down())
            .cloned()
    }

    /// A renewal that was asked for at that moment is not waited for any longer.
    #[cfg(feature = "redlock")]
    pub(crate) fn renewal_unanswered(&self, asked_at: Moment) {
        if let Some(session) = self.current() {
            session.renewal_unanswered(asked_at);
        }
    }

    /// All who need a connection wait for the same attempt, which goes on when they give up: on a long road it takes longer
    /// than a single request may.
    async fn connect(self: &Arc<Self>, operation: Operation) -> Result<Arc<Session>> {
        // An attempt ends with the runtime it runs in. If that was not this one, another is made here.
        for _ in 0..2 {
            match self.attempt().await {
                Ok(Ok(session)) => return Ok(session),
                Ok(Err(Unconnected::Silence)) => return Err(failure::unreachable(operation)),
                Ok(Err(Unconnected::Failed(cause))) => {
                    return Err(failure::of_connecting(operation, cause));
                }
                Err(_ended) => {}
            }
        }
        Err(failure::unreachable(operation))
    }

    fn attempt(self: &Arc<Self>) -> Attempt {
        let mut attempt = lock(&self.attempt);
        if let Some(under_way) = attempt.as_ref().filter(|attempt| attempt.peek().is_none()) {
            return under_way.clone();
        }
        let hub = self.clone();
        let task = tokio::spawn(async move {
            let outcome = hub.clone().connect_now().await;
            // Those who wait have a copy. Nobody later is to hear of an old failure.
            *lock(&hub.attempt) = None;
            outcome
        });
        let new: BoxFuture<'static, _> = Box::pin(async move { task.await.map_err(Arc::new) });
        attempt.insert(new.shared()).clone()
    }

    async fn connect_now(self: Arc<Self>) -> std::result::Result<Arc<Session>, Unconnected> {
        // Somebody may have asked for a connection just when the last attempt had made one.
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
        // There may be another server behind it, whose epochs only a request lifts, and no sign of life.
        self.forget_deserted(BootClock.now());
        for seat in self.seats() {
            seat.session_was_replaced();
        }
        tokio::spawn(heartbeats::attend(Arc::downgrade(&self), session.clone()));
        Ok(session)
    }

    /// A connection is of no use any more: everybody asks anew, and holders ask whether they still hold what they held.
    pub(super) fn lost(&self, session: &Session) {
        session.give_up();
        for seat in self.seats() {
            seat.ask_again();
        }
        self.losses.ring_all();
        self.tell_listener(None);
    }

    /// Has changes of watched keys told to `listener` as well; the first one stays.
    #[cfg(feature = "redlock")]
    pub(crate) fn listen(&self, listener: Listener) {
        let _only_one = self.listener.set(listener);
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
                    && let Some(seat) = self.seat_of(owner)
                {
                    self.names.saw(&seat.claim.name, grant.epoch);
                    seat.granted(grant);
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

    /// Keys that were watched have changed; `data` holds an array of names, or nothing when all may have.
    fn changed(&self, data: &[Value]) {
        let names = data.first().and_then(|names| names.items());
        let is_named = |name: &str| {
            names.is_none_or(|names| names.iter().any(|changed| changed.text() == Some(name)))
        };
        let now = BootClock.now();
        for seat in self.seats() {
            if is_named(seat.claim.name.as_str()) {
                seat.beat_by(now);
            }
        }
        if let Some(session) = self.current() {
            session.watched.have_changed(names);
            session.bell.notify_one();
        }
        self.tell_listener(names);
    }

    /// The seat of this claim, made when there is none.
    pub(super) fn seat(&self, claim: &Claim) -> Arc<Seat> {
        let mut seats = lock(&self.seats);
        let make = || Arc::new(Seat::new(claim.clone()));
        seats.entry(claim.owner).or_insert_with(make).clone()
    }

    pub(super) fn seat_of(&self, owner: OwnerId) -> Option<Arc<Seat>> {
        lock(&self.seats).get(&owner).cloned()
    }

    pub(super) fn seats(&self) -> Vec<Arc<Seat>> {
        lock(&self.seats).values().cloned().collect()
    }

    pub(super) fn forget(&self, owner: OwnerId) {
        lock(&self.seats).remove(&owner);
    }

    /// Releases that an outage outlived leave their seats behind.
    pub(super) fn forget_deserted(&self, now: Moment) {
        lock(&self.seats).retain(|_, seat| !seat.is_deserted(now));
    }

    /// The gap as the scripts want it: every how many milliseconds, for how many; 0 for never.
    pub(super) fn gap(&self) -> [u64; 2] {
        match self.settings.gap {
            Some(gap) => [gap.every, gap.length].map(millis),
            None => [0, 0],
        }
    }

    /// How long fences are kept, as the scripts want it.
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

/// Whoever keeps a task for the connection alive tells the others when it goes, also when its runtime ends.
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

/// The moment of sending, as it goes to the server and comes back with a grant: whole microseconds, rounded down.
pub(super) fn stamp(moment: Moment) -> u64 {
    moment.as_nanos() / 1000
}

/// Reads "owner epoch lease stamp"; `None` if it is something else.
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
