//! One owner's place in the line of a lock, as far as this session knows it.
//!
//! ZooKeeper keeps a node for as long as its session lives. That would be for ever if nobody gave it back, so a place has an end of its own:
//! that of its lease once the lock is held, and otherwise a moment after the last request for it was dropped. The session's
//! [attendant](super::expiry) sees to it.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;

use crate::claim::{Claim, OwnerId};
use crate::clock::{BootClock, Clock, Moment};
use crate::lease::lock;

/// How long a place is kept for one who dropped its request and may ask again.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// A lock that is held for less is not watched: it would cost more than it is worth.
const UNWATCHED_FOR: Duration = Duration::from_secs(1);

/// A node of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    /// Its name below the lock's folder.
    pub(super) name: String,
    pub(super) epoch: u64,
}

/// Whether there is a node of this owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    /// None was made, or it is gone.
    Nothing,
    /// One was asked for, and the answer is lost or under way.
    Unsure,
    /// This one.
    Node(Node),
}

#[derive(Debug)]
pub(super) struct Place {
    pub(super) owner: OwnerId,
    pub(super) folder: String,
    state: Mutex<State>,
    gone: Notify,
}

#[derive(Debug)]
struct State {
    known: Known,
    /// The longest TTL asked for.
    ttl: Duration,
    /// When the lease ends; `None`: the lock was not granted.
    held_until: Option<Moment>,
    /// From when on the node is to be watched; `None`: it is, or the lock is not held.
    watched_from: Option<Moment>,
    /// Requests that are at work for this owner.
    attended_by: usize,
    /// When the last of them was done or dropped.
    left_at: Moment,
    /// It is being removed, and nobody can have it any more.
    ended: bool,
    gone: bool,
}

impl Place {
    pub(super) fn new(claim: &Claim, folder: String) -> Self {
        Self {
            owner: claim.owner,
            folder,
            state: Mutex::new(State {
                known: Known::Nothing,
                ttl: Duration::ZERO,
                held_until: None,
                watched_from: None,
                attended_by: 0,
                left_at: BootClock.now(),
                ended: false,
                gone: false,
            }),
            gone: Notify::new(),
        }
    }

    /// A request begins to work for this owner. False: too late, the place is being removed.
    pub(super) fn attend(&self) -> bool {
        let mut state = lock(&self.state);
        if !state.ended {
            state.attended_by += 1;
        }
        !state.ended
    }

    /// A request is done, or was dropped.
    pub(super) fn leave(&self) {
        let mut state = lock(&self.state);
        state.attended_by -= 1;
        state.left_at = BootClock.now();
    }

    pub(super) fn known(&self) -> Known {
        lock(&self.state).known.clone()
    }

    pub(super) fn set_known(&self, known: Known) {
        let mut state = lock(&self.state);
        if known == Known::Nothing {
            state.held_until = None;
            state.watched_from = None;
            state.ttl = Duration::ZERO;
        }
        state.known = known;
    }

    /// The longest of the TTLs asked for, this one included: a lease is never made shorter.
    pub(super) fn longest(&self, ttl: Duration) -> Duration {
        lock(&self.state).ttl.max(ttl)
    }

    /// The lock is granted, or its lease renewed, by a request sent at `asked_at`. False: too late, the lease has ended meanwhile.
    pub(super) fn hold(&self, asked_at: Moment, ttl: Duration) -> bool {
        let mut state = lock(&self.state);
        if state.ended || state.known == Known::Nothing {
            return false;
        }
        state.ttl = state.ttl.max(ttl);
        let until = asked_at + state.ttl;
        if state.held_until.is_none() {
            state.watched_from = Some(BootClock.now() + UNWATCHED_FOR);
        }
        state.held_until = Some(state.held_until.map_or(until, |before| before.max(until)));
        true
    }

    /// Whether the lock was granted to this owner and its lease has not ended.
    pub(super) fn is_held(&self) -> bool {
        let state = lock(&self.state);
        state.held_until.is_some() && !state.ended
    }

    /// The node while the lock is held, with the TTL that was last asked for.
    pub(super) fn held_node(&self) -> Option<(Node, Duration)> {
        let state = lock(&self.state);
        match &state.known {
            Known::Node(node) if state.held_until.is_some() && !state.ended => {
                Some((node.clone(), state.ttl))
            }
            _ => None,
        }
    }

    /// When a lock that is held begins to be watched.
    pub(super) fn watched_from(&self) -> Moment {
        let state = lock(&self.state);
        let from = state.watched_from.filter(|_| !state.ended);
        from.unwrap_or(Moment::FAR)
    }

    /// Whether the caller must watch the node from now on.
    pub(super) fn is_to_be_watched(&self, now: Moment) -> bool {
        let mut state = lock(&self.state);
        let is_due = !state.ended && state.watched_from.is_some_and(|from| from <= now);
        if is_due {
            state.watched_from = None;
        }
        is_due
    }

    /// The node could not be watched: somebody tries again a little later, if the lock is still held.
    pub(super) fn watch_later(&self) {
        let mut state = lock(&self.state);
        if state.held_until.is_some() {
            state.watched_from = Some(BootClock.now() + UNWATCHED_FOR);
        }
    }

    /// The owner gives the lock up: the node goes, at the latest when the request that does it was dropped for a while.
    pub(super) fn give_up(&self) {
        let mut state = lock(&self.state);
        state.held_until = None;
        state.watched_from = None;
    }

    /// When the place ends by itself.
    pub(super) fn ends_at(&self) -> Moment {
        let state = lock(&self.state);
        match state.held_until {
            _ if state.ended => Moment::FAR,
            Some(until) => until,
            None if state.attended_by > 0 => Moment::FAR,
            None => state.left_at + KEPT_FOR,
        }
    }

    /// Ends it if its time has come. True: the caller must remove the node.
    pub(super) fn end_by(&self, now: Moment) -> bool {
        if self.ends_at() > now {
            return false;
        }
        let mut state = lock(&self.state);
        // Renewed, taken up again or ended by somebody else since the line above.
        let is_due = match state.held_until {
            Some(until) => until <= now,
            None => state.attended_by == 0,
        };
        let ends = is_due && !state.ended;
        state.ended |= ends;
        ends
    }

    /// Its node is gone, as far as this session can tell.
    pub(super) fn set_gone(&self) {
        let mut state = lock(&self.state);
        state.ended = true;
        state.gone = true;
        drop(state);
        self.gone.notify_waiters();
    }

    /// Completes when a place that is being removed has been.
    pub(super) async fn until_gone(&self) {
        loop {
            let gone = self.gone.notified();
            tokio::pin!(gone);
            gone.as_mut().enable();
            if lock(&self.state).gone {
                return;
            }
            gone.await;
        }
    }
}
