//! [`Leaders`]: who leads, and with what value, in a store that keeps the value in the same place as the lock.
//!
//! Most stores do not implement it. On these, `recorded.rs` keeps the value in a [record](super::records), beside the lock.

use std::fmt;
use std::sync::Arc;

use super::Backend;
use crate::claim::{Claim, LockName};
use crate::clock::{BoxFuture, Moment};
use crate::error::Result;

mod recorded;

use recorded::RecordedLeaders;

/// A leader, as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaderEntry {
    /// The epoch of the leader's lease, which is its term.
    pub epoch: u64,
    /// What the leader has proclaimed.
    pub value: Arc<str>,
    /// The label of the leader, for people: host and process. Empty if the store does not know it.
    pub label: Arc<str>,
    /// Since when it leads, on the backend's clock. `None` if the store does not know.
    pub since: Option<Moment>,
}

impl LeaderEntry {
    /// Creates an entry without a label.
    pub fn new(epoch: u64, value: impl Into<Arc<str>>) -> Self {
        Self {
            epoch,
            value: value.into(),
            label: "".into(),
            since: None,
        }
    }
}

/// An election at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Standing {
    /// The leader, or `None` if nobody leads.
    pub leader: Option<LeaderEntry>,
    /// A number from which the store can tell, in [`Leaders::changed`], whether this standing is the current one.
    pub version: u128,
    /// When the standing may change without a notification, for instance because the leader's lease ends. `None` if it cannot.
    pub look_again_at: Option<Moment>,
}

impl Standing {
    /// Creates a standing that changes only with a notification.
    pub fn new(leader: Option<LeaderEntry>, version: u128) -> Self {
        Self {
            leader,
            version,
            look_again_at: None,
        }
    }
}

/// The result of [`Leaders::proclaim`].
///
/// The variants are complete on purpose: a new one would be a breaking change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proclamation {
    /// The value is the leader's value now.
    Made,
    /// This owner does not lead any more. Nothing was changed.
    NotLeading,
}

/// The leaders of a store that keeps their values in the same place as their locks. The value of a new leader is that of its
/// [claim](Claim::value).
///
/// # Cancel safety
/// Every future may be dropped at every await. A value whose proclamation was dropped may take effect later, but never after a later
/// proclamation of the same owner.
pub trait Leaders: fmt::Debug + Send + Sync {
    /// Replaces the value of the leader that holds the lock with this claim and this epoch. A store whose leaders keep the value of their
    /// claim returns [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported).
    fn proclaim<'a>(
        &'a self,
        claim: &'a Claim,
        epoch: u64,
        value: &'a str,
    ) -> BoxFuture<'a, Result<Proclamation>>;

    /// Returns who leads.
    fn leader<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Standing>>;

    /// Completes when the standing may have changed since `seen`. This is a hint: it may complete without a change, and a notification can be
    /// lost. Never fails: a store that cannot notify completes after a short time.
    fn changed<'a>(&'a self, name: &'a LockName, seen: &'a Standing) -> BoxFuture<'a, ()>;
}

/// The leaders of any store that keeps their values, in one way or the other.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AnyLeaders<'a> {
    /// The store keeps the value in the same place as the lock.
    Native(&'a dyn Leaders),
    Recorded(RecordedLeaders<'a>),
}

impl<'a> AnyLeaders<'a> {
    /// Returns `None` if the store keeps no values.
    pub(crate) fn of(backend: &'a dyn Backend) -> Option<Self> {
        match (backend.leaders(), backend.records()) {
            (Some(leaders), _) => Some(Self::Native(leaders)),
            (None, Some(records)) => Some(Self::Recorded(RecordedLeaders::new(backend, records))),
            (None, None) => None,
        }
    }

    /// Publishes the value of a leader whose lock was just granted, if the claim has not done so.
    pub(crate) async fn publish(
        &self,
        claim: &Claim,
        epoch: u64,
        value: &str,
    ) -> Result<Proclamation> {
        match self {
            Self::Native(_) => Ok(Proclamation::Made),
            Self::Recorded(_) => self.proclaim(claim, epoch, value).await,
        }
    }

    pub(crate) async fn proclaim(
        &self,
        claim: &Claim,
        epoch: u64,
        value: &str,
    ) -> Result<Proclamation> {
        match self {
            Self::Native(leaders) => leaders.proclaim(claim, epoch, value).await,
            Self::Recorded(leaders) => leaders.write(&claim.name, epoch, Some(value)).await,
        }
    }

    /// Removes the value of a leader that has resigned, if it is not removed with the lock.
    pub(crate) async fn withdraw(&self, name: &LockName, epoch: u64) -> Result<()> {
        match self {
            Self::Native(_) => Ok(()),
            Self::Recorded(leaders) => leaders.write(name, epoch, None).await.map(|_| ()),
        }
    }

    pub(crate) async fn leader(&self, name: &LockName) -> Result<Standing> {
        match self {
            Self::Native(leaders) => leaders.leader(name).await,
            Self::Recorded(leaders) => leaders.leader(name).await,
        }
    }

    pub(crate) async fn changed(&self, name: &LockName, seen: &Standing) {
        match self {
            Self::Native(leaders) => leaders.changed(name, seen).await,
            Self::Recorded(leaders) => leaders.changed(name, seen).await,
        }
    }
}
