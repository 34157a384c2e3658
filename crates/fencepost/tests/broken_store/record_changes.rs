//! Breaches in the hint that a record may have changed.

use std::future::{pending, ready};
use std::sync::Mutex;

use fencepost::backend::records::{RecordKey, Snapshot};
use fencepost::clock::BoxFuture;

use crate::breach::{Breach, Store, kept, lock};

/// Never says that a record has changed.
#[derive(Debug)]
pub(crate) struct ChangesAreNotTold;

impl Breach for ChangesAreNotTold {
    fn record_changed<'a>(
        &'a self,
        _: &'a Store,
        _: &'a RecordKey,
        _: &'a Snapshot,
    ) -> BoxFuture<'a, ()> {
        Box::pin(pending())
    }
}

/// Waits for the next change after the call.
#[derive(Debug)]
pub(crate) struct EarlierChangesAreNotTold;

impl Breach for EarlierChangesAreNotTold {
    fn record_changed<'a>(
        &'a self,
        store: &'a Store,
        key: &'a RecordKey,
        _: &'a Snapshot,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Ok(now) = kept(store).read(key).await {
                kept(store).changed(key, &now).await;
            }
        })
    }
}

/// Always says that the record may have changed.
#[derive(Debug)]
pub(crate) struct AlwaysChanged;

impl Breach for AlwaysChanged {
    fn record_changed<'a>(
        &'a self,
        _: &'a Store,
        _: &'a RecordKey,
        _: &'a Snapshot,
    ) -> BoxFuture<'a, ()> {
        Box::pin(ready(()))
    }
}

/// Tells one waiter of a change. The others of the same record wait for ever.
#[derive(Debug, Default)]
pub(crate) struct OneIsTold(Mutex<Vec<RecordKey>>);

impl Breach for OneIsTold {
    fn record_changed<'a>(
        &'a self,
        store: &'a Store,
        key: &'a RecordKey,
        seen: &'a Snapshot,
    ) -> BoxFuture<'a, ()> {
        let mut waiting = lock(&self.0);
        if waiting.contains(key) {
            return Box::pin(pending());
        }
        waiting.push(key.clone());
        kept(store).changed(key, seen)
    }
}
