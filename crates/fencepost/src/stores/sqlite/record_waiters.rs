//! The futures of this process that wait for a record to change, and the checks that find out whether one has.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::oneshot;

use super::session::LockFile;
use super::waiting::{LOOK_TIMEOUT, look_after};
use crate::backend::records::RecordKey;
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Operation, Result};

/// A future that waits for a record to change.
#[derive(Debug)]
struct RecordWaiter {
    key: RecordKey,
    /// The version that the caller has seen.
    version: u128,
    told: oneshot::Sender<()>,
}

/// All futures of this process that wait for a record to change.
#[derive(Debug)]
pub(super) struct RecordWaiters {
    waiters: Vec<RecordWaiter>,
    next_look: Moment,
    /// The `data_version` of the last check and the file in which it was read, or `None` if the next check must read.
    seen: Option<(u64, i64)>,
}

impl RecordWaiters {
    pub(super) fn new() -> Self {
        Self {
            waiters: Vec::new(),
            next_look: Moment::ZERO,
            seen: None,
        }
    }

    /// Returns how long there is nothing to check, or `None` if nobody waits.
    pub(super) fn pause(&self) -> Option<Duration> {
        let pause = || self.next_look.saturating_duration_since(BootClock.now());
        (!self.waiters.is_empty()).then(pause)
    }

    /// Adds a future that has seen this version, and tells it at once if the record has another one.
    pub(super) fn add(
        &mut self,
        file: &mut LockFile,
        key: RecordKey,
        version: u128,
        told: oneshot::Sender<()>,
    ) {
        match version_of(file, &key) {
            Ok(now) if now != version => {
                let _ = told.send(());
                return;
            }
            Ok(_) => {}
            Err(error) if error.is_transient() => self.seen = None,
            Err(_) => return,
        }
        if self.waiters.is_empty() {
            self.next_look = look_after(BootClock.now());
        }
        self.waiters.push(RecordWaiter { key, version, told });
    }

    /// Tells those who wait for this record that it was replaced by a request of this process, which `data_version` does not show.
    pub(super) fn replaced_here(&mut self, key: &RecordKey) {
        let is_it = |waiter: &mut RecordWaiter| waiter.key == *key;
        tell(self.waiters.extract_if(.., is_it));
    }

    /// Tells those whose record has changed, if a check is due.
    pub(super) fn look_if_due(&mut self, file: &mut LockFile) {
        if self.waiters.is_empty() || self.next_look > BootClock.now() {
            return;
        }
        self.waiters.retain(|waiter| !waiter.told.is_closed());
        if !self.waiters.is_empty()
            && let Err(error) = self.look(file)
        {
            self.seen = None;
            if !error.is_transient() {
                // Whoever is told reads the record, and gets the error.
                self.waiters.clear();
            }
        }
        self.next_look = look_after(BootClock.now());
    }

    fn look(&mut self, file: &mut LockFile) -> Result<()> {
        let version = file.run_within(LOOK_TIMEOUT, Operation::ReadRecord, |database| {
            Ok((database.generation, database.data_version()?))
        })?;
        if self.seen == Some(version) {
            return Ok(());
        }
        // Set this before anything is read, so that the next check sees a change in between.
        self.seen = Some(version);
        let mut versions = BTreeMap::new();
        for RecordWaiter { key, .. } in &self.waiters {
            if !versions.contains_key(key) {
                versions.insert(key.clone(), version_of(file, key)?);
            }
        }
        let has_changed =
            |waiter: &mut RecordWaiter| versions.get(&waiter.key) != Some(&waiter.version);
        tell(self.waiters.extract_if(.., has_changed));
        Ok(())
    }
}

fn tell(waiters: impl Iterator<Item = RecordWaiter>) {
    for waiter in waiters {
        let _ = waiter.told.send(());
    }
}

fn version_of(file: &mut LockFile, key: &RecordKey) -> Result<u128> {
    file.run_within(LOOK_TIMEOUT, Operation::ReadRecord, |database| {
        database.record_version(key)
    })
}
