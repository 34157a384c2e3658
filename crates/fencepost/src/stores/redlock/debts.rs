//! Releases that a server has not confirmed yet, and the task that sends them again.
//!
//! A key that nobody gives back ends by its TTL. But a server that was away for a moment comes back with it, and until then a
//! majority is harder to get.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::node::Node;
use crate::claim::{Claim, OwnerId};
use crate::clock::{BootClock, Clock, Moment, within};
use crate::lease::lock;

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long one attempt may take.
const ANSWER: Duration = Duration::from_secs(1);
/// What is more is left to its TTL.
const MOST: usize = 10_000;

#[derive(Default)]
pub(super) struct Debts(Mutex<Book>);

#[derive(Default)]
struct Book {
    owed: HashMap<OwnerId, Debt>,
    /// A task sees to it.
    is_collected: bool,
}

#[derive(Clone)]
struct Debt {
    name: Arc<str>,
    /// Only what was taken by then: the owner may have taken the lock anew since.
    up_to: u64,
    /// The TTL has ended it.
    over_at: Moment,
}

impl Debts {
    /// A release of `claim` is about to be sent, which concerns attempts up to this stamp.
    pub(super) fn owe(&self, claim: &Claim, up_to: u64) {
        let debt = Debt {
            name: claim.name.as_str().into(),
            up_to,
            over_at: BootClock.now() + claim.ttl,
        };
        let mut book = lock(&self.0);
        if book.owed.len() < MOST || book.owed.contains_key(&claim.owner) {
            book.owed.insert(claim.owner, debt);
        }
    }

    /// It was answered. A later one may not have been.
    pub(super) fn paid(&self, owner: OwnerId, up_to: u64) {
        let mut book = lock(&self.0);
        let is_this = |debt: &Debt| debt.up_to <= up_to;
        if book.owed.get(&owner).is_some_and(is_this) {
            book.owed.remove(&owner);
        }
    }

    /// Up to which stamp keys of this owner count as released, although they may still be there.
    pub(super) fn owed_by(&self, owner: OwnerId) -> Option<u64> {
        lock(&self.0).owed.get(&owner).map(|debt| debt.up_to)
    }

    /// One who can still be paid; none: whoever collects is done.
    fn next(&self, now: Moment) -> Option<(OwnerId, Debt)> {
        let mut book = lock(&self.0);
        book.owed.retain(|_, debt| now < debt.over_at);
        let next = book.owed.iter().next();
        let next = next.map(|(owner, debt)| (*owner, debt.clone()));
        // Under the same lock, so that a debt made just now finds nobody who has already gone.
        book.is_collected = next.is_some();
        next
    }
}

/// Makes sure that somebody collects what is owed to this server.
pub(super) fn collect(node: &Arc<Node>) {
    let mut book = lock(&node.debts.0);
    if book.owed.is_empty() || book.is_collected {
        return;
    }
    book.is_collected = true;
    tokio::spawn(collecting(Collector(Arc::downgrade(node))));
}

/// Clears the mark when the task ends, also with its runtime.
struct Collector(Weak<Node>);

impl Drop for Collector {
    fn drop(&mut self) {
        if let Some(node) = self.0.upgrade() {
            lock(&node.debts.0).is_collected = false;
        }
    }
}

async fn collecting(collector: Collector) {
    let mut pause = PAUSE;
    loop {
        BootClock.sleep_until(BootClock.now() + pause).await;
        let Some(node) = collector.0.upgrade() else {
            return;
        };
        let now = BootClock.now();
        let Some((owner, debt)) = node.debts.next(now) else {
            return;
        };
        let release = node.clone().release(debt.name, owner, debt.up_to, None);
        pause = match within(&BootClock, now + ANSWER, release).await {
            Some(Ok(_)) => {
                node.debts.paid(owner, debt.up_to);
                // The server is back: the others at once.
                Duration::ZERO
            }
            _ => (pause * 2).clamp(PAUSE, LONGEST_PAUSE),
        };
    }
}
