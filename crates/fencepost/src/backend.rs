//! [`Backend`]: the dyn-safe trait between the locker and a store, with the plain data that it exchanges.
//!
//! A backend does not decide when to renew, how long a caller waits, what to do about a loss, or who goes first inside this process; the
//! [`Locker`](crate::Locker) does. Most methods send one request to the store and return the answer. [`Backend::acquire`] is more than a
//! request: it keeps its place in the store's line and sits out short outages until it is granted or dropped.
//!
//! If you write a backend, run the suite of `fencepost::conformance` (feature `conformance`) against it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::claim::{Claim, Grant, LockName, OwnerId, Part};
use crate::clock::{BootClock, BoxFuture, Clock, Moment};
use crate::error::Result;

pub mod leaders;
mod loss_bell;
mod pattern;
mod polling;
pub mod records;

use leaders::Leaders;
pub use loss_bell::LossBell;
pub(crate) use loss_bell::LossListener;
pub use pattern::name_matches;
use polling::poll_until_granted;
use records::Records;

/// A store of locks.
///
/// # Ownership
/// The [owner](OwnerId) in a claim decides everything. A request with the same owner continues that owner's earlier attempt: it keeps its
/// place in the store's line. If the lock was granted in the meantime (the answer was lost, or the future was dropped), the store extends
/// the same lease and returns it with the same epoch. One owner never gets two leases.
///
/// # Cancel safety
/// Every future may be dropped at every await. After [`try_acquire`](Self::try_acquire) or [`acquire`](Self::acquire) was dropped, the
/// owner may hold the lock or stand in the store's line. The caller that dropped it must call [`release`](Self::release) with the same
/// claim, or ask again with it. A later request of an owner takes effect after its earlier ones, even if their futures were dropped.
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// Returns a short name for errors, spans and metrics, such as `"sqlite"`.
    fn store_name(&self) -> &'static str;

    /// Returns what this store promises beyond exclusion. The conformance suite selects its requirements by it.
    fn capabilities(&self) -> Capabilities;

    /// Returns the clock that measures [`Grant::asked_at`] and every deadline.
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(BootClock)
    }

    /// Tries once to acquire the lock. Returns `None` if somebody else holds the lock or stands in line for it.
    ///
    /// Does not overtake clients that wait at the store. Leaves nothing behind when it returns `None`; but an owner that already stood in
    /// line may keep its place there until it is released.
    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>>;

    /// Waits until the lock is granted.
    ///
    /// Calls [`Wait::report_busy`] as soon as the store has answered that somebody else is ahead. Keeps its place while the store fails
    /// temporarily. Returns an error if it makes no sense to wait longer, and then leaves nothing behind unless the [effect](crate::Effect)
    /// of the error is `Maybe`. Has no deadline: the caller drops the future.
    ///
    /// The default implementation polls [`try_acquire`](Self::try_acquire) with random pauses of up to 50 ms. Once it waits, it tolerates a
    /// store that is unavailable or does not answer in time for up to 30 s, with pauses that grow to a second. Override it if the store can
    /// wake its clients.
    fn acquire<'a>(&'a self, claim: &'a Claim, wait: &'a Wait) -> BoxFuture<'a, Result<Grant>> {
        Box::pin(poll_until_granted(self, claim, wait))
    }

    /// Extends each lease so that it lasts at least the TTL of its claim from now on. Never shortens a lease, and never revives one that
    /// has ended. Returns the answers in the order of the claims.
    ///
    /// A locker makes many of these calls at the same time, each with at most [`renew_batch_size`](Self::renew_batch_size) claims. No call
    /// contains an owner twice; two calls for the same owner may run at the same time ([`Guard::extend`](crate::Guard::extend)). An
    /// extension counts from the moment of its own call.
    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>>;

    /// Returns how many claims one call of [`renew`](Self::renew) should carry: as many as fit in one request to the store. The claims of
    /// one call wait for each other's answers, so return 1 if each claim needs its own request or connection.
    fn renew_batch_size(&self) -> usize {
        64
    }

    /// Ends the lease of this owner, and removes the owner from the store's line. Never touches what belongs to others, however often and
    /// however late it is called.
    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Release>>;

    /// Returns what the store knows about a lock, without changing it. Returns `None` if the lock is free and nobody waits for it.
    ///
    /// For a lock of this library, a store gives the owner, the label and the epoch if it knows them. The documentation of the store says when
    /// it does not.
    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Record>>>;

    /// Returns the locks that are held or wanted now, each name once, in no particular order. Changes nothing.
    ///
    /// `pattern` is a glob over the bytes of a name, as in Redis' `MATCH`: `*` stands for any bytes, `?` for one byte, `[a-z]` and `[^a-z]`
    /// for one byte of a set, and `\` takes the next byte literally. Without a pattern, a store lists all locks of this library. With
    /// a pattern, it may also list locks of other programs, whose [`Holder::owner`] is `None`. [`inspect`](Self::inspect) accepts the
    /// listed names, except that the name of another program need not be a valid [`LockName`]. A store without such patterns of its own can
    /// call [`name_matches`].
    ///
    /// A lock that is held or wanted during the whole call is listed. A lock that comes or goes during the call may or may not be listed,
    /// and the records of different locks need not be of the same moment.
    fn list<'a>(&'a self, pattern: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Listed>>>;

    /// Returns the bell that this backend rings when it learns that leases may have ended early, so that holders are told before the next
    /// renewal. Always returns the same bell, or always `None`. The default is `None`: the backend learns of a loss only from the answer to
    /// a request.
    fn loss_bell(&self) -> Option<&LossBell> {
        None
    }

    /// Returns the records of this store, or `None` if it keeps none. Semaphores, read-write locks, slots of scheduled jobs and, on most
    /// stores, the values of leaders need them. The default is `None`. [`Capabilities::records`] says the same before the store is opened.
    fn records(&self) -> Option<&dyn Records> {
        None
    }

    /// Returns the leaders of elections in this store, if it keeps their values in the same place as their locks, so that other programs
    /// find them there. The default is `None`: the values are [records](Self::records).
    fn leaders(&self) -> Option<&dyn Leaders> {
        None
    }
}

/// What a store promises beyond mutual exclusion, fences and recovery after a TTL, which every backend must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Capabilities {
    /// The store serves waiters in the order of their arrival.
    pub fifo: bool,
    /// Clients in different processes share the locks.
    pub across_processes: bool,
    /// A lease that is not renewed ends by itself after its TTL at the latest, even if its process is stopped, cut off or gone. It may end
    /// earlier, for example with a connection.
    pub leases: bool,
    /// The store keeps records beside its locks: [`Backend::records`] is not `None`.
    pub records: bool,
    /// A lease lasts to its end, even if the process that holds it ends before.
    pub lasting: bool,
}

impl Capabilities {
    /// Creates a value that promises nothing.
    pub const fn new() -> Self {
        Self {
            fifo: false,
            across_processes: false,
            leases: false,
            records: false,
            lasting: false,
        }
    }

    /// Sets whether [`fifo`](Self::fifo) is promised.
    #[must_use]
    pub const fn fifo(self, fifo: bool) -> Self {
        Self { fifo, ..self }
    }

    /// Sets whether [`across_processes`](Self::across_processes) is promised.
    #[must_use]
    pub const fn across_processes(self, across_processes: bool) -> Self {
        Self {
            across_processes,
            ..self
        }
    }

    /// Sets whether [`leases`](Self::leases) is promised.
    #[must_use]
    pub const fn leases(self, leases: bool) -> Self {
        Self { leases, ..self }
    }

    /// Sets whether [`records`](Self::records) is promised.
    #[must_use]
    pub const fn records(self, records: bool) -> Self {
        Self { records, ..self }
    }

    /// Sets whether [`lasting`](Self::lasting) is promised.
    #[must_use]
    pub const fn lasting(self, lasting: bool) -> Self {
        Self { lasting, ..self }
    }
}

/// How [`Backend::acquire`] reports its progress to the caller.
#[derive(Debug, Default)]
pub struct Wait {
    busy: AtomicBool,
    /// An earlier request of the same owner may have taken effect.
    may_have_effect: AtomicBool,
}

impl Wait {
    /// Records that the store has answered, and that somebody else is ahead. This distinguishes a timeout because of other holders from a
    /// timeout because of a dead store.
    pub fn report_busy(&self) {
        self.busy.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`report_busy`](Self::report_busy) was called: the store has answered, and somebody else is ahead.
    pub fn was_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// Records that a request of this owner may have taken effect although its answer was not used.
    pub(crate) fn report_possible_effect(&self) {
        self.may_have_effect.store(true, Ordering::Relaxed);
    }

    pub(crate) fn may_have_effect(&self) -> bool {
        self.may_have_effect.load(Ordering::Relaxed)
    }
}

/// The answer to a renewal.
///
/// The variants are complete on purpose: a new one would be a breaking change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// The lease lasts at least the claim's TTL from the moment the request was sent.
    Extended,
    /// This owner no longer holds the lock; somebody else may.
    Lost,
}

/// The answer to a release.
///
/// The variants are complete on purpose: a new one would be a breaking change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// This owner held the lease, and the lease has ended now.
    Freed,
    /// This owner held no lease. If it stood in line, it has left the line.
    NotHeld,
}

/// What a store knows about a lock that is held or wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The holder, or `None` while the lock is between two holders. The first holder of a semaphore or read-write lock that has several.
    pub holder: Option<Holder>,
    /// The other holders of a semaphore or read-write lock, in the order in which they were granted their shares. Empty for a lock.
    pub further_holders: Vec<Holder>,
    /// The clients that wait at the store, the next one first.
    pub waiting: Vec<Waiter>,
}

impl Record {
    /// Creates the record of a lock with this holder, if any, and these waiters, the next one first.
    pub fn new(holder: Option<Holder>, waiting: Vec<Waiter>) -> Self {
        Self {
            holder,
            further_holders: Vec::new(),
            waiting,
        }
    }

    /// Returns all holders.
    pub fn holders(&self) -> impl Iterator<Item = &Holder> {
        self.holder.iter().chain(&self.further_holders)
    }
}

/// A lock found by [`Backend::list`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The name of the lock. It is a valid [`LockName`] unless another program chose it.
    pub name: String,
    /// What the store knows about the lock.
    pub record: Record,
}

impl Listed {
    /// Creates an entry for the lock of this name.
    pub fn new(name: impl Into<String>, record: Record) -> Self {
        Self {
            name: name.into(),
            record,
        }
    }
}

/// A client that waits for a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// The label of the client, for people: host and process.
    pub label: Arc<str>,
    /// How long the client has stood in the store's line; zero if the store does not know.
    pub waited: Duration,
    /// How much of the name the client waits for.
    pub part: Part,
}

impl Waiter {
    /// Creates a waiter that has waited for this long.
    pub fn new(label: impl Into<Arc<str>>, waited: Duration) -> Self {
        Self {
            label: label.into(),
            waited,
            part: Part::Whole,
        }
    }
}

/// The client that holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The owner of the lease. `None` if another program holds the lock, or if the store does not know the owner; [`Backend::release`] cannot
    /// release it then.
    pub owner: Option<OwnerId>,
    /// The label of the client, for people: host and process. Empty if the store does not know it.
    pub label: Arc<str>,
    /// The epoch of the lease's fence, or `None` if the client has no fence or the store does not know it.
    pub epoch: Option<u64>,
    /// When the lease was granted, on the backend's clock. Renewals do not change it. `None` if the store does not know.
    pub since: Option<Moment>,
    /// How long the lease lasts from now on without renewal. `None` if it does not end by itself.
    pub ttl_left: Option<Duration>,
    /// How long the lease was when it was last granted or renewed. `None` if the store does not know.
    pub ttl: Option<Duration>,
    /// How much of the name the client holds.
    pub part: Part,
    /// The numbers of the permits that the client holds, the lowest first. Empty unless it is a semaphore.
    pub slots: Vec<u32>,
}

impl Holder {
    /// Creates a holder of which the store knows only the label. Set the other fields if they are known.
    pub fn new(label: impl Into<Arc<str>>) -> Self {
        Self {
            owner: None,
            label: label.into(),
            epoch: None,
            since: None,
            ttl_left: None,
            ttl: None,
            part: Part::Whole,
            slots: Vec::new(),
        }
    }
}
