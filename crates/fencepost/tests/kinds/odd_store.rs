//! A memory store whose records can be contended without end, or be answered late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fencepost::backend::records::{RecordKey, RecordKind, Records, Replaced, Snapshot};
use fencepost::backend::{Capabilities, Listed, LossBell, Record, Release, Renewal, Wait};
use fencepost::clock::{BoxFuture, Clock};
use fencepost::stores::memory::Memory;
use fencepost::testing::FakeClock;
use fencepost::{Backend, Claim, Grant, LockName, Result};

#[derive(Debug)]
pub(crate) struct OddStore {
    inner: Memory,
    pub(crate) bell: LossBell,
    /// Whether somebody else is always faster with the record of the name `hot`.
    pub(crate) is_hot: AtomicBool,
    /// Replacements are executed at once, and answered this many milliseconds later.
    pub(crate) late_ms: AtomicU64,
}

impl OddStore {
    pub(crate) fn new(clock: Arc<FakeClock>) -> Arc<Self> {
        Arc::new(Self {
            inner: Memory::with_clock(clock),
            bell: LossBell::new(),
            is_hot: AtomicBool::new(false),
            late_ms: AtomicU64::new(0),
        })
    }

    fn kept(&self) -> &dyn Records {
        self.inner.records().unwrap()
    }
}

impl Backend for OddStore {
    fn store_name(&self) -> &'static str {
        "odd"
    }
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
    fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock()
    }
    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>> {
        self.inner.try_acquire(claim)
    }
    fn acquire<'a>(&'a self, claim: &'a Claim, wait: &'a Wait) -> BoxFuture<'a, Result<Grant>> {
        self.inner.acquire(claim, wait)
    }
    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        self.inner.renew(claims)
    }
    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Release>> {
        self.inner.release(claim)
    }
    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Record>>> {
        self.inner.inspect(name)
    }
    fn list<'a>(&'a self, pattern: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Listed>>> {
        self.inner.list(pattern)
    }
    fn loss_bell(&self) -> Option<&LossBell> {
        Some(&self.bell)
    }
    fn records(&self) -> Option<&dyn Records> {
        Some(self)
    }
}

impl Records for OddStore {
    fn read<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Result<Snapshot>> {
        self.kept().read(key)
    }

    fn replace<'a>(
        &'a self,
        key: &'a RecordKey,
        seen: &'a Snapshot,
        value: &'a [u8],
        keep_for: Duration,
    ) -> BoxFuture<'a, Result<Replaced>> {
        Box::pin(async move {
            if key.name.as_str() == "hot" && self.is_hot.load(Ordering::SeqCst) {
                return Ok(Replaced::Outdated);
            }
            let replaced = self.kept().replace(key, seen, value, keep_for).await;
            let late = Duration::from_millis(self.late_ms.load(Ordering::SeqCst));
            let clock = self.clock();
            clock.sleep_until(clock.now() + late).await;
            replaced
        })
    }

    fn changed<'a>(&'a self, key: &'a RecordKey, seen: &'a Snapshot) -> BoxFuture<'a, ()> {
        self.kept().changed(key, seen)
    }

    fn names<'a>(&'a self, kind: RecordKind) -> BoxFuture<'a, Result<Vec<LockName>>> {
        self.kept().names(kind)
    }
}
