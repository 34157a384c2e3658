//! [`Entry`]: a lock, a semaphore or a read-write lock, as all `locks` commands read it.

use std::io::{self, Write};
use std::sync::Arc;

use fencepost::DEFAULT_STORE_TIMEOUT;
use fencepost::backend::{Holder, Part, Record, Waiter};
use fencepost::shares::Shares;
use fencepost::{Backend, ErrorKind, LockName};
use fencepost_trial::text::numbers::plural;

/// What kind of thing has a name. A lock and a semaphore of one name are two things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A lock of this library, with a queue of waiters.
    Line,
    /// A lock of another program.
    Plain,
    Semaphore,
    RwLock,
}

impl Kind {
    pub(super) fn of_lock(record: &Record) -> Self {
        match &record.holder {
            Some(holder) if holder.owner.is_none() => Self::Plain,
            _ => Self::Line,
        }
    }

    /// `None` if the record says of nobody what it holds or wants.
    fn of_shares(record: &Record) -> Option<Self> {
        let held = record.holders().map(|holder| holder.part);
        let mut parts = held.chain(record.waiting.iter().map(|waiter| waiter.part));
        match parts.next()? {
            Part::Permits { .. } => Some(Self::Semaphore),
            Part::Read | Part::Write | Part::ReadInPlaceOf(_) => Some(Self::RwLock),
            _ => None,
        }
    }

    /// Returns the word for it in tables.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Plain => "plain",
            Self::Semaphore => "semaphore",
            Self::RwLock => "rw lock",
        }
    }

    /// Returns the word for it in JSON.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::RwLock => "rw_lock",
            other => other.word(),
        }
    }
}

/// A name that is held or wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) record: Record,
}

impl Entry {
    pub(super) fn lock(name: impl Into<String>, record: Record) -> Self {
        Self {
            name: name.into(),
            kind: Kind::of_lock(&record),
            record,
        }
    }

    fn shares(name: impl Into<String>, record: Record) -> Option<Self> {
        Some(Self {
            name: name.into(),
            kind: Kind::of_shares(&record)?,
            record,
        })
    }

    /// Returns how many permits there are, if it is a semaphore.
    pub(super) fn permits(&self) -> Option<u32> {
        let held = self.record.holders().map(|holder| holder.part);
        let mut parts = held.chain(self.record.waiting.iter().map(|waiter| waiter.part));
        parts.find_map(|part| match part {
            Part::Permits { of, .. } => Some(of),
            _ => None,
        })
    }
}

/// Reads all names that match the pattern, in their order.
pub(super) async fn read_all(
    backend: &Arc<dyn Backend>,
    pattern: Option<&str>,
) -> fencepost::Result<Vec<Entry>> {
    let locks = backend.list(pattern).await?;
    let locks = locks
        .into_iter()
        .map(|listed| Entry::lock(listed.name, listed.record));
    let mut entries: Vec<Entry> = locks.collect();
    if backend.capabilities().shares {
        let shares = Shares::new(backend.clone(), DEFAULT_STORE_TIMEOUT);
        let listed = unless_unusable(shares.list(pattern).await)?;
        let shares = listed
            .unwrap_or_default()
            .into_iter()
            .filter_map(|listed| Entry::shares(listed.name, listed.record));
        entries.extend(shares);
    }
    entries.sort_by(|a, b| (&a.name, a.kind).cmp(&(&b.name, b.kind)));
    Ok(entries)
}

/// Reads the semaphore or read-write lock of this name. `None` if nobody holds anything of it or waits for it.
pub(super) async fn read_shares(
    backend: &Arc<dyn Backend>,
    name: &LockName,
) -> fencepost::Result<Option<Entry>> {
    if !backend.capabilities().shares {
        return Ok(None);
    }
    let shares = Shares::new(backend.clone(), DEFAULT_STORE_TIMEOUT);
    let record = unless_unusable(shares.inspect(name).await)?.flatten();
    Ok(record.and_then(|record| Entry::shares(name.as_str(), record)))
}

/// A store may have locks and no place for records, for instance a Postgres table of an earlier version. Its locks are shown nevertheless.
fn unless_unusable<T>(answer: fencepost::Result<T>) -> fencepost::Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.kind() == ErrorKind::Unusable => {
            let why = error.message();
            let note = format!("fencepost: semaphores and read-write locks are not shown: {why}\n");
            let _ = io::stderr().write_all(note.as_bytes());
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Says what a holder has: `slots 0-1 of 4`, `reader`. `None` if it has the whole name.
pub(super) fn part_of(holder: &Holder) -> Option<String> {
    match holder.part {
        Part::Permits { of, .. } => {
            let slots = slots(&holder.slots);
            let word = match holder.slots.len() {
                1 => "slot",
                _ => "slots",
            };
            Some(format!("{word} {slots} of {of}"))
        }
        Part::Read | Part::ReadInPlaceOf(_) => Some("reader".to_owned()),
        Part::Write => Some("writer".to_owned()),
        _ => None,
    }
}

/// Says what a waiter wants: `2 permits`, `to read`. `None` if it wants the whole name.
pub(super) fn wish_of(waiter: &Waiter) -> Option<String> {
    match waiter.part {
        Part::Permits { count, .. } => Some(plural(count as usize, "permit", "permits")),
        Part::Read | Part::ReadInPlaceOf(_) => Some("to read".to_owned()),
        Part::Write => Some("to write".to_owned()),
        _ => None,
    }
}

/// Formats numbers in rising order: `0-1, 3`.
fn slots(slots: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for slot in slots {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *slot => *last = *slot,
            _ => runs.push((*slot, *slot)),
        }
    }
    let runs = runs.into_iter().map(|(first, last)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    });
    runs.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_slots_are_written_together() {
        assert_eq!(slots(&[0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
        assert_eq!(slots(&[3]), "3");
        assert_eq!(slots(&[]), "");
    }

    #[test]
    fn what_a_record_is_about_is_seen_in_its_parts() {
        let holder = |part| {
            let mut holder = Holder::new("web-1:2210");
            holder.part = part;
            Record::new(Some(holder), Vec::new())
        };
        let kind = |part| Kind::of_shares(&holder(part));
        assert_eq!(kind(Part::Read), Some(Kind::RwLock));
        let permits = Part::Permits { count: 1, of: 4 };
        assert_eq!(kind(permits), Some(Kind::Semaphore));
        assert_eq!(kind(Part::Whole), None);
        let entry = Entry::shares("gpu", holder(permits)).unwrap();
        assert_eq!(entry.permits(), Some(4));
    }
}
