//! One record of a store, which tests read, replace and wait for.

use std::time::Duration;

use fencepost::backend::records::{RecordKey, RecordKind, Records, Replaced, Snapshot};
use fencepost::{Backend, Error, LockName};

use crate::{NAME, soon};

/// Returns where the record is.
pub fn key() -> RecordKey {
    RecordKey {
        kind: RecordKind::Shares,
        name: LockName::new(NAME).expect("a valid name"),
    }
}

/// Returns the records of the store.
pub fn records(store: &impl Backend) -> &dyn Records {
    store.records().expect("the store has records")
}

/// Reads the record.
pub async fn read(store: &impl Backend) -> Snapshot {
    let seen = soon("a record", records(store).read(&key())).await;
    seen.expect("an answer")
}

/// Replaces the record in `seen`, and returns the answer.
pub async fn try_replace(
    store: &impl Backend,
    seen: &Snapshot,
    value: &[u8],
) -> Result<Replaced, Error> {
    let key = key();
    let replaced = records(store).replace(&key, seen, value, Duration::ZERO);
    soon("a replacement", replaced).await
}

/// Replaces the record in `seen`.
pub async fn replace(store: &impl Backend, seen: &Snapshot, value: &[u8]) -> Replaced {
    let replaced = try_replace(store, seen, value).await;
    replaced.expect("an answer")
}

/// Replaces the record, which nobody else replaces.
pub async fn put(store: &impl Backend, value: &[u8]) {
    let seen = read(store).await;
    assert_eq!(replace(store, &seen, value).await, Replaced::Yes);
}

/// Grants an epoch to whoever asks, as a semaphore does: the record contains the last one.
pub async fn grant(store: &impl Backend) -> u64 {
    let seen = read(store).await;
    let last = seen.value.as_deref().map_or(0, |last| {
        u64::from_be_bytes(last.try_into().expect("eight bytes"))
    });
    let epoch = seen.epoch_floor.max(last + 1);
    let replaced = replace(store, &seen, &epoch.to_be_bytes()).await;
    assert_eq!(replaced, Replaced::Yes);
    epoch
}

/// Waits until the record is no longer the one in `seen`.
pub async fn next(store: &impl Backend, seen: &Snapshot) -> Snapshot {
    loop {
        soon("a hint", records(store).changed(&key(), seen)).await;
        let now = read(store).await;
        if now.version != seen.version {
            return now;
        }
    }
}
