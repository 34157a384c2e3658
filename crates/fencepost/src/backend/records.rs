//! [`Records`]: small values in a store that are replaced by compare-and-set. What the lock itself cannot hold is kept in them: the permits
//! of a semaphore, the slots of a job, the value of a leader.
//!
//! A store implements three requests, and every rule about permits, slots and terms is written once, on top of them
//! (`docs/decisions/0019-kinds-of-lock-are-records.md`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::claim::LockName;
use crate::clock::{BoxFuture, Moment};
use crate::error::Result;

/// Which kind of lock a record belongs to. Records of different kinds with the same name are different records.
///
/// The variants are complete on purpose: a new one would be a breaking change for stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKind {
    /// The capacity of a semaphore or of a read-write lock, its holders and its line.
    Shares,
    /// The runs of a scheduled job.
    Runs,
    /// The value that a leader proclaims.
    Leader,
}

impl RecordKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Shares, Self::Runs, Self::Leader];

    /// Returns the word for this kind in keys and tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shares => "shares",
            Self::Runs => "runs",
            Self::Leader => "leader",
        }
    }
}

/// Where a record is: its kind and the name of the lock.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey {
    /// The kind of lock.
    pub kind: RecordKind,
    /// The name of the lock.
    pub name: LockName,
}

/// A record as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The content, or `None` if there is no record.
    pub value: Option<Arc<[u8]>>,
    /// Which version of the record this is. Zero if there is none.
    pub version: u128,
    /// The time of the store when it answered, or `None` if the store has no clock that its clients can ask.
    pub time: Option<StoreTime>,
    /// The lowest epoch that a grant based on this snapshot may have. A store that could lose its records lifts it to its own time, so that
    /// epochs keep growing after a loss. Zero if records cannot be lost without the whole store.
    ///
    /// A replacement grants at most one epoch: the store may count replacements to know how far the epochs have come.
    pub epoch_floor: u64,
    /// A moment, on the backend's clock, *before* the request was sent.
    pub asked_at: Moment,
}

impl Snapshot {
    /// Creates a snapshot of an absent record, requested at `asked_at`, in a store without a clock.
    pub fn absent(asked_at: Moment) -> Self {
        Self {
            value: None,
            version: 0,
            time: None,
            epoch_floor: 0,
            asked_at,
        }
    }

    /// Sets the content and its version.
    #[must_use]
    pub fn with_value(self, value: impl Into<Arc<[u8]>>, version: u128) -> Self {
        Self {
            value: Some(value.into()),
            version,
            ..self
        }
    }

    /// Sets the time of the store.
    #[must_use]
    pub fn with_time(self, time: StoreTime) -> Self {
        Self {
            time: Some(time),
            ..self
        }
    }

    /// Sets the lowest epoch that a grant may have.
    #[must_use]
    pub fn with_epoch_floor(self, epoch_floor: u64) -> Self {
        Self {
            epoch_floor,
            ..self
        }
    }
}

/// A time on the clock of a store. All clients see the same clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreTime {
    /// The time since the zero of the clock.
    pub now: Duration,
    /// Which clock it is. After a change, for instance a reboot, earlier times mean nothing, and leases that were counted in them have ended.
    pub era: Arc<str>,
}

/// The result of [`Records::replace`].
///
/// The variants are complete on purpose: a new one would be a breaking change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// The record has the new content now.
    Yes,
    /// The record was no longer the one in the snapshot, or this is unknown. It was not changed.
    Outdated,
}

impl Replaced {
    /// Returns whether this is [`Yes`](Self::Yes).
    pub(crate) fn is_done(self) -> bool {
        self == Self::Yes
    }
}

/// Small values in a store, each replaced as a whole and only if nobody else has replaced it in the meantime.
///
/// # Cancel safety
/// Every future may be dropped at every await. A replacement that was dropped or has failed with
/// [`Effect::Maybe`](crate::Effect::Maybe) may take effect later, as long as nobody else replaces the record. A caller that needs certainty
/// reads the record and replaces it again, even if only by the same content: whichever came second fails.
pub trait Records: fmt::Debug + Send + Sync {
    /// Reads a record. Two reads in a row never go back to an older version, unless the store has lost data.
    fn read<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Result<Snapshot>>;

    /// Replaces the record if it still is the one in `seen`, and creates it if `seen` is absent and still nobody has. A version never
    /// returns, even if the contents are equal or the record was removed in between.
    ///
    /// Also returns [`Replaced::Outdated`] if `seen` was read before the store learned that it may have lost its data, for instance over an
    /// earlier connection: the epoch that the caller chose may have been granted in the meantime, and forgotten. Read again, then.
    ///
    /// A store that forgets records may forget this one `keep_for` after its last replacement. Most stores keep it for ever.
    fn replace<'a>(
        &'a self,
        key: &'a RecordKey,
        seen: &'a Snapshot,
        value: &'a [u8],
        keep_for: Duration,
    ) -> BoxFuture<'a, Result<Replaced>>;

    /// Completes when the record may have changed since `seen`. This is a hint: it may complete without a change, and the caller must not
    /// depend on it alone, because a notification can be lost. Never fails: a store that cannot notify completes after a short time.
    fn changed<'a>(&'a self, key: &'a RecordKey, seen: &'a Snapshot) -> BoxFuture<'a, ()>;

    /// Returns whether the store may forget runs of jobs that it has acknowledged and go on, for instance after a crash or a failover. A job
    /// tells its user, because a slot may be run twice then. The default is `false`.
    fn may_forget_runs(&self) -> bool {
        false
    }

    /// Returns the names of the records of this kind.
    fn names<'a>(&'a self, kind: RecordKind) -> BoxFuture<'a, Result<Vec<LockName>>>;
}
