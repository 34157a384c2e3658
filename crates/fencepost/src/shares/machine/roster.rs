//! [`Roster`]: what the record of one name contains.

use std::sync::Arc;
use std::time::Duration;

use super::slots::Slots;
use crate::claim::{OwnerId, Part};

/// Who has which share of a name, and who waits for one.
///
/// All times are on the clock of the store, in the era of the roster.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Roster {
    /// How much there is, or `None` if nobody has said so yet.
    pub capacity: Option<Capacity>,
    /// The era of all times.
    pub era: Arc<str>,
    /// The epoch of the last grant.
    pub last_epoch: u64,
    /// The last ticket of the line.
    pub last_ticket: u64,
    /// The shares that are held, in the order in which they were granted.
    pub shares: Vec<Share>,
    /// Those who wait, the next one first.
    pub line: Vec<Waiting>,
}

/// How much of a name there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Capacity {
    /// This many permits of a semaphore.
    Permits(u32),
    /// Many readers, or one writer.
    ReadWrite,
}

/// What a claim takes of the capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Need {
    /// This many permits.
    Permits(u32),
    /// Reading, beside other readers.
    Read,
    /// Writing, alone.
    Write,
}

/// A share that somebody holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Share {
    /// Whose it is.
    pub owner: OwnerId,
    /// How much it is.
    pub need: Need,
    /// The numbers of the permits; empty for a reader or writer.
    pub slots: Slots,
    /// The epoch of its fence.
    pub epoch: u64,
    /// When it was granted.
    pub since: Duration,
    /// When it ends, unless it is renewed.
    pub ends: Duration,
    /// How long it was when it was last granted or extended.
    pub ttl: Duration,
    /// The label of the client, for people.
    pub label: Arc<str>,
}

/// A client that waits in line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Waiting {
    /// Who waits.
    pub owner: OwnerId,
    /// For how much.
    pub need: Need,
    /// Its number: the lowest is next.
    pub ticket: u64,
    /// Since when it waits.
    pub since: Duration,
    /// Until when its part is kept for it, if it is its turn.
    pub called_until: Option<Duration>,
    /// The label of the client, for people.
    pub label: Arc<str>,
}

/// A place in a line, which its owner remembers even if the line has forgotten it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// The number of the waiter.
    pub ticket: u64,
    /// Since when it waits.
    pub since: Duration,
}

impl Roster {
    /// Returns the waiter with this owner.
    pub fn waiting(&self, owner: OwnerId) -> Option<&Waiting> {
        self.line.iter().find(|waiting| waiting.owner == owner)
    }

    /// Returns what is neither held nor kept for a waiter whose turn it is.
    pub(super) fn room(&self, capacity: Capacity) -> Room {
        let mut room = Room {
            free: match capacity {
                Capacity::Permits(permits) => permits,
                Capacity::ReadWrite => 0,
            },
            readers: false,
            writer: false,
        };
        let held = self.shares.iter().map(|share| share.need);
        let called = self.line.iter().filter(|one| one.called_until.is_some());
        for need in held.chain(called.map(|waiting| waiting.need)) {
            room.take(need);
        }
        room
    }
}

impl Capacity {
    /// Returns the capacity that a part belongs to, if the store does not know it. Returns `None` for a whole lock.
    pub fn of(part: Part) -> Option<Self> {
        match part {
            Part::Whole => None,
            Part::Permits { of, .. } => Some(Self::Permits(of)),
            Part::Read | Part::Write | Part::ReadInPlaceOf(_) => Some(Self::ReadWrite),
        }
    }

    /// Returns whether both are semaphores, or both are read-write locks.
    pub fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

impl Need {
    /// Returns what a part takes. Returns `None` for a whole lock.
    pub fn of(part: Part) -> Option<Self> {
        match part {
            Part::Whole => None,
            Part::Permits { count, .. } => Some(Self::Permits(count)),
            Part::Read | Part::ReadInPlaceOf(_) => Some(Self::Read),
            Part::Write => Some(Self::Write),
        }
    }

    /// Returns how many permits this is. Zero for a reader or writer.
    pub fn permits(self) -> u32 {
        match self {
            Self::Permits(count) => count,
            Self::Read | Self::Write => 0,
        }
    }
}

/// What is left of a capacity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) free: u32,
    readers: bool,
    writer: bool,
}

impl Room {
    pub(super) fn fits(&self, need: Need) -> bool {
        match need {
            Need::Permits(count) => count <= self.free,
            Need::Read => !self.writer,
            Need::Write => !self.writer && !self.readers,
        }
    }

    pub(super) fn take(&mut self, need: Need) {
        match need {
            // More may be out than there are, after their number was lowered.
            Need::Permits(count) => self.free = self.free.saturating_sub(count),
            Need::Read => self.readers = true,
            Need::Write => self.writer = true,
        }
    }
}
