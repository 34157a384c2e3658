//! The waiters of this process: the place of each in the server's line, and what the server has announced to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use super::session::Session;
use crate::claim::{Claim, Grant, OwnerId};
use crate::clock::Moment;
use crate::mutex::lock;

/// The lease that a waiter gets when its turn comes. It is short because the waiter may be dead; a live waiter renews it to the full TTL.
pub(super) const WAITER_LEASE: Duration = Duration::from_millis(600);
/// How many round trips the short lease must cover, so that a waiter can learn of its grant and answer.
const WAITER_LEASE_ROUND_TRIPS: u32 = 8;
/// How often a waiter asks if the server cannot send it grants, or cannot announce the release of a plain client.
pub(super) const POLL: Duration = Duration::from_millis(25);

/// How long the server keeps a line without heartbeats.
const LINE_LIFE: Duration = Duration::from_secs(10);

/// The durations that apply to one wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    /// The lease of a grant to a client in line.
    pub(super) waiter_lease: Duration,
    /// The time between two heartbeats.
    pub(super) beat: Duration,
    /// How long one heartbeat counts.
    pub(super) live: Duration,
}

impl Times {
    fn of(ttl: Duration, session: &Session) -> Self {
        let waiter_lease = WAITER_LEASE
            .max(session.round_trip * WAITER_LEASE_ROUND_TRIPS)
            .min(ttl);
        let beat = waiter_lease / 4;
        Self {
            waiter_lease,
            beat,
            live: beat * 3,
        }
    }
}

/// The waiters of this process, by owner.
#[derive(Default)]
pub(super) struct Waiters(Mutex<HashMap<OwnerId, Arc<LocalWaiter>>>);

impl Waiters {
    /// Returns the waiter of this claim, and creates it if necessary.
    pub(super) fn register(&self, claim: &Claim) -> Arc<LocalWaiter> {
        let make = || Arc::new(LocalWaiter::new(claim.clone()));
        let mut waiters = lock(&self.0);
        waiters.entry(claim.owner).or_insert_with(make).clone()
    }

    pub(super) fn get(&self, owner: OwnerId) -> Option<Arc<LocalWaiter>> {
        lock(&self.0).get(&owner).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<LocalWaiter>> {
        lock(&self.0).values().cloned().collect()
    }

    pub(super) fn forget(&self, owner: OwnerId) {
        lock(&self.0).remove(&owner);
    }

    /// Removes waiters that were left behind because an outage lasted longer than their release.
    pub(super) fn forget_deserted(&self, now: Moment) {
        lock(&self.0).retain(|_, waiter| !waiter.is_deserted(now));
    }
}

/// An owner of this process that waits for a lock, or is about to.
#[derive(Debug)]
pub(super) struct LocalWaiter {
    pub(super) claim: Claim,
    state: Mutex<State>,
    told: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Whether a future waits here. Without one, nothing is done for this waiter until its owner asks again or releases.
    attended: bool,
    /// When the last future was dropped.
    left_at: Option<Moment>,
    position: Option<LinePosition>,
    grant: Option<Grant>,
    /// Whether the waiter must ask the server again.
    again: bool,
    beat_at: Option<Moment>,
}

/// The position in the server's line. Member and times stay the same during one wait, even if the connection changes.
#[derive(Debug, Clone)]
pub(super) struct LinePosition {
    /// The member in the line, or empty if the request only tries.
    pub(super) member: String,
    pub(super) times: Times,
    /// The ticket, once the server has reported it, and 0 before.
    pub(super) ticket: u64,
}

impl LinePosition {
    /// Returns the position of a request that only tries, and never joins the line.
    pub(super) fn outside(ttl: Duration, session: &Session) -> Self {
        Self {
            member: String::new(),
            times: Times::of(ttl, session),
            ticket: 0,
        }
    }
}

/// What a waiter learns.
pub(super) enum News {
    Granted(Grant),
    /// The position or the connection is gone: ask again.
    Again,
}

impl LocalWaiter {
    fn new(claim: Claim) -> Self {
        Self {
            claim,
            state: Mutex::default(),
            told: Notify::new(),
        }
    }

    /// Returns the position, which is created at the first call.
    pub(super) fn position(&self, session: &Session, stamp: u64) -> LinePosition {
        let mut state = lock(&self.state);
        let make = || {
            let Claim {
                owner, label, ttl, ..
            } = &self.claim;
            let times = Times::of(*ttl, session);
            let [ttl, lease, live] =
                [*ttl, times.waiter_lease, times.live].map(|time| time.as_millis());
            let channel = session.channel();
            let member = format!("{owner} {ttl} {lease} {live} {stamp} {channel} {label}");
            LinePosition {
                member,
                times,
                ticket: 0,
            }
        };
        state.position.get_or_insert_with(make).clone()
    }

    /// Returns the member to remove from the line.
    pub(super) fn member(&self) -> Option<String> {
        let state = lock(&self.state);
        state.position.as_ref().map(|own| own.member.clone())
    }

    /// Records that a future starts to wait or to ask again; forgets everything that was announced before.
    pub(super) fn attend(&self) {
        let mut state = lock(&self.state);
        state.attended = true;
        state.again = false;
        state.grant = None;
        state.beat_at = None;
    }

    pub(super) fn abandon(&self, now: Moment) {
        let mut state = lock(&self.state);
        state.attended = false;
        state.left_at = Some(now);
    }

    /// Returns whether nobody has waited here for so long that no server has a live entry of it, whatever happened to its release.
    fn is_deserted(&self, now: Moment) -> bool {
        let state = lock(&self.state);
        let left_at = state.left_at.filter(|_| !state.attended);
        left_at.is_some_and(|at| now.saturating_duration_since(at) > LINE_LIFE)
    }

    pub(super) fn queued(&self, ticket: u64, beat_at: Moment) {
        let mut state = lock(&self.state);
        if let Some(position) = &mut state.position {
            position.ticket = ticket;
        }
        state.beat_at = Some(beat_at);
    }

    /// Makes the next heartbeat, if there is one, happen at `moment` at the latest.
    pub(super) fn beat_by(&self, moment: Moment) {
        let mut state = lock(&self.state);
        state.beat_at = state.beat_at.map(|at| at.min(moment));
    }

    /// Returns when the next heartbeat is due, or `None` if there is none.
    pub(super) fn beat_at(&self) -> Option<Moment> {
        let state = lock(&self.state);
        if state.attended && state.grant.is_none() && !state.again {
            state.beat_at
        } else {
            None
        }
    }

    /// Returns what a heartbeat needs, and schedules the next one a whole interval later.
    pub(super) fn begin_beat(&self, now: Moment) -> Option<LinePosition> {
        let mut state = lock(&self.state);
        let position = state.position.clone()?;
        state.beat_at = Some(now + position.times.beat);
        Some(position)
    }

    pub(super) fn granted(&self, grant: Grant) {
        let mut state = lock(&self.state);
        if !state.attended {
            return;
        }
        // A later request for the same lease extends our belief in it; it is never a second lease.
        if state
            .grant
            .is_none_or(|known| known.asked_at < grant.asked_at)
        {
            state.grant = Some(grant);
        }
        drop(state);
        self.told.notify_one();
    }

    pub(super) fn ask_again(&self) {
        lock(&self.state).again = true;
        self.told.notify_one();
    }

    /// Makes a waiter that stood in line over an older connection ask again over this one.
    pub(super) fn session_was_replaced(&self) {
        let is_queued = lock(&self.state).beat_at.is_some();
        if is_queued {
            self.ask_again();
        }
    }

    /// Completes with a grant.
    pub(super) async fn grant(&self) -> Grant {
        loop {
            if let Some(grant) = lock(&self.state).grant.take() {
                return grant;
            }
            self.told.notified().await;
        }
    }

    pub(super) async fn news(&self) -> News {
        loop {
            {
                let mut state = lock(&self.state);
                if let Some(grant) = state.grant.take() {
                    return News::Granted(grant);
                }
                if state.again {
                    return News::Again;
                }
            }
            self.told.notified().await;
        }
    }
}
