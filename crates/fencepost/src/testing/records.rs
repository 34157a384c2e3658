//! The records of a [`FlakyStore`]: reads and replacements fail on demand, too.

use std::time::Duration;

use super::FlakyStore;
use crate::backend::records::{RecordKey, RecordKind, Records, Replaced, Snapshot};
use crate::claim::LockName;
use crate::clock::BoxFuture;
use crate::error::{Operation, Result};

impl FlakyStore {
    fn kept(&self) -> &dyn Records {
        let records = self.inner.records();
        records.expect("`records` returns this only if the inner store has records")
    }
}

impl Records for FlakyStore {
    fn read<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(self.meddle(Operation::ReadRecord, self.kept().read(key)))
    }

    fn replace<'a>(
        &'a self,
        key: &'a RecordKey,
        seen: &'a Snapshot,
        value: &'a [u8],
        keep_for: Duration,
    ) -> BoxFuture<'a, Result<Replaced>> {
        let request = self.kept().replace(key, seen, value, keep_for);
        Box::pin(self.meddle(Operation::ReplaceRecord, request))
    }

    fn changed<'a>(&'a self, key: &'a RecordKey, seen: &'a Snapshot) -> BoxFuture<'a, ()> {
        self.kept().changed(key, seen)
    }

    fn names<'a>(&'a self, kind: RecordKind) -> BoxFuture<'a, Result<Vec<LockName>>> {
        Box::pin(self.meddle(Operation::ReadRecord, self.kept().names(kind)))
    }

    fn may_forget_runs(&self) -> bool {
        self.kept().may_forget_runs()
    }
}
