//! How a record changes: read, decide, replace, and again if somebody else was faster.

use std::time::Duration;

use super::machine::{Impossible, Roster};
use super::{Shares, failure};
use crate::backend::records::attempts::{Attempts, too_contended};
use crate::backend::records::{RecordKey, RecordKind, Replaced, Snapshot};
use crate::backend::{Backend, Wait};
use crate::claim::{LockName, OwnerId};
use crate::clock::within;
use crate::error::{Effect, Operation, Result};

/// How long a store that forgets records must remember one that nobody uses: the number of permits, which somebody may have changed.
const REMEMBER: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How long a request of a waiter may take. Whoever sends the first request of a wait limits it, but nobody else can limit the later ones.
/// A little longer than the stores trust a silent connection, so that they have noticed it.
const LATER_REQUEST: Duration = Duration::from_millis(2500);

/// What is to be changed, for whom.
pub(super) struct Subject<'a> {
    key: RecordKey,
    operation: Operation,
    owners: &'a [OwnerId],
    /// Set if the owner waits.
    wait: Option<&'a Wait>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(name: &LockName, operation: Operation, owners: &'a [OwnerId]) -> Self {
        Self {
            key: key(name),
            operation,
            owners,
            wait: None,
        }
    }

    /// Sets the wait of the owner, if it waits.
    pub(super) fn with_wait(self, wait: Option<&'a Wait>) -> Self {
        Self { wait, ..self }
    }

    /// Returns the answer to a request for this subject.
    ///
    /// # Errors
    /// Returns an error if the request fails, or if its owner stands in line and there is no answer in time.
    async fn answer<T>(
        &self,
        shares: &Shares,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        if !self.wait.is_some_and(Wait::was_busy) {
            return request.await;
        }
        let until = shares.clock.now() + LATER_REQUEST;
        let answer = within(&*shares.clock, until, request).await;
        answer.unwrap_or_else(|| Err(failure::unanswered(shares.store_name(), self.operation)))
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
        let mut attempts = Attempts::new(&*self.clock);
        while attempts.next().await {
            let read = subject.answer(self, self.read(key, *operation));
            let mut reading = read.await?;
            let decided = decide(&mut reading).map_err(|why| {
                failure::impossible(self.store_name(), *operation, &key.name, why)
            })?;
            let answer = match decided {
                Decision::Keep(answer) => return Ok((answer, reading)),
                Decision::Replace(answer) => answer,
            };
            if self.replace(subject, &reading).await?.is_done() {
                return Ok((answer, reading));
            }
        }
        Err(too_contended(self.store_name(), *operation, &key.name))
    }

    async fn replace(&self, subject: &Subject<'_>, reading: &Reading) -> Result<Replaced> {
        let text = reading.roster.to_text();
        let keep_for = REMEMBER.max(reading.lasts());
        let sent = self.owners.sends(subject.owners);
        let records = self.records(subject.operation)?;
        let replaced = records.replace(&subject.key, &reading.snapshot, text.as_bytes(), keep_for);
        let answer = subject.answer(self, replaced).await;
        let answer = answer.map_err(|error| error.during(subject.operation));
        if !matches!(&answer, Err(error) if error.effect() == Effect::Maybe) {
            sent.answered();
        }
        answer
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
