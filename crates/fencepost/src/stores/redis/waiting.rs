//! One who waits at the server: what was told to it, and where it stands.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;

use super::session::Session;
use crate::claim::{Claim, Grant};
use crate::clock::Moment;
use crate::lease::{lock, margin};

/// The lease that a waiter gets when its turn comes: short, because it may be dead. It is renewed to the full TTL by whoever
/// is alive to do so.
const CLAIM_LEASE: Duration = Duration::from_millis(600);
/// A waiter must be able to hear of its grant and answer.
const CLAIM_ROUND_TRIPS: u32 = 8;
/// How often a waiter asks where its grants cannot be sent to it, or a plain client's release cannot be seen.
pub(super) const POLL: Duration = Duration::from_millis(25);

/// How long a line lives at the server that nobody keeps alive.
const LINE_LIFE: Duration = Duration::from_secs(10);

/// The times of one wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    /// The lease of a grant that finds the waiter in line.
    pub(super) claim: Duration,
    /// Between two signs of life.
    pub(super) beat: Duration,
    /// How long one sign of life counts.
    pub(super) live: Duration,
}

impl Times {
    pub(super) fn of(ttl: Duration, session: &Session) -> Self {
        let claim = CLAIM_LEASE
            .max(session.round_trip * CLAIM_ROUND_TRIPS)
            .min(ttl);
        let beat = claim / 4;
        Self {
            claim,
            beat,
            live: beat * 3,
        }
    }
}

#[derive(Debug)]
pub(super) struct Seat {
    pub(super) claim: Claim,
    state: Mutex<State>,
    told: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// A future waits here. Without one nothing is done for this seat: its owner asks again, or releases.
    attended: bool,
    /// When the last one was dropped.
    left_at: Option<Moment>,
    entry: Option<Entry>,
    /// Our place, once the server has told it.
    ticket: Option<u64>,
    grant: Option<Grant>,
    /// The server must be asked anew.
    again: bool,
    beat_at: Option<Moment>,
}

/// What stands in the server's line. Stays the same for one wait, whatever connection it goes on with.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) member: String,
    pub(super) times: Times,
}

/// What a waiter hears.
pub(super) enum News {
    Granted(Grant),
    /// The entry is gone, or the connection is: ask anew.
    Again,
}

impl Seat {
    pub(super) fn new(claim: Claim) -> Self {
        Self {
            claim,
            state: Mutex::default(),
            told: Notify::new(),
        }
    }

    /// The entry, made at the first call.
    pub(super) fn entry(&self, session: &Session, stamp: u64) -> Entry {
        let mut state = lock(&self.state);
        let make = || {
            let Claim {
                owner, label, ttl, ..
            } = &self.claim;
            let times = Times::of(*ttl, session);
            let [ttl, claim, live] = [*ttl, times.claim, times.live].map(|time| time.as_millis());
            let channel = session.channel();
            let member = format!("{owner} {ttl} {claim} {live} {stamp} {channel} {label}");
            Entry { member, times }
        };
        state.entry.get_or_insert_with(make).clone()
    }

    /// What must be taken out of the line.
    pub(super) fn member(&self) -> Option<String> {
        let state = lock(&self.state);
        state.entry.as_ref().map(|entry| entry.member.clone())
    }

    /// The place to come back to.
    pub(super) fn ticket(&self) -> Option<u64> {
        lock(&self.state).ticket
    }

    /// A future begins to wait, or to ask anew: what was told before is void.
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

    /// Nobody has waited here for so long that no server has a living entry of it, whatever became of its release.
    pub(super) fn is_deserted(&self, now: Moment) -> bool {
        let state = lock(&self.state);
        let left_at = state.left_at.filter(|_| !state.attended);
        left_at.is_some_and(|at| now.since(at) > LINE_LIFE)
    }

    pub(super) fn queued(&self, ticket: u64, beat_at: Moment) {
        let mut state = lock(&self.state);
        state.ticket = Some(ticket);
        state.beat_at = Some(beat_at);
    }

    /// The next beat, if one is to come, comes by `moment`.
    pub(super) fn beat_by(&self, moment: Moment) {
        let mut state = lock(&self.state);
        state.beat_at = state.beat_at.map(|at| at.min(moment));
    }

    /// The next beat is due at this moment; `None`: none.
    pub(super) fn beat_at(&self) -> Option<Moment> {
        let state = lock(&self.state);
        match state.attended && state.grant.is_none() && !state.again {
            true => state.beat_at,
            false => None,
        }
    }

    /// What a beat needs; the next one is a whole interval away.
    pub(super) fn begin_beat(&self, now: Moment) -> Option<Entry> {
        let mut state = lock(&self.state);
        let entry = state.entry.clone()?;
        state.beat_at = Some(now + entry.times.beat);
        Some(entry)
    }

    pub(super) fn granted(&self, grant: Grant) {
        let mut state = lock(&self.state);
        if !state.attended {
            return;
        }
        // A later request for the same lease extends the belief; it is never a second lease.
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

    /// Who stands in line by a request over an older connection asks anew over this one.
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

/// A grant is worth something as long as the waiter may believe in it.
pub(super) fn is_fresh(grant: &Grant, now: Moment) -> bool {
    now < grant.asked_at + grant.lease.saturating_sub(margin(grant.lease))
}
