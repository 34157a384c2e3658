//! How a record changes: read, decide, replace, and again if somebody else was faster.

use std::time::Duration;

use super::machine::{Impossible, Roster};
use super::{Shares, failure};
use crate::backend::Backend;
use crate::backend::records::{RecordKey, RecordKind, Replaced, Snapshot};
use crate::claim::{LockName, OwnerId};
use crate::clock::Moment;
use crate::error::{Operation, Result};
use crate::random::SystemRandom;
use crate::retry::Schedule;

/// How long a store that forgets records must remember one that nobody uses: the number of permits, which somebody may have changed.
const REMEMBER: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How often others may be faster.
const MAX_ATTEMPTS: u32 = 64;
/// The longest pause before another attempt.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// What is to be changed, for whom.
pub(super) struct Subject<'a> {
    key: RecordKey,
    operation: Operation,
    owners: &'a [OwnerId],
}

impl<'a> Subject<'a> {
    pub(super) fn new(name: &LockName, operation: Operation, owners: &'a [OwnerId]) -> Self {
        Self {
            key: key(name),
            operation,
            owners,
        }
    }
}

/// A record as it was read, and what has happened since it was written.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) snapshot: Snapshot,
    pub(super) roster: Roster,
    /// The time of the store.
    pub(super) now: Duration,
}

/// What a decision means for the record.
pub(super) enum Decision<T> {
    Keep(T),
    Replace(T),
}

pub(super) fn key(name: &LockName) -> RecordKey {
    RecordKey {
        kind: RecordKind::Shares,
        name: name.clone(),
    }
}

impl Shares {
    /// Reads the record of a name, and lets it settle.
    pub(super) async fn read(&self, key: &RecordKey, operation: Operation) -> Result<Reading> {
        let read = self.records(operation)?.read(key).await;
        let snapshot = read.map_err(|error| error.during(operation))?;
        let store = self.store_name();
        let Some(time) = &snapshot.time else {
            return Err(failure::no_time(store, operation));
        };
        let mut roster = match &snapshot.value {
            Some(value) => Roster::from_text(value)
                .map_err(|why| failure::unreadable(store, operation, &key.name, &why))?,
            None => Roster::default(),
        };
        roster.settle(time);
        let now = time.now;
        Ok(Reading {
            snapshot,
            roster,
            now,
        })
    }

    /// Reads the record, lets `decide` change it, and replaces it if that is the decision. Repeats this until nobody else was faster.
    /// Returns the answer of `decide`, with the record as it was read last.
    pub(super) async fn change<T>(
        &self,
        subject: &Subject<'_>,
        mut decide: impl FnMut(&mut Reading) -> Result<Decision<T>, Impossible>,
    ) -> Result<(T, Reading)> {
        let Subject { key, operation, .. } = subject;
        for attempt in 0..MAX_ATTEMPTS {
            let started_at = self.clock.now();
            let mut reading = self.read(key, *operation).await?;
            let decided = decide(&mut reading).map_err(|why| {
                failure::impossible(self.store_name(), *operation, &key.name, why)
            })?;
            let answer = match decided {
                Decision::Keep(answer) => return Ok((answer, reading)),
                Decision::Replace(answer) => answer,
            };
            match self.replace(subject, &reading).await? {
                Replaced::Yes => return Ok((answer, reading)),
                Replaced::Outdated => self.pause(attempt, started_at).await,
            }
        }
        Err(failure::too_contended(
            self.store_name(),
            *operation,
            &key.name,
        ))
    }

    async fn replace(&self, subject: &Subject<'_>, reading: &Reading) -> Result<Replaced> {
        let text = reading.roster.to_text();
        let keep_for = REMEMBER.max(reading.lasts());
        let sent = self.owners.sends(subject.owners);
        let records = self.records(subject.operation)?;
        let answer = records
            .replace(&subject.key, &reading.snapshot, text.as_bytes(), keep_for)
            .await
            .map_err(|error| error.during(subject.operation));
        if !matches!(&answer, Err(error) if error.effect() == crate::error::Effect::Maybe) {
            sent.answered();
        }
        answer
    }

    /// Waits before another attempt, so that clients that collided do not do so again: not at all the first time, and then a random time
    /// that grows with the time that an attempt takes.
    async fn pause(&self, attempt: u32, started_at: Moment) {
        let Some(retry) = attempt.checked_sub(1) else {
            return;
        };
        let now = self.clock.now();
        let took = now.saturating_duration_since(started_at);
        let schedule = Schedule::full_jitter(took.max(Duration::from_millis(1)), LONGEST_PAUSE);
        let pause = schedule.delay(retry, &SystemRandom);
        self.clock.sleep_until(now + pause).await;
    }
}

impl Reading {
    /// Returns whether the store has something of this owner, even if it has ended by itself since that was written.
    pub(super) fn is_stored(&self, owner: OwnerId) -> bool {
        let owner = owner.to_string();
        let text = self.snapshot.value.as_deref().unwrap_or_default();
        let mut parts = text.windows(owner.len());
        parts.any(|part| part == owner.as_bytes())
    }

    /// Returns how much longer the last share in the record lasts.
    fn lasts(&self) -> Duration {
        let ends = self.roster.shares.iter().map(|share| share.ends).max();
        ends.map_or(Duration::ZERO, |end| end.saturating_sub(self.now))
    }
}
