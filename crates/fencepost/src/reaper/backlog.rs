//! What waits to be released.
//!
//! The queue may always lose entries: a lease or a place in line that nobody renews ends by itself. So nothing is kept for
//! longer than it can matter, and during an outage, when every attempt may leave something behind, the number of withdrawn
//! attempts is bounded. Leases that were held are not, since there are only as many as were granted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::{Count, Open};
use crate::claim::Claim;
use crate::clock::Moment;
use crate::lease::lock;

/// Attempts that wait to be withdrawn; the oldest, which end first by themselves, make room for others.
pub(super) const MOST_ATTEMPTS: usize = 8192;

/// A claim to release.
#[derive(Debug)]
pub(super) struct Errand {
    pub(super) claim: Claim,
    /// At this moment at the latest, what the claim left at the store has ended by itself.
    pub(super) over_at: Moment,
    _count: Count,
}

impl Errand {
    pub(super) fn new(claim: Claim, over_at: Moment, open: &Arc<Open>) -> Self {
        Self {
            claim,
            over_at,
            _count: Count::new(open),
        }
    }
}

/// Whether a lock was held under the claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It was granted, and nobody needs it any more.
    Lease,
    /// It was asked for, and the answer is not known.
    Attempt,
}

/// A queue with one reader. Its writers may be anywhere, also in `Drop`.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    waiting: Mutex<Waiting>,
    bell: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    leases: VecDeque<Errand>,
    attempts: VecDeque<Errand>,
    /// The bound was reached, and not everything has been worked off since.
    is_overfull: bool,
    /// Nothing comes any more.
    has_ended: bool,
    /// Nobody reads any more.
    is_abandoned: bool,
}

impl Waiting {
    fn push(&mut self, errand: Errand, kind: Kind, now: Moment) {
        let queue = match kind {
            Kind::Lease => &mut self.leases,
            Kind::Attempt => &mut self.attempts,
        };
        while queue.front().is_some_and(|first| first.over_at <= now) {
            queue.pop_front();
        }
        queue.push_back(errand);
        if self.attempts.len() <= MOST_ATTEMPTS {
            return;
        }
        self.attempts.pop_front();
        if !self.is_overfull {
            self.is_overfull = true;
            tracing::warn!(
                "{MOST_ATTEMPTS} attempts wait to be withdrawn; the oldest are left to their TTL"
            );
        }
    }

    fn pop(&mut self, now: Moment) -> Option<Errand> {
        for queue in [&mut self.leases, &mut self.attempts] {
            while let Some(errand) = queue.pop_front() {
                if now < errand.over_at {
                    return Some(errand);
                }
            }
        }
        self.is_overfull = false;
        None
    }
}

impl Backlog {
    /// Leaves an errand. Returns whether somebody is there to do it.
    pub(super) fn push(&self, errand: Errand, kind: Kind, now: Moment) -> bool {
        let mut waiting = lock(&self.waiting);
        if waiting.is_abandoned {
            return false;
        }
        waiting.push(errand, kind, now);
        drop(waiting);
        self.bell.notify_one();
        true
    }

    /// Nothing more comes.
    pub(super) fn end(&self) {
        lock(&self.waiting).has_ended = true;
        self.bell.notify_one();
    }
}

/// The reader. When it is dropped, what waits is left to its TTL.
#[derive(Debug)]
pub(crate) struct Reader(pub(super) Arc<Backlog>);

impl Reader {
    /// The next errand that still matters; `None` when nothing more comes.
    ///
    /// # Cancel safety
    /// No errand is lost when this is dropped.
    pub(super) async fn next(&self, now: impl Fn() -> Moment) -> Option<Errand> {
        loop {
            {
                let mut waiting = lock(&self.0.waiting);
                let errand = waiting.pop(now());
                if errand.is_some() || waiting.has_ended {
                    return errand;
                }
            }
            // Whoever rang since then left a permit.
            self.0.bell.notified().await;
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut waiting = lock(&self.0.waiting);
        waiting.is_abandoned = true;
        let left = (
            std::mem::take(&mut waiting.leases),
            std::mem::take(&mut waiting.attempts),
        );
        drop(waiting);
        drop(left);
    }
}
