//! What a store must be able to do to hold locks: one dyn-safe trait over plain data.
//!
//! A backend holds no policy. When to renew, how long to wait, what to do about a loss, who goes first inside
//! this process: all that is the [`Locker`](crate::Locker)'s. A backend carries one request to the store and the answer back.
//!
//! Whoever writes one runs the trials of `fencepost::conformance` (feature `conformance`) against it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::claim::{Claim, Grant, LockName, OwnerId};
use crate::clock::{BootClock, BoxFuture, Clock, Moment};
use crate::error::Result;
use crate::random::{Random, SystemRandom};
use crate::retry::Schedule;

mod loss_bell;
mod pattern;

pub use loss_bell::LossBell;
pub use pattern::name_matches;

/// A store of locks.
///
/// # Ownership
/// The [owner](OwnerId) in a claim decides everything. Asking again with the same owner continues the earlier attempt:
/// it keeps its place in the store's line, and if the lock was granted meanwhile (the answer was lost, the future
/// was dropped), the same lease is returned, extended, with the same epoch. One owner never gets two leases.
///
/// # Cancel safety
/// Every future may be dropped at every await. After a dropped [`try_acquire`](Self::try_acquire) or [`acquire`](Self::acquire) the lock may be held, or
/// the owner may stand in the store's line: whoever drops calls [`release`](Self::release) with the same claim, or asks again with it.
/// A later request of one owner takes effect after its earlier ones, also when their futures were dropped.
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// A short name for errors, spans and metrics, such as `"sqlite"`.
    fn store(&self) -> &'static str;

    /// What this store promises beyond exclusion; picks the conformance trials.
    fn capabilities(&self) -> Capabilities;

    /// The clock on which [`Grant::asked_at`] and every deadline is measured.
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(BootClock)
    }

    /// One attempt. `None`: somebody else holds the lock or stands in line for it.
    ///
    /// Leaves nothing behind when it returns `None`, and does not overtake those who wait at the store.
    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>>;

    /// Waits until the lock is granted.
    ///
    /// Tells `wait` as soon as the store has answered that somebody else is before us. Keeps its place across passing faults of
    /// the store; returns an error when waiting further makes no sense, and then leaves nothing behind unless the
    /// error's [effect](crate::Effect) is `Maybe`. Does not watch a deadline: the caller drops the future.
    ///
    /// The default polls [`try_acquire`](Self::try_acquire) with random pauses of up to 50 ms. A store that can wake its clients does better.
    fn acquire<'a>(&'a self, claim: &'a Claim, wait: &'a Wait) -> BoxFuture<'a, Result<Grant>> {
        Box::pin(async move {
            let clock = self.clock();
            let schedule =
                Schedule::full_jitter(Duration::from_millis(5), Duration::from_millis(50));
            let random: &dyn Random = &SystemRandom;
            let mut retry = 0;
            loop {
                if let Some(grant) = self.try_acquire(claim).await? {
                    return Ok(grant);
                }
                wait.heard();
                clock
                    .sleep_until(clock.now() + schedule.delay(retry, random))
                    .await;
                retry = retry.saturating_add(1);
            }
        })
    }

    /// Makes each lease last at least its claim's TTL from now on; never shortens one, never revives one that
    /// ended. The answers are in the order of the claims.
    ///
    /// A locker calls this many times at once, each time with at most [`renewed_at_once`](Self::renewed_at_once) claims
    /// and never with one owner twice. An answer counts from the moment of its own call.
    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>>;

    /// How many claims one call of [`renew`](Self::renew) should carry: as many as one request to the store does. Claims
    /// in one call wait for each other's answers, so where each has a request or a connection of its own, this is 1.
    fn renewed_at_once(&self) -> usize {
        64
    }

    /// Ends the lease of this owner, and takes it out of the store's line. Touches nothing that belongs to others,
    /// however often and however late it is called.
    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Release>>;

    /// Looks at a lock without touching it. `None`: free, and nobody waits.
    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Record>>>;

    /// The locks that are held or wanted now, each name once, in no particular order. Touches nothing.
    ///
    /// `pattern` is a glob over the bytes of a name, as Redis' `MATCH`: `*` for anything, `?` for one byte, `[a-z]` and
    /// `[^a-z]` for one byte of a set, `\\` before a character that stands for itself. Without a pattern, a store lists the locks
    /// of this library, all of them; with one it may also list what other programs hold in the manner of a lock, whose
    /// [`Holder::owner`] is `None`. The names are those [`inspect`](Self::inspect) knows, except that another program's
    /// name need not be a valid [`LockName`]. A store that has no such patterns of its own can ask [`name_matches`].
    ///
    /// A lock that is held or wanted during the whole call is listed. One that comes or goes meanwhile may be or not, and
    /// records of different locks need not be of the same moment.
    fn list<'a>(&'a self, pattern: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Listed>>>;

    /// The bell that this backend rings when it learns that leases may have ended early, so that holders are told
    /// before the next renewal would be due. Always the same bell, or always `None`, which is the default: this backend
    /// learns of a loss only by asking.
    fn loss_bell(&self) -> Option<&LossBell> {
        None
    }
}

/// What a store promises beyond mutual exclusion, fences and recovery by TTL, which every backend has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Capabilities {
    /// Waiters at the store are served in the order of their arrival.
    pub fifo: bool,
    /// Clients in other processes share the locks.
    pub across_processes: bool,
    /// Leases end by themselves after their TTL (and not, say, with a connection).
    pub leases: bool,
}

impl Capabilities {
    /// None of them.
    pub const fn new() -> Self {
        Self {
            fifo: false,
            across_processes: false,
            leases: false,
        }
    }

    /// The same, and whether [`fifo`](Self::fifo) is promised.
    #[must_use]
    pub const fn fifo(self, fifo: bool) -> Self {
        Self { fifo, ..self }
    }

    /// The same, and whether [`across_processes`](Self::across_processes) is promised.
    #[must_use]
    pub const fn across_processes(self, across_processes: bool) -> Self {
        Self {
            across_processes,
            ..self
        }
    }

    /// The same, and whether [`leases`](Self::leases) is promised.
    #[must_use]
    pub const fn leases(self, leases: bool) -> Self {
        Self { leases, ..self }
    }
}

/// How a waiting backend reports to the one who waits.
#[derive(Debug, Default)]
pub struct Wait {
    heard: AtomicBool,
    /// An earlier request of the same owner may have taken effect.
    left_something: AtomicBool,
}

impl Wait {
    /// Notes that the store has answered, and that somebody else is before us. Tells a timeout because of other
    /// holders from a timeout because of a dead store.
    pub fn heard(&self) {
        self.heard.store(true, Ordering::Relaxed);
    }

    /// Whether the store has answered.
    pub fn was_heard(&self) -> bool {
        self.heard.load(Ordering::Relaxed)
    }

    /// Notes that a request of this owner may have taken effect, and that its answer is not used.
    pub(crate) fn leave_something(&self) {
        self.left_something.store(true, Ordering::Relaxed);
    }

    pub(crate) fn left_something(&self) -> bool {
        self.left_something.load(Ordering::Relaxed)
    }
}

/// The answer to a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// The lease lasts at least the claim's TTL from the moment the request was sent.
    Extended,
    /// This owner holds the lock no longer; somebody else may.
    Lost,
}

/// The answer to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The lease was this owner's, and has ended now.
    Freed,
    /// This owner held no lease. It may have stood in line; it does no longer.
    NotHeld,
}

/// What a store knows about a lock that is held or wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Who holds it; `None` while it is between two holders.
    pub holder: Option<Holder>,
    /// Those who wait at the store, the next one first.
    pub waiting: Vec<Waiter>,
}

impl Record {
    /// A lock with this holder, if any, and these waiters, the next one first.
    pub fn new(holder: Option<Holder>, waiting: Vec<Waiter>) -> Self {
        Self { holder, waiting }
    }
}

/// A lock found by [`Backend::list`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// Its name. A [`LockName`] unless another program made it up.
    pub name: String,
    /// What the store knows about it.
    pub record: Record,
}

impl Listed {
    /// A lock of this name.
    pub fn new(name: impl Into<String>, record: Record) -> Self {
        Self {
            name: name.into(),
            record,
        }
    }
}

/// Who waits for a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// Host and process, for people.
    pub label: Arc<str>,
    /// How long it has stood in the store's line; zero where the store does not know.
    pub waited: Duration,
}

impl Waiter {
    /// Somebody who has waited for this long.
    pub fn new(label: impl Into<Arc<str>>, waited: Duration) -> Self {
        Self {
            label: label.into(),
            waited,
        }
    }
}

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The owner of the lease. `None`: a client that is not of this library holds the lock, so nobody can release it
    /// through [`Backend::release`].
    pub owner: Option<OwnerId>,
    /// Host and process, for people; empty when the store does not know.
    pub label: Arc<str>,
    /// The epoch of the lease's fence; `None` for a client that has no fence.
    pub epoch: Option<u64>,
    /// When the lease was granted, on the backend's clock; not moved by renewals. `None`: the store does not know.
    pub since: Option<Moment>,
    /// How long the lease lasts without renewal, counted from now. `None`: it does not end by itself.
    pub ttl_left: Option<Duration>,
    /// How long the lease lasted when it was last granted or renewed. `None`: the store does not know.
    pub ttl: Option<Duration>,
}

impl Holder {
    /// A holder of whom the store knows nothing but the label. Set the other fields as far as they are known.
    pub fn new(label: impl Into<Arc<str>>) -> Self {
        Self {
            owner: None,
            label: label.into(),
            epoch: None,
            since: None,
            ttl_left: None,
            ttl: None,
        }
    }
}
