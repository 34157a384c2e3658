//! What this session knows about each owner: its node in the line of a lock, its lease, and its requests in progress.
//!
//! ZooKeeper keeps a node for as long as its session lives, which would be for ever if nobody released it. An owner's node therefore has
//! its own end: the end of its lease if the lock is held, and otherwise a moment after the last request for it was dropped. The session's
//! [expiry task](super::expiry) then removes the node.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;

use super::keys::Form;
use crate::claim::{Claim, OwnerId};
use crate::clock::{BootClock, Clock, Moment};
use crate::mutex::lock;

/// How long the node of an owner is kept that dropped its request and may ask again.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// A lock that is held for less than this is not watched, because watching would cost more than it is worth.
const UNWATCHED_FOR: Duration = Duration::from_secs(1);

/// A node of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    /// The name of the node below the lock's folder.
    pub(super) name: String,
    pub(super) epoch: u64,
}

/// What is known about the node of this owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OwnNode {
    /// No node was created, or it is gone.
    Nothing,
    /// A node was requested, and the answer was lost or is still on its way.
    Unsure,
    /// The owner has this node.
    Node(Node),
}

/// An owner in the line of one lock.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) id: OwnerId,
    pub(super) folder: String,
    /// What its node stands for.
    pub(super) form: Form,
    state: Mutex<State>,
    gone: Notify,
}

#[derive(Debug)]
struct State {
    known: OwnNode,
    /// The longest TTL that was requested.
    ttl: Duration,
    /// When the lease ends, or `None` if the lock was not granted.
    held_until: Option<Moment>,
    /// From when on the node has to be watched, or `None` if it is watched or the lock is not held.
    watched_from: Option<Moment>,
    /// How many requests are in progress for this owner.
    requests_in_progress: usize,
    /// When the last of them completed or was dropped.
    left_at: Moment,
    /// Whether the node is being removed, so that no request can use it any more.
    ended: bool,
    gone: bool,
}

impl Owner {
    pub(super) fn new(claim: &Claim, folder: String, form: Form) -> Self {
        Self {
            id: claim.owner,
            folder,
            form,
            state: Mutex::new(State {
                known: OwnNode::Nothing,
                ttl: Duration::ZERO,
                held_until: None,
                watched_from: None,
                requests_in_progress: 0,
                left_at: BootClock.now(),
                ended: false,
                gone: false,
            }),
            gone: Notify::new(),
        }
    }

    /// Records that a request for this owner starts. Returns `false` if it is too late, because its node is being removed.
    pub(super) fn begin_request(&self) -> bool {
        let mut state = lock(&self.state);
        if !state.ended {
            state.requests_in_progress += 1;
        }
        !state.ended
    }

    /// Records that a request completed or was dropped.
    pub(super) fn end_request(&self) {
        let mut state = lock(&self.state);
        state.requests_in_progress -= 1;
        state.left_at = BootClock.now();
    }

    pub(super) fn known(&self) -> OwnNode {
        lock(&self.state).known.clone()
    }

    pub(super) fn set_known(&self, known: OwnNode) {
        let mut state = lock(&self.state);
        if known == OwnNode::Nothing {
            state.held_until = None;
            state.watched_from = None;
            state.ttl = Duration::ZERO;
        }
        state.known = known;
    }

    /// Returns the longest requested TTL, including this one, because a lease is never shortened.
    pub(super) fn longest(&self, ttl: Duration) -> Duration {
        lock(&self.state).ttl.max(ttl)
    }

    /// Records that a request sent at `asked_at` was granted the lock or renewed its lease. Returns `false` if the lease has ended in the
    /// meantime.
    pub(super) fn hold(&self, asked_at: Moment, ttl: Duration) -> bool {
        let mut state = lock(&self.state);
        if state.ended || state.known == OwnNode::Nothing {
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

    /// Returns whether this owner was granted the lock and its lease has not ended.
    pub(super) fn is_held(&self) -> bool {
        let state = lock(&self.state);
        state.held_until.is_some() && !state.ended
    }

    /// Returns the node and the last requested TTL, if the lock is held.
    pub(super) fn held_node(&self) -> Option<(Node, Duration)> {
        let state = lock(&self.state);
        match &state.known {
            OwnNode::Node(node) if state.held_until.is_some() && !state.ended => {
                Some((node.clone(), state.ttl))
            }
            _ => None,
        }
    }

    /// Returns when to start watching a lock that is held.
    pub(super) fn watched_from(&self) -> Moment {
        let state = lock(&self.state);
        let from = state.watched_from.filter(|_| !state.ended);
        from.unwrap_or(Moment::FAR)
    }

    /// Returns whether watching is due; the caller must then watch the node from now on.
    pub(super) fn take_watch_due(&self, now: Moment) -> bool {
        let mut state = lock(&self.state);
        let is_due = !state.ended && state.watched_from.is_some_and(|from| from <= now);
        if is_due {
            state.watched_from = None;
        }
        is_due
    }

    /// Records that the node could not be watched, so that the next attempt is a little later, if the lock is still held.
    pub(super) fn watch_later(&self) {
        let mut state = lock(&self.state);
        if state.held_until.is_some() {
            state.watched_from = Some(BootClock.now() + UNWATCHED_FOR);
        }
    }

    /// Records that the owner gives up the lock. The node is removed, at the latest a while after the request that removes it was dropped.
    pub(super) fn give_up(&self) {
        let mut state = lock(&self.state);
        state.held_until = None;
        state.watched_from = None;
    }

    /// Returns when the node has to be removed unless something happens.
    pub(super) fn ends_at(&self) -> Moment {
        let state = lock(&self.state);
        match state.held_until {
            _ if state.ended => Moment::FAR,
            Some(until) => until,
            None if state.requests_in_progress > 0 => Moment::FAR,
            None => state.left_at + KEPT_FOR,
        }
    }

    /// Decides to remove the node if that is due. Returns `true` if the caller must remove the node.
    pub(super) fn begin_removal_if_due(&self, now: Moment) -> bool {
        if self.ends_at() > now {
            return false;
        }
        let mut state = lock(&self.state);
        // Another request may have renewed or reused the node, or decided to remove it, since the line above.
        let is_due = match state.held_until {
            Some(until) => until <= now,
            None => state.requests_in_progress == 0,
        };
        let ends = is_due && !state.ended;
        state.ended |= ends;
        ends
    }

    /// Records that its node is gone, as far as this session can tell.
    pub(super) fn set_gone(&self) {
        let mut state = lock(&self.state);
        state.ended = true;
        state.gone = true;
        drop(state);
        self.gone.notify_waiters();
    }

    /// Completes when a node that is being removed is gone.
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
