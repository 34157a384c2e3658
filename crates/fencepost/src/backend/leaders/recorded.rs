//! The value of a leader in a record beside the lock: `EPOCH VALUE`, or `EPOCH` after the leader has resigned.
//!
//! A value counts only while the lock's holder has that epoch. It is replaced by compare-and-set and never over a higher epoch, so a leader
//! that was stopped and continued cannot speak for its successor.

use std::time::Duration;

use super::{LeaderEntry, Proclamation, Standing};
use crate::backend::records::attempts::{Attempts, too_contended};
use crate::backend::records::{RecordKey, RecordKind, Records, Snapshot};
use crate::backend::{Backend, Holder};
use crate::claim::LockName;
use crate::clock::within;
use crate::error::{Error, ErrorKind, Operation, Result};

/// How long a standing counts as current without a notification. A leader that drops its leadership notifies nobody.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The record has to last as long as the leader leads, even if it never proclaims another value.
const KEEP_FOR: Duration = Duration::MAX;

/// The leaders of a store that keeps records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordedLeaders<'a> {
    backend: &'a dyn Backend,
    records: &'a dyn Records,
}

impl<'a> RecordedLeaders<'a> {
    pub(super) fn new(backend: &'a dyn Backend, records: &'a dyn Records) -> Self {
        Self { backend, records }
    }

    /// Writes the value of the leader with this epoch, or that it has resigned.
    pub(super) async fn write(
        &self,
        name: &LockName,
        epoch: u64,
        value: Option<&str>,
    ) -> Result<Proclamation> {
        let (key, wanted) = (&key(name), Content::new(epoch, value));
        let clock = self.backend.clock();
        let mut attempts = Attempts::new(&*clock);
        while attempts.next().await {
            let seen = self.records.read(key).await?;
            let current = self.content(&seen)?;
            // Even if it is there already, it is written again, so that an earlier proclamation cannot take effect later.
            if current.is_some_and(|current| current.epoch > epoch) {
                return Ok(Proclamation::NotLeading);
            }
            let bytes = wanted.write();
            let replaced = self.records.replace(key, &seen, bytes.as_bytes(), KEEP_FOR);
            if replaced.await?.is_done() {
                return Ok(Proclamation::Made);
            }
        }
        let store = self.backend.store_name();
        Err(too_contended(store, Operation::ReplaceRecord, name))
    }

    pub(super) async fn leader(&self, name: &LockName) -> Result<Standing> {
        // The record first: whoever still holds the lock afterwards held it when it was read.
        let seen = self.records.read(&key(name)).await?;
        let content = self.content(&seen)?;
        let record = self.backend.inspect(name).await?;
        let now = self.backend.clock().now();
        let holder = record.and_then(|record| record.holder);
        let left = holder.as_ref().and_then(|holder| holder.ttl_left);
        Ok(Standing {
            leader: leader(content, holder),
            version: seen.version,
            look_again_at: Some(now + left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY))),
        })
    }

    pub(super) async fn changed(&self, name: &LockName, seen: &Standing) {
        let clock = self.backend.clock();
        let until = seen.look_again_at.unwrap_or_else(|| clock.now());
        let snapshot = Snapshot {
            version: seen.version,
            ..Snapshot::absent(clock.now())
        };
        let key = key(name);
        within(&*clock, until, self.records.changed(&key, &snapshot)).await;
    }

    fn content(&self, seen: &Snapshot) -> Result<Option<Content>> {
        let Some(bytes) = &seen.value else {
            return Ok(None);
        };
        let content = Content::read(bytes);
        let content = content.ok_or_else(|| self.error("the record of the leader is not ours"))?;
        Ok(Some(content))
    }

    fn error(&self, message: &'static str) -> Error {
        let store = self.backend.store_name();
        Error::new(ErrorKind::Unusable, store, Operation::ReadRecord, message)
    }
}

fn key(name: &LockName) -> RecordKey {
    RecordKey {
        kind: RecordKind::Leader,
        name: name.clone(),
    }
}

/// Returns the leader, if the holder of the lock is the one that wrote the record.
fn leader(content: Option<Content>, holder: Option<Holder>) -> Option<LeaderEntry> {
    let (content, holder) = (content?, holder?);
    if holder.epoch != Some(content.epoch) {
        return None;
    }
    Some(LeaderEntry {
        epoch: content.epoch,
        value: content.value?.into(),
        label: holder.label,
        since: holder.since,
    })
}

/// The content of a record.
#[derive(Debug, PartialEq, Eq)]
struct Content {
    epoch: u64,
    /// `None` after the leader has resigned.
    value: Option<String>,
}

impl Content {
    fn new(epoch: u64, value: Option<&str>) -> Self {
        Self {
            epoch,
            value: value.map(str::to_owned),
        }
    }

    fn write(&self) -> String {
        match &self.value {
            Some(value) => format!("{} {value}", self.epoch),
            None => self.epoch.to_string(),
        }
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (epoch, value) = match text.split_once(' ') {
            Some((epoch, value)) => (epoch, Some(value)),
            None => (text, None),
        };
        Some(Self::new(epoch.parse().ok()?, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for value in [None, Some(""), Some("10.0.0.7:80"), Some(" a\nb c ")] {
            let content = Content::new(41, value);
            assert_eq!(Content::read(content.write().as_bytes()), Some(content));
        }
        for bytes in [&b""[..], b"x y", b" x", b"-1 x", b"\xff"] {
            assert_eq!(Content::read(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_value_counts_only_while_its_writer_holds_the_lock() {
        let holder = |epoch| Holder {
            epoch,
            ..Holder::new("web-1:7")
        };
        let content = || Some(Content::new(41, Some("web-1")));
        let entry = leader(content(), Some(holder(Some(41)))).expect("a leader");
        assert_eq!(
            (entry.epoch, &*entry.value, &*entry.label),
            (41, "web-1", "web-1:7")
        );
        assert_eq!(leader(content(), Some(holder(Some(42)))), None);
        assert_eq!(leader(content(), Some(holder(None))), None);
        assert_eq!(leader(content(), None), None);
        assert_eq!(leader(None, Some(holder(Some(41)))), None);
        let resigned = Some(Content::new(41, None));
        assert_eq!(leader(resigned, Some(holder(Some(41)))), None);
    }
}
