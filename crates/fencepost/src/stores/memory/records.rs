//! The records of the memory store: a map, and a bell that rings with every change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use crate::backend::records::{RecordKey, RecordKind, Records, Replaced, Snapshot, StoreTime};
use crate::claim::LockName;
use crate::clock::{BoxFuture, Clock, Moment};
use crate::error::Result;
use crate::mutex::lock;

/// The zero of the store's time is the zero of its clock, and the store ends with the process.
const ERA: &str = "";

#[derive(Debug)]
pub(super) struct MemoryRecords {
    clock: Arc<dyn Clock>,
    table: Mutex<Table>,
    bell: Notify,
}

#[derive(Debug, Default)]
struct Table {
    records: HashMap<RecordKey, Stored>,
    versions: u128,
}

#[derive(Debug, Clone)]
struct Stored {
    value: Arc<[u8]>,
    version: u128,
}

impl MemoryRecords {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            table: Mutex::default(),
            bell: Notify::new(),
        }
    }

    fn version_of(&self, key: &RecordKey) -> u128 {
        let table = lock(&self.table);
        table.records.get(key).map_or(0, |stored| stored.version)
    }
}

impl Records for MemoryRecords {
    fn read<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(async move {
            let now = self.clock.now();
            let time = StoreTime {
                now: now.saturating_duration_since(Moment::ZERO),
                era: ERA.into(),
            };
            let snapshot = Snapshot::absent(now).with_time(time);
            Ok(match lock(&self.table).records.get(key).cloned() {
                Some(Stored { value, version }) => snapshot.with_value(value, version),
                None => snapshot,
            })
        })
    }

    fn replace<'a>(
        &'a self,
        key: &'a RecordKey,
        seen: &'a Snapshot,
        value: &'a [u8],
        _keep_for: Duration,
    ) -> BoxFuture<'a, Result<Replaced>> {
        Box::pin(async move {
            {
                let mut table = lock(&self.table);
                let current = table.records.get(key).map_or(0, |stored| stored.version);
                if current != seen.version {
                    return Ok(Replaced::Outdated);
                }
                table.versions += 1;
                let stored = Stored {
                    value: value.into(),
                    version: table.versions,
                };
                table.records.insert(key.clone(), stored);
            }
            self.bell.notify_waiters();
            Ok(Replaced::Yes)
        })
    }

    fn changed<'a>(&'a self, key: &'a RecordKey, seen: &'a Snapshot) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            loop {
                let rung = self.bell.notified();
                tokio::pin!(rung);
                rung.as_mut().enable();
                if self.version_of(key) != seen.version {
                    return;
                }
                rung.await;
            }
        })
    }

    fn names<'a>(&'a self, kind: RecordKind) -> BoxFuture<'a, Result<Vec<LockName>>> {
        Box::pin(async move {
            let table = lock(&self.table);
            let keys = table.records.keys().filter(|key| key.kind == kind);
            Ok(keys.map(|key| key.name.clone()).collect())
        })
    }
}
