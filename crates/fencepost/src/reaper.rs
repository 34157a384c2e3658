//! The reaper: it releases what dropped futures and dropped guards left at the store.
//!
//! `Drop` cannot wait for a store. It puts the claim into a queue, which never blocks and needs no runtime, and the housekeeping task
//! processes the queue. If that task is gone because its runtime was shut down, the lease ends after its TTL. So does everything that could
//! not be released within a TTL and a store timeout.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Notify;

use crate::backend::Backend;
use crate::claim::Claim;
use crate::clock::{Clock, Moment, within};
use crate::mutex::lock;

mod backlog;
#[cfg(all(test, feature = "testing"))]
mod tests;

pub(crate) use backlog::Reader;
use backlog::{Backlog, Errand, Kind};

/// The maximum number of releases in progress.
const MAX_CONCURRENT_RELEASES: usize = 256;

/// Accepts errands (claims to release) from anywhere, including `Drop`.
#[derive(Debug)]
pub(crate) struct Reaper {
    clock: Arc<dyn Clock>,
    store_timeout: Duration,
    backlog: Mutex<Option<Arc<Backlog>>>,
    open: Arc<OpenErrands>,
}

/// The number of errands that are not done yet.
#[derive(Debug, Default)]
pub(crate) struct OpenErrands {
    count: Mutex<usize>,
    all_done: Notify,
}

impl OpenErrands {
    /// Completes when nothing is left to release.
    pub(crate) async fn done(&self) {
        loop {
            let all_done = self.all_done.notified();
            tokio::pin!(all_done);
            all_done.as_mut().enable();
            if *lock(&self.count) == 0 {
                return;
            }
            all_done.await;
        }
    }
}

/// Counts one errand until it is done, or until nobody is left to do it.
#[derive(Debug)]
struct OpenErrand(Arc<OpenErrands>);

impl OpenErrand {
    fn new(open: &Arc<OpenErrands>) -> Self {
        *lock(&open.count) += 1;
        Self(open.clone())
    }
}

impl Drop for OpenErrand {
    fn drop(&mut self) {
        let mut count = lock(&self.0.count);
        *count -= 1;
        if *count == 0 {
            self.0.all_done.notify_waiters();
        }
    }
}

impl Reaper {
    pub(crate) fn new(clock: Arc<dyn Clock>, store_timeout: Duration) -> Self {
        Self::counting(Arc::default(), clock, store_timeout)
    }

    /// Creates a reaper for another engine of the same locker. Both count the same open errands.
    pub(crate) fn beside(&self) -> Self {
        Self::counting(self.open.clone(), self.clock.clone(), self.store_timeout)
    }

    fn counting(open: Arc<OpenErrands>, clock: Arc<dyn Clock>, store_timeout: Duration) -> Self {
        Self {
            clock,
            store_timeout,
            backlog: Mutex::default(),
            open,
        }
    }

    /// Creates a new queue, and returns its reader for the new housekeeping task.
    pub(crate) fn new_queue(&self) -> Reader {
        let backlog = Arc::<Backlog>::default();
        *lock(&self.backlog) = Some(backlog.clone());
        Reader(backlog)
    }

    /// Queues the release of a lease that nobody needs any more. Never blocks. Without a reader, the lease ends after its TTL.
    pub(crate) fn give_back(&self, claim: Claim) {
        self.send(claim, Kind::Lease);
    }

    /// Queues the withdrawal of an attempt whose answer is not known: the owner may hold the lock or stand in line. Otherwise it is the
    /// same as [`give_back`](Self::give_back).
    pub(crate) fn withdraw(&self, claim: Claim) {
        self.send(claim, Kind::Attempt);
    }

    fn send(&self, claim: Claim, kind: Kind) {
        let Some(backlog) = lock(&self.backlog).clone() else {
            return;
        };
        let now = self.clock.now();
        let over_at = now + claim.ttl + self.store_timeout;
        let errand = Errand::new(claim, over_at, &self.open);
        if !backlog.push(errand, kind, now) {
            tracing::debug!("no runtime left to release in; the TTL ends it");
        }
    }

    /// Returns whether anything waits to be released.
    pub(crate) fn is_busy(&self) -> bool {
        *lock(&self.open.count) > 0
    }

    /// Returns a handle to the open errands that can outlive the locker.
    pub(crate) fn open_errands(&self) -> Arc<OpenErrands> {
        self.open.clone()
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        if let Some(backlog) = &*lock(&self.backlog) {
            backlog.end();
        }
    }
}

/// Processes the queue until its writers are gone, and then finishes what is in progress.
pub(crate) async fn reap(reader: Reader, backend: Arc<dyn Backend>, store_timeout: Duration) {
    let clock = backend.clock();
    let mut under_way = FuturesUnordered::new();
    loop {
        tokio::select! {
            errand = reader.next(|| clock.now()), if under_way.len() < MAX_CONCURRENT_RELEASES => match errand {
                Some(errand) => under_way.push(run(errand, &*backend, &*clock, store_timeout)),
                None => break,
            },
            Some(()) = under_way.next(), if !under_way.is_empty() => {}
        }
    }
    while under_way.next().await.is_some() {}
}

/// Releases one claim. Repeats the request until the store answers or the lease is over anyway.
async fn run(errand: Errand, backend: &dyn Backend, clock: &dyn Clock, store_timeout: Duration) {
    let claim = &errand.claim;
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
        if clock.now() >= errand.over_at {
            tracing::warn!(name = %claim.name, "could not release; left to its TTL");
            return;
        }
        clock.sleep_until(clock.now() + pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}
