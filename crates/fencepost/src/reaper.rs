//! The reaper: gives back what dropped futures and dropped guards left at the store.
//!
//! `Drop` cannot wait for a store. It puts the claim into a queue, which never blocks and needs no runtime, and the
//! housekeeping task works the queue off. If that task is gone (its runtime was shut down), the lease ends by its TTL.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, mpsc};

use crate::backend::Backend;
use crate::claim::Claim;
use crate::clock::{Clock, Moment};
use crate::engine::within;
use crate::lease::lock;

/// Releases under way at once.
const AT_ONCE: usize = 64;

/// Where errands are left.
#[derive(Debug, Default)]
pub(crate) struct Reaper {
    queue: Mutex<Option<mpsc::UnboundedSender<Errand>>>,
    open: Arc<Open>,
}

/// A claim to release.
#[derive(Debug)]
pub(crate) struct Errand {
    claim: Claim,
    _count: Count,
}

/// How many errands are not done yet.
#[derive(Debug, Default)]
pub(crate) struct Open {
    count: Mutex<usize>,
    none: Notify,
}

/// Counts one errand, until it is done or nobody is left to do it.
#[derive(Debug)]
struct Count(Arc<Open>);

impl Count {
    fn new(open: &Arc<Open>) -> Self {
        *lock(&open.count) += 1;
        Self(open.clone())
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        let mut count = lock(&self.0.count);
        *count -= 1;
        if *count == 0 {
            self.0.none.notify_waiters();
        }
    }
}

impl Reaper {
    /// A new queue; its reader is the new housekeeping task.
    pub(crate) fn open(&self) -> mpsc::UnboundedReceiver<Errand> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *lock(&self.queue) = Some(sender);
        receiver
    }

    /// Leaves a claim to be released. Never blocks; without a reader the lease is left to its TTL.
    pub(crate) fn send(&self, claim: Claim) {
        let errand = Errand {
            claim,
            _count: Count::new(&self.open),
        };
        let queue = lock(&self.queue).clone();
        match queue.map(|queue| queue.send(errand)) {
            Some(Ok(())) => {}
            Some(Err(unsent)) => {
                tracing::debug!(name = %unsent.0.claim.name, "no runtime left to release in; the TTL ends it");
            }
            None => {}
        }
    }

    /// Whether something waits to be released.
    pub(crate) fn is_busy(&self) -> bool {
        *lock(&self.open.count) > 0
    }

    /// What is left to release, for one who outlives the locker.
    pub(crate) fn errands(&self) -> Errands {
        Errands(self.open.clone())
    }
}

/// The errands that are not done yet.
#[derive(Debug)]
pub(crate) struct Errands(Arc<Open>);

impl Errands {
    /// Completes when nothing is left to release.
    pub(crate) async fn done(&self) {
        loop {
            let none = self.0.none.notified();
            tokio::pin!(none);
            none.as_mut().enable();
            if *lock(&self.0.count) == 0 {
                return;
            }
            none.await;
        }
    }
}

/// Works the queue off until its senders are gone, then finishes what is under way.
pub(crate) async fn reap(
    mut errands: mpsc::UnboundedReceiver<Errand>,
    backend: Arc<dyn Backend>,
    store_timeout: Duration,
) {
    let clock = backend.clock();
    let mut under_way = FuturesUnordered::new();
    loop {
        tokio::select! {
            errand = errands.recv(), if under_way.len() < AT_ONCE => match errand {
                Some(errand) => under_way.push(run(errand, &*backend, &*clock, store_timeout)),
                None => break,
            },
            Some(()) = under_way.next(), if !under_way.is_empty() => {}
        }
    }
    while under_way.next().await.is_some() {}
}

/// Releases one claim, again and again until the store answers or the lease is over anyway.
async fn run(errand: Errand, backend: &dyn Backend, clock: &dyn Clock, store_timeout: Duration) {
    let claim = &errand.claim;
    let over_at = clock.now() + claim.ttl + store_timeout;
    let mut pause = Duration::from_millis(50);
    loop {
        let until: Moment = clock.now() + store_timeout;
        match within(clock, until, backend.release(claim)).await {
            Some(Ok(_)) => return,
            Some(Err(error)) => {
                tracing::debug!(name = %claim.name, %error, "release failed, trying again")
            }
            None => tracing::debug!(name = %claim.name, "release unanswered, trying again"),
        }
        if clock.now() >= over_at {
            tracing::warn!(name = %claim.name, "could not release; left to its TTL");
            return;
        }
        clock.sleep_until(clock.now() + pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}
