//! The record of a job: its last run, the state of each slot, and the floor below which slots are forgotten. Pure: it decides whether a run may
//! begin, without a store, a clock or a task.
//!
//! It is a text with a line for each entry. Fields are separated by tabs, which neither slots nor labels contain:
//!
//! ```text
//! fencepost runs 1
//! floor 2026-08-20
//! last  fence state label started_ms ended_ms until_ns era
//! slot  2026-11-19 fence state label started_ms ended_ms
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::records::StoreTime;
use crate::fence::Fence;

mod text;

pub(super) use text::Unreadable;

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It has begun. If nobody holds the lock of the job, it is unknown how it ended.
    Started,
    Completed,
    Failed,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The fence with which it held the lock.
    pub(super) fence: Fence,
    pub(super) state: State,
    /// Who ran it: host and process.
    pub(super) by: Arc<str>,
    /// Milliseconds since 1970, by the clock of the machine that ran it.
    pub(super) started_ms: u64,
    pub(super) ended_ms: Option<u64>,
}

/// The last run of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LastRun {
    pub(super) entry: Entry,
    /// Until when nobody else may begin, in the time of the store. `None` if the lease of the lock says so.
    pub(super) until: Option<StoreTime>,
}

/// The record of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Journal {
    /// Slots up to this one, compared as text, may have been forgotten.
    pub(super) floor: Option<String>,
    pub(super) last: Option<LastRun>,
    pub(super) slots: BTreeMap<String, Entry>,
}

/// A run that wants to begin. It holds the lock of the job.
#[derive(Debug, Clone)]
pub(super) struct Wanted<'a> {
    pub(super) slot: Option<&'a str>,
    pub(super) fence: Fence,
    pub(super) by: &'a Arc<str>,
    /// Whether a slot is run again of which nobody knows how its last run ended.
    pub(super) again_after_crash: bool,
    /// How long nobody else may begin, if the store's leases do not say so.
    pub(super) keep_others_out: Option<Duration>,
    /// How long slots are remembered.
    pub(super) keep: Duration,
    pub(super) now_ms: u64,
    /// The time of the store.
    pub(super) time: Option<&'a StoreTime>,
}

/// Why a run may not begin, with the run that is in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The last run was too short ago. This is how long nobody else may begin.
    RecentlyRan(Entry, Duration),
    Completed(Entry),
    CrashUnknown(Entry),
    BelowFloor,
    /// A later run has begun already: the lock of this one is lost.
    Overtaken,
}

impl Journal {
    /// Records that a run begins.
    pub(super) fn begin(&mut self, run: &Wanted<'_>) -> Result<(), Refusal> {
        self.check(run)?;
        self.forget(run);
        let entry = Entry {
            fence: run.fence,
            state: State::Started,
            by: run.by.clone(),
            started_ms: run.now_ms,
            ended_ms: None,
        };
        let until = run
            .keep_others_out
            .zip(run.time)
            .map(|(time, now)| StoreTime {
                now: now.now + time,
                era: now.era.clone(),
            });
        if let Some(slot) = run.slot {
            self.slots.insert(slot.to_owned(), entry.clone());
        }
        self.last = Some(LastRun { entry, until });
        Ok(())
    }

    fn check(&self, run: &Wanted<'_>) -> Result<(), Refusal> {
        if let Some(last) = &self.last {
            if last.entry.fence > run.fence {
                return Err(Refusal::Overtaken);
            }
            if let Some(left) = last.keeps_out(run.time)
                && last.entry.fence != run.fence
            {
                return Err(Refusal::RecentlyRan(last.entry.clone(), left));
            }
        }
        let Some(slot) = run.slot else {
            return Ok(());
        };
        match self.slots.get(slot) {
            Some(entry) if entry.fence > run.fence => Err(Refusal::Overtaken),
            // The answer to an earlier request of this run was lost.
            Some(entry) if entry.fence == run.fence => Ok(()),
            Some(entry) => match entry.state {
                State::Completed => Err(Refusal::Completed(entry.clone())),
                State::Started if !run.again_after_crash => {
                    Err(Refusal::CrashUnknown(entry.clone()))
                }
                State::Started | State::Failed => Ok(()),
            },
            None if self.is_below_floor(slot) => Err(Refusal::BelowFloor),
            None => Ok(()),
        }
    }

    fn is_below_floor(&self, slot: &str) -> bool {
        self.floor.as_deref().is_some_and(|floor| slot <= floor)
    }

    /// Forgets slots that are too old, and raises the floor to the highest of them, so that none of them can be run again.
    fn forget(&mut self, run: &Wanted<'_>) {
        let keep_ms = u64::try_from(run.keep.as_millis()).unwrap_or(u64::MAX);
        let oldest_ms = run.now_ms.saturating_sub(keep_ms);
        let old = |slot: &String, entry: &mut Entry| {
            run.slot != Some(slot.as_str()) && entry.touched_ms() < oldest_ms
        };
        let forgotten = self.slots.extract_if(.., old).map(|(slot, _)| slot).max();
        self.floor = self.floor.take().max(forgotten);
    }

    /// Records how the run with this fence has ended. Returns `false`, and changes nothing, if another run has begun in the meantime.
    pub(super) fn end(
        &mut self,
        slot: Option<&str>,
        fence: Fence,
        state: State,
        now_ms: u64,
    ) -> bool {
        let is_of_run = |entry: &Entry| entry.fence == fence;
        let Some(last) = self.last.as_mut().filter(|last| is_of_run(&last.entry)) else {
            return false;
        };
        let entry = slot.map(|slot| self.slots.get_mut(slot));
        let in_slot = match entry {
            Some(Some(entry)) if is_of_run(entry) => Some(entry),
            Some(_) => return false,
            None => None,
        };
        for entry in in_slot.into_iter().chain([&mut last.entry]) {
            (entry.state, entry.ended_ms) = (state, Some(now_ms));
        }
        true
    }
}

impl Entry {
    /// Returns when the entry was last written.
    fn touched_ms(&self) -> u64 {
        self.ended_ms.unwrap_or(self.started_ms)
    }
}

impl LastRun {
    /// Returns how long nobody else may begin. After a change of the era, for instance a reboot, earlier times mean nothing.
    fn keeps_out(&self, time: Option<&StoreTime>) -> Option<Duration> {
        let (until, now) = (self.until.as_ref()?, time?);
        if until.era != now.era {
            return None;
        }
        let left = until.now.saturating_sub(now.now);
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests;
