//! The records of this store, as requests to its thread.

use std::time::Duration;

use tokio::sync::oneshot;

use super::Sqlite;
use super::stored_records::Seen;
use super::worker::Request;
use crate::backend::records::{RecordKey, RecordKind, Records, Replaced, Snapshot};
use crate::claim::LockName;
use crate::clock::{BootClock, BoxFuture, Clock};
use crate::error::{Operation, Result};

impl Records for Sqlite {
    fn read<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Result<Snapshot>> {
        let asked_at = BootClock.now();
        Box::pin(
            self.request(Operation::ReadRecord, move |reply| Request::ReadRecord {
                key: key.clone(),
                asked_at,
                reply,
            }),
        )
    }

    fn replace<'a>(
        &'a self,
        key: &'a RecordKey,
        seen: &'a Snapshot,
        value: &'a [u8],
        _keep_for: Duration,
    ) -> BoxFuture<'a, Result<Replaced>> {
        Box::pin(
            self.request(Operation::ReplaceRecord, |reply| Request::ReplaceRecord {
                key: key.clone(),
                seen: Seen {
                    version: seen.version,
                    asked_at: seen.asked_at,
                },
                value: value.to_vec(),
                reply,
            }),
        )
    }

    fn changed<'a>(&'a self, key: &'a RecordKey, seen: &'a Snapshot) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let (told, change) = oneshot::channel();
            let request = Request::AwaitRecord {
                key: key.clone(),
                version: seen.version,
                told,
            };
            if self.send(Operation::ReadRecord, request).is_ok() {
                // An error means that the thread has given up, for a reason that the next read returns.
                let _ = change.await;
            }
        })
    }

    fn names<'a>(&'a self, kind: RecordKind) -> BoxFuture<'a, Result<Vec<LockName>>> {
        Box::pin(
            self.request(Operation::ReadRecord, move |reply| Request::RecordNames {
                kind,
                reply,
            }),
        )
    }
}
