//! [`Skipped`]: why a job must not run now.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Once;
use super::journal::{Entry, Refusal, State};
use super::recorded::JobRecord;
use crate::backend::Holder;

/// Why a job must not run now.
///
/// The variants are complete on purpose: a new one would be a breaking change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// It runs already, here or elsewhere. On a store without records, also if it has ended and [`at_least`](Once::at_least) is not over.
    Running,
    /// It has run, and [`at_least`](Once::at_least) is not over.
    RecentlyRan,
    /// This slot was completed.
    Completed,
    /// A run of this slot began and never said how it ended, and [`AfterCrash::Skip`](super::AfterCrash::Skip) says not to run it again.
    CrashUnknown,
    /// This slot sorts before one that was [forgotten](Once::keep), so nobody knows whether it was run.
    BelowFloor,
}

impl Why {
    /// Returns the word for this in metrics and documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::RecentlyRan => "recently_ran",
            Self::Completed => "completed",
            Self::CrashUnknown => "crash_unknown",
            Self::BelowFloor => "below_floor",
        }
    }
}

/// A run that did not begin.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Why the job must not run now.
    pub why: Why,
    /// Who runs it or ran it: host and process. `None` if the store does not know.
    pub by: Option<Arc<str>>,
    /// When that run began, by the clock of the machine that ran it.
    pub since: Option<SystemTime>,
    /// Until when nobody else may begin, by the clock of this machine: the end of [`at_least`](Once::at_least), or of a lease that was left.
    /// `None` if that depends on the run, or if it is for ever.
    pub until: Option<SystemTime>,
}

impl Skipped {
    fn new(why: Why) -> Self {
        Self {
            why,
            by: None,
            since: None,
            until: None,
        }
    }

    fn after(why: Why, entry: &Entry) -> Self {
        Self {
            by: Some(entry.by.clone()),
            since: Some(at(entry.started_ms)),
            ..Self::new(why)
        }
    }

    /// Returns `None` if the run was not refused, but has lost its lock.
    pub(super) fn because(refusal: &Refusal) -> Option<Self> {
        Some(match refusal {
            Refusal::RecentlyRan(entry, left) => Self {
                until: SystemTime::now().checked_add(*left),
                ..Self::after(Why::RecentlyRan, entry)
            },
            Refusal::Completed(entry) => Self::after(Why::Completed, entry),
            Refusal::CrashUnknown(entry) => Self::after(Why::CrashUnknown, entry),
            Refusal::BelowFloor => Self::new(Why::BelowFloor),
            Refusal::Overtaken => return None,
        })
    }
}

/// Finds out why the lock of the job is taken. If the store does not answer, it is taken by somebody.
pub(super) async fn because_taken(once: &Once, record: Option<&JobRecord<'_>>) -> Skipped {
    let journal = match record {
        Some(record) => record.read().await.ok().map(|(_, journal)| journal),
        None => None,
    };
    let journal = journal.unwrap_or_default();
    let slot = once.terms.slot.as_deref();
    let entry = slot.and_then(|slot| journal.slots.get(slot));
    if let Some(entry) = entry.filter(|entry| entry.state == State::Completed) {
        return Skipped::after(Why::Completed, entry);
    }
    let Some(holder) = holder(once).await else {
        return Skipped::new(Why::Running);
    };
    let last = journal.last.as_ref().map(|last| &last.entry);
    // The lease that its run has left.
    match last.filter(|last| holder.epoch == Some(last.fence.epoch())) {
        Some(last) if last.state != State::Started => Skipped {
            until: holder.ttl_left.and_then(from_now),
            ..Skipped::after(Why::RecentlyRan, last)
        },
        Some(last) => Skipped::after(Why::Running, last),
        None => Skipped {
            by: Some(holder.label.clone()).filter(|label| !label.is_empty()),
            since: since(once, &holder),
            ..Skipped::new(Why::Running)
        },
    }
}

async fn holder(once: &Once) -> Option<Holder> {
    let locker = &once.locker;
    let asked = locker.backend().inspect(&once.name);
    let answer = locker.answer(crate::error::Operation::Inspect, asked).await;
    answer.ok()??.holder
}

fn since(once: &Once, holder: &Holder) -> Option<SystemTime> {
    let age = once
        .locker
        .clock()
        .now()
        .saturating_duration_since(holder.since?);
    SystemTime::now().checked_sub(age)
}

fn from_now(left: Duration) -> Option<SystemTime> {
    SystemTime::now().checked_add(left)
}

fn at(unix_ms: u64) -> SystemTime {
    UNIX_EPOCH
        .checked_add(Duration::from_millis(unix_ms))
        .unwrap_or(UNIX_EPOCH)
}
