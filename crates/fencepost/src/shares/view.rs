//! What people see of a record: its holders and its line.

use futures_util::{StreamExt, TryStreamExt, stream};

use super::Shares;
use super::machine::{Capacity, Need, Share, Waiting};
use super::records::{Reading, key};
use crate::backend::records::RecordKind;
use crate::backend::{Holder, Listed, Record, Waiter, name_matches};
use crate::claim::{LockName, Part};
use crate::error::{Operation, Result};

/// How many records are read at the same time.
const READS_AT_ONCE: usize = 16;

impl Shares {
    pub(super) async fn show(&self, name: &LockName) -> Result<Option<Record>> {
        let reading = self.read(&key(name), Operation::Inspect).await?;
        Ok(reading.record())
    }

    pub(super) async fn show_all(&self, pattern: Option<&str>) -> Result<Vec<Listed>> {
        let names = self
            .records(Operation::Inspect)?
            .names(RecordKind::Shares)
            .await;
        let mut names = names.map_err(|error| error.during(Operation::Inspect))?;
        names.retain(|name| pattern.is_none_or(|pattern| name_matches(pattern, name.as_str())));
        let reads = names.into_iter().map(|name| async move {
            let record = self.show(&name).await;
            record.map(|record| Some(Listed::new(name.as_str(), record?)))
        });
        let listed = stream::iter(reads).buffer_unordered(READS_AT_ONCE);
        let listed: Vec<Option<Listed>> = listed.try_collect().await?;
        Ok(listed.into_iter().flatten().collect())
    }
}

impl Reading {
    /// Returns `None` if nobody holds anything and nobody waits.
    fn record(&self) -> Option<Record> {
        if self.roster.shares.is_empty() && self.roster.line.is_empty() {
            return None;
        }
        let mut holders = self.roster.shares.iter().map(|share| self.holder(share));
        let holder = holders.next();
        let waiting = self.roster.line.iter().map(|waiting| self.waiter(waiting));
        let mut record = Record::new(None, waiting.collect());
        record.further_holders = holders.collect();
        record.holder = holder;
        Some(record)
    }

    fn holder(&self, share: &Share) -> Holder {
        let held_for = self.now.saturating_sub(share.since);
        Holder {
            owner: Some(share.owner),
            epoch: Some(share.epoch),
            since: Some(self.snapshot.asked_at.saturating_sub(held_for)),
            ttl_left: Some(share.ends.saturating_sub(self.now)),
            ttl: Some(share.ttl),
            part: self.part(share.need),
            slots: share.slots.iter().collect(),
            ..Holder::new(share.label.clone())
        }
    }

    fn waiter(&self, waiting: &Waiting) -> Waiter {
        Waiter {
            part: self.part(waiting.need),
            ..Waiter::new(
                waiting.label.clone(),
                self.now.saturating_sub(waiting.since),
            )
        }
    }

    fn part(&self, need: Need) -> Part {
        match need {
            Need::Read => Part::Read,
            Need::Write => Part::Write,
            Need::Permits(count) => Part::Permits {
                count,
                of: match self.roster.capacity {
                    Some(Capacity::Permits(permits)) => permits,
                    Some(Capacity::ReadWrite) | None => count,
                },
            },
        }
    }
}
