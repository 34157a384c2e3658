//! The record of a job at the store: reads and replaces it until the decision is written down.

use std::time::Duration;

use super::Once;
use super::journal::{Journal, Refusal, State, Unreadable, Wanted};
use crate::backend::records::{RecordKey, RecordKind, Records, Replaced, Snapshot};
use crate::clock::{Moment, unix_millis};
use crate::error::{Effect, Error, ErrorKind, Operation, Result};
use crate::fence::Fence;

/// How often the record may change between reading and replacing it before the store is to blame.
const ATTEMPTS_MAX: u32 = 100;
/// The pause after a request that failed.
const PAUSE: Duration = Duration::from_millis(50);
/// The largest record: less than the limits of ZooKeeper (1 MiB) and etcd (1.5 MiB), and room for several thousand slots.
const MAX_BYTES: usize = 512 * 1024;

/// The record of one job.
#[derive(Debug)]
pub(super) struct JobRecord<'a> {
    once: &'a Once,
    records: &'a dyn Records,
    key: RecordKey,
}

/// A run that was written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recorded {
    /// Whether the store may forget it.
    pub(super) may_be_forgotten: bool,
}

impl<'a> JobRecord<'a> {
    /// Returns `None` if the store keeps no records.
    pub(super) fn of(once: &'a Once) -> Option<Self> {
        Some(Self {
            once,
            records: once.locker.backend().records()?,
            key: RecordKey {
                kind: RecordKind::Runs,
                name: once.name.clone(),
            },
        })
    }

    pub(super) async fn read(&self) -> Result<(Snapshot, Journal)> {
        let asked = self.records.read(&self.key);
        let seen = self
            .once
            .locker
            .answer(Operation::ReadRecord, asked)
            .await?;
        let journal = match &seen.value {
            Some(text) => Journal::read(text).map_err(|why| self.unreadable(&why))?,
            None => Journal::default(),
        };
        Ok((seen, journal))
    }

    async fn replace(&self, seen: &Snapshot, journal: &Journal) -> Result<Replaced> {
        let text = journal.write();
        if text.len() > MAX_BYTES {
            return Err(self.full(journal, text.len()));
        }
        // A record that was forgotten would forget its floor.
        let asked = self
            .records
            .replace(&self.key, seen, text.as_bytes(), Duration::MAX);
        let answer = self.once.locker.answer(Operation::ReplaceRecord, asked);
        answer.await
    }

    /// Checks whether a run may begin, without writing anything down.
    pub(super) async fn check(
        &self,
        fence: Fence,
        out: Option<Duration>,
    ) -> Result<Option<Refusal>> {
        self.patiently(move || async move {
            let (seen, mut journal) = self.read().await?;
            Ok(journal.begin(&self.wanted(fence, out, &seen)?).err())
        })
        .await
    }

    /// Writes down that a run with this fence begins. `out` is for how long others are kept out, if no lease does that.
    pub(super) async fn begin(
        &self,
        fence: Fence,
        out: Option<Duration>,
    ) -> Result<std::result::Result<Recorded, Refusal>> {
        self.decide(move || async move {
            let (seen, mut journal) = self.read().await?;
            if let Err(refusal) = journal.begin(&self.wanted(fence, out, &seen)?) {
                return Ok(Some(Err(refusal)));
            }
            let replaced = self.replace(&seen, &journal).await?;
            let recorded = Recorded {
                may_be_forgotten: self.records.may_forget_runs(),
            };
            Ok((replaced == Replaced::Yes).then_some(Ok(recorded)))
        })
        .await
    }

    /// Writes down how the run with this fence has ended. Returns `false` if another run has begun in the meantime.
    pub(super) async fn end(&self, fence: Fence, state: State) -> Result<bool> {
        let slot = self.once.terms.slot.as_deref();
        self.decide(move || async move {
            let (seen, mut journal) = self.read().await?;
            if !journal.end(slot, fence, state, unix_millis()) {
                return Ok(Some(false));
            }
            let replaced = self.replace(&seen, &journal).await?;
            Ok((replaced == Replaced::Yes).then_some(true))
        })
        .await
    }

    /// Repeats `attempt` until it decides.
    async fn decide<T, F>(&self, attempt: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<Option<T>>>,
    {
        for _ in 0..ATTEMPTS_MAX {
            if let Some(decision) = self.patiently(&attempt).await? {
                return Ok(decision);
            }
        }
        Err(self.error(
            ErrorKind::Unavailable,
            format!(
                "others kept changing the record of {}; try again later",
                self.once.name
            ),
        ))
    }

    /// Repeats a request for a while if it fails. A run whose beginning is written down and never begins would count as a crash.
    async fn patiently<T, F>(&self, request: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let locker = &self.once.locker;
        let clock = locker.clock();
        // Long enough for a second request after one that was not answered.
        let until: Moment = clock.now() + locker.store_timeout() * 2;
        let mut effect = Effect::None;
        loop {
            match request().await {
                Err(error) if error.is_transient() && clock.now() < until => {
                    if error.effect() == Effect::Maybe {
                        effect = Effect::Maybe;
                    }
                    tracing::debug!(name = %self.once.name, %error, "record of the job not reached yet");
                    clock.sleep_until(clock.now() + PAUSE).await;
                }
                Err(error) if effect == Effect::Maybe => return Err(error.with_effect(effect)),
                answer => return answer,
            }
        }
    }

    fn wanted<'b>(
        &'b self,
        fence: Fence,
        out: Option<Duration>,
        seen: &'b Snapshot,
    ) -> Result<Wanted<'b>> {
        if out.is_some() && seen.time.is_none() {
            return Err(super::unsupported(
                &self.once.locker,
                "this store has no clock that its clients can ask, so at_least cannot keep others out".to_owned(),
            ));
        }
        let terms = &self.once.terms;
        Ok(Wanted {
            slot: terms.slot.as_deref(),
            fence,
            by: self.once.locker.shared_label(),
            again_after_crash: terms.after_crash == super::AfterCrash::Rerun,
            keep_others_out: out,
            keep: terms.keep,
            now_ms: unix_millis(),
            time: seen.time.as_ref(),
        })
    }

    fn unreadable(&self, why: &Unreadable) -> Error {
        let name = &self.once.name;
        let message = match why {
            Unreadable::Newer(layout) => format!(
                "the record of the job {name} was written by a newer version of fencepost (layout {layout:?}); upgrade this program"
            ),
            Unreadable::Line(line) => format!(
                "the record of the job {name} is not ours (line {line}); has another program written it?"
            ),
        };
        self.error(ErrorKind::Unusable, message)
    }

    fn full(&self, journal: &Journal, bytes: usize) -> Error {
        let message = format!(
            "the record of the job {} is full: {} slots need {bytes} bytes, and {MAX_BYTES} are allowed. Keep slots for a shorter time, or \
             give each part of the schedule a job of its own",
            self.once.name,
            journal.slots.len()
        );
        self.error(ErrorKind::InvalidInput, message)
    }

    fn error(&self, kind: ErrorKind, message: String) -> Error {
        let store = self.once.locker.backend().store_name();
        Error::new(kind, store, Operation::ReplaceRecord, message)
    }
}
