//! What all requests of one [`Redis`](super::Redis) share: the connection, the waiters, and what the server announces to them.
//!
//! `connecting.rs` opens the connection, because the heartbeat task that it starts uses this hub.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::{Client, PushInfo, PushKind, RedisError, Value};

use super::names::Names;
use super::scripts::{ReadValue, is_epoch, of_stamp};
use super::session::{Identity, Session};
use super::settings::Settings;
use super::waiting::Waiters;
use crate::backend::LossBell;
use crate::claim::{Grant, OwnerId};
use crate::clock::{BootClock, Clock};
use crate::stores::kit::current_session::{CurrentSession, Replaceable};
use crate::stores::kit::key_bells::KeyBells;

/// Why there is no connection.
#[derive(Clone)]
pub(super) enum Unconnected {
    NoAnswer,
    Failed(RedisError),
}

/// Called with the watched keys that changed, or with `None` if all may have changed, as after a broken connection.
pub(crate) type OnChange = Box<dyn Fn(Option<&[Value]>) + Send + Sync>;

pub(crate) struct Hub {
    pub(super) client: Client,
    pub(super) settings: Settings,
    pub(super) waiters: Waiters,
    /// What the server announces about records.
    pub(super) record_bells: KeyBells,
    pub(super) session: CurrentSession<Session, Unconnected>,
    /// How many connections were opened. Distinguishes the push messages of different connections.
    pub(super) generation: AtomicU64,
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
            record_bells: KeyBells::default(),
            session: CurrentSession::default(),
            generation: AtomicU64::new(0),
            names: Names::default(),
            loss_bell: LossBell::new(),
            on_change: OnceLock::new(),
            sent: Arc::default(),
        }
    }

    /// Returns the connection, or `None` if there is none.
    pub(super) fn current(&self) -> Option<Arc<Session>> {
        self.session.get()
    }

    /// Gives up a connection. All waiters ask again, and holders check whether they still hold their locks.
    pub(super) fn give_up(&self, session: &Session) {
        session.give_up();
        for waiter in self.waiters.all() {
            waiter.ask_again();
        }
        self.loss_bell.ring_all();
        self.call_on_change(None);
    }

    /// Passes on that watched keys have changed, or, with `None`, that all may have changed.
    fn call_on_change(&self, changed: Option<&[Value]>) {
        match changed {
            Some(keys) => {
                let keys = keys.iter().filter_map(|key| key.text());
                keys.for_each(|key| self.record_bells.ring(key));
            }
            None => self.record_bells.ring_all(),
        }
        if let Some(on_change) = self.on_change.get() {
            on_change(changed);
        }
    }

    /// Handles a message of the server, or the end of the connection with this number.
    pub(super) fn pushed(&self, generation: u64, push: PushInfo) {
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
                    self.give_up(&session);
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
