//! The queue of claims to release.
//!
//! The queue may lose entries, because a lease or a place in line that nobody renews ends by itself. No entry is kept for longer than it
//! can matter. During an outage every attempt may leave something behind, so the number of withdrawn attempts is limited. The number of
//! leases that were held is not limited, because there are only as many as were granted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::{OpenErrand, OpenErrands};
use crate::claim::Claim;
use crate::clock::Moment;
use crate::mutex::lock;

/// The maximum number of attempts that wait to be withdrawn. The oldest ones, which end first by themselves, make room for others.
pub(super) const MAX_ATTEMPTS: usize = 8192;

/// A claim to release.
#[derive(Debug)]
pub(super) struct Errand {
    pub(super) claim: Claim,
    /// When whatever the claim left at the store has ended by itself.
    pub(super) over_at: Moment,
    _open: OpenErrand,
}

impl Errand {
    pub(super) fn new(claim: Claim, over_at: Moment, open: &Arc<OpenErrands>) -> Self {
        Self {
            claim,
            over_at,
            _open: OpenErrand::new(open),
        }
    }
}

/// Whether a lock was held under the claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The lock was granted, and nobody needs it any more.
    Lease,
    /// The lock was requested, and the answer is not known.
    Attempt,
}

/// A queue with one reader. It can be written from anywhere, including `Drop`.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    waiting: Mutex<Waiting>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    leases: VecDeque<Errand>,
    attempts: VecDeque<Errand>,
    /// Whether the limit was reached and the queue has not been emptied since.
    is_overfull: bool,
    /// Whether no more entries will come.
    has_ended: bool,
    /// Whether there is no reader any more.
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
        if self.attempts.len() <= MAX_ATTEMPTS {
            return;
        }
        self.attempts.pop_front();
        if !self.is_overfull {
            self.is_overfull = true;
            tracing::warn!(
                limit = MAX_ATTEMPTS,
                "too many attempts to withdraw; the oldest are left to their TTL"
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
    /// Adds an errand. Returns whether there is a reader that will do it.
    pub(super) fn push(&self, errand: Errand, kind: Kind, now: Moment) -> bool {
        let mut waiting = lock(&self.waiting);
        if waiting.is_abandoned {
            return false;
        }
        waiting.push(errand, kind, now);
        drop(waiting);
        self.wake.notify_one();
        true
    }

    /// Records that no more entries will come.
    pub(super) fn end(&self) {
        lock(&self.waiting).has_ended = true;
        self.wake.notify_one();
    }
}

/// The reader. If it is dropped, the remaining entries end after their TTLs.
#[derive(Debug)]
pub(crate) struct Reader(pub(super) Arc<Backlog>);

impl Reader {
    /// Returns the next errand that still matters, or `None` if no more will come.
    ///
    /// # Cancel safety
    /// No errand is lost if the future is dropped.
    pub(super) async fn next(&self, now: impl Fn() -> Moment) -> Option<Errand> {
        loop {
            {
                let mut waiting = lock(&self.0.waiting);
                let errand = waiting.pop(now());
                if errand.is_some() || waiting.has_ended {
                    return errand;
                }
            }
            // A writer that rang since then left a permit.
            self.0.wake.notified().await;
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
