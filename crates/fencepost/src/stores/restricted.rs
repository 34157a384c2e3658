//! [`Restricted`]: a store that was opened to look at its locks, and perhaps to release them, but not to take any.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::leaders::{Leaders, Proclamation, Standing};
use crate::backend::records::{RecordKey, RecordKind, Records, Replaced, Snapshot};
use crate::backend::{Backend, Capabilities, Listed, Record, Release, Renewal};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::{BoxFuture, Clock};
use crate::error::{Error, ErrorKind, Operation, Result};

/// What may be done with the locks of a store besides looking at them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allowed {
    Nothing,
    Release,
}

/// A store that refuses what is not [allowed](Allowed), before it asks the store behind it. Waiting is refused, too, because the default
/// [`Backend::acquire`] begins with a try.
#[derive(Debug)]
pub(super) struct Restricted {
    pub(super) store: Arc<dyn Backend>,
    pub(super) allowed: Allowed,
}

impl Restricted {
    fn refused(&self, operation: Operation) -> Error {
        let message = match self.allowed {
            Allowed::Nothing => {
                "this store was opened only to look at locks; open it with `open_to_release` or `open` for more"
            }
            Allowed::Release => {
                "this store was opened only to look at locks and to release them; open it with `open` for more"
            }
        };
        Error::new(ErrorKind::Unusable, self.store_name(), operation, message)
    }
}

impl Backend for Restricted {
    fn store_name(&self) -> &'static str {
        self.store.store_name()
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.store.clock()
    }

    fn try_acquire<'a>(&'a self, _: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>> {
        Box::pin(async { Err(self.refused(Operation::Acquire)) })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        let refused = |_| Err(self.refused(Operation::Renew));
        Box::pin(async move { claims.iter().map(refused).collect() })
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Release>> {
        match self.allowed {
            Allowed::Release => self.store.release(claim),
            Allowed::Nothing => Box::pin(async { Err(self.refused(Operation::Release)) }),
        }
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Record>>> {
        self.store.inspect(name)
    }

    fn list<'a>(&'a self, pattern: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Listed>>> {
        self.store.list(pattern)
    }

    fn records(&self) -> Option<&dyn Records> {
        self.store.records().map(|_| self as &dyn Records)
    }

    fn leaders(&self) -> Option<&dyn Leaders> {
        self.store.leaders().map(|_| self as &dyn Leaders)
    }
}

impl Restricted {
    fn kept_records(&self) -> &dyn Records {
        let records = self.store.records();
        records.expect("`records` returns this only if the store has records")
    }

    fn kept_leaders(&self) -> &dyn Leaders {
        let leaders = self.store.leaders();
        leaders.expect("`leaders` returns this only if the store has leaders")
    }
}

/// Whoever asks for the permits of a semaphore or for a leader only looks.
impl Records for Restricted {
    fn read<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Result<Snapshot>> {
        self.kept_records().read(key)
    }

    fn replace<'a>(
        &'a self,
        _: &'a RecordKey,
        _: &'a Snapshot,
        _: &'a [u8],
        _: Duration,
    ) -> BoxFuture<'a, Result<Replaced>> {
        Box::pin(async { Err(self.refused(Operation::ReplaceRecord)) })
    }

    fn changed<'a>(&'a self, key: &'a RecordKey, seen: &'a Snapshot) -> BoxFuture<'a, ()> {
        self.kept_records().changed(key, seen)
    }

    fn names<'a>(&'a self, kind: RecordKind) -> BoxFuture<'a, Result<Vec<LockName>>> {
        self.kept_records().names(kind)
    }
}

impl Leaders for Restricted {
    fn proclaim<'a>(
        &'a self,
        _: &'a Claim,
        _: u64,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Proclamation>> {
        Box::pin(async { Err(self.refused(Operation::ReplaceRecord)) })
    }

    fn leader<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Standing>> {
        self.kept_leaders().leader(name)
    }

    fn changed<'a>(&'a self, name: &'a LockName, seen: &'a Standing) -> BoxFuture<'a, ()> {
        self.kept_leaders().changed(name, seen)
    }
}
