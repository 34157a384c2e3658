//! Stores without records or without a clock, and one whose replacements come late.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost::backend::records::{RecordKey, RecordKind, Records, Replaced, Snapshot};
use fencepost::backend::{LossBell, Wait};
use fencepost::clock::{BoxFuture, Clock};
use fencepost::stores::memory::Memory;
use fencepost::testing::FakeClock;
use fencepost::{Backend, Claim, Grant, LockName, Result};

use crate::forward::forward;
use crate::stage::{key, records};

/// A store of locks alone.
#[derive(Debug)]
pub(crate) struct WithoutRecords {
    pub(crate) inner: Memory,
}

impl Backend for WithoutRecords {
    forward!(try_acquire, acquire, renew, release, inspect, list);

    fn store_name(&self) -> &'static str {
        "plain"
    }
    fn capabilities(&self) -> fencepost::backend::Capabilities {
        self.inner.capabilities().records(false)
    }
}

/// A store that changes what is read.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) inner: Arc<Memory>,
    pub(crate) change: fn(Snapshot) -> Snapshot,
}

macro_rules! odd_records {
    ($name:literal) => {
        forward!(try_acquire, renew, release, inspect, list);

        fn store_name(&self) -> &'static str {
            $name
        }
        fn capabilities(&self) -> fencepost::backend::Capabilities {
            self.inner.capabilities()
        }
        fn clock(&self) -> Arc<dyn Clock> {
            self.inner.clock()
        }
        fn acquire<'a>(&'a self, claim: &'a Claim, wait: &'a Wait) -> BoxFuture<'a, Result<Grant>> {
            self.inner.acquire(claim, wait)
        }
        fn records(&self) -> Option<&dyn Records> {
            Some(self)
        }
    };
}

impl Backend for Reading {
    odd_records!("odd");
}

impl Records for Reading {
    fn read<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(async move { Ok((self.change)(records(&*self.inner).read(key).await?)) })
    }
    fn replace<'a>(
        &'a self,
        key: &'a RecordKey,
        seen: &'a Snapshot,
        value: &'a [u8],
        keep_for: Duration,
    ) -> BoxFuture<'a, Result<Replaced>> {
        records(&*self.inner).replace(key, seen, value, keep_for)
    }
    fn changed<'a>(&'a self, key: &'a RecordKey, seen: &'a Snapshot) -> BoxFuture<'a, ()> {
        records(&*self.inner).changed(key, seen)
    }
    fn names<'a>(&'a self, kind: RecordKind) -> BoxFuture<'a, Result<Vec<LockName>>> {
        records(&*self.inner).names(kind)
    }
}

/// A store with a bell.
#[derive(Debug)]
pub(crate) struct Ringing {
    pub(crate) inner: Arc<Memory>,
    pub(crate) bell: LossBell,
}

impl Backend for Ringing {
    forward!(
        capabilities,
        try_acquire,
        acquire,
        renew,
        release,
        inspect,
        list
    );

    fn store_name(&self) -> &'static str {
        "ringing"
    }
    fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock()
    }
    fn loss_bell(&self) -> Option<&LossBell> {
        Some(&self.bell)
    }
}

/// A store that keeps the next replacements to itself, until it is told to carry them out.
#[derive(Debug)]
pub(crate) struct Late {
    inner: Arc<Memory>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many of the next replacements are kept back.
    keeps_back: usize,
    kept: Vec<(Snapshot, Vec<u8>)>,
}

impl Late {
    pub(crate) fn new(clock: &Arc<FakeClock>) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::new(Memory::with_clock(clock.clone())),
            state: Mutex::default(),
        })
    }

    pub(crate) fn keep_back(&self, count: usize) {
        self.state.lock().expect("not poisoned").keeps_back = count;
    }

    /// Carries out what was kept back. Returns what became of it.
    pub(crate) async fn deliver(&self) -> Vec<Replaced> {
        let kept = std::mem::take(&mut self.state.lock().expect("not poisoned").kept);
        let mut outcomes = Vec::new();
        for (seen, value) in kept {
            let key = key();
            let replaced = records(&*self.inner).replace(&key, &seen, &value, Duration::MAX);
            outcomes.push(replaced.await.expect("an answer"));
        }
        outcomes
    }

    /// Returns whether the next replacement is kept back.
    fn keeps(&self, seen: &Snapshot, value: &[u8]) -> bool {
        let mut state = self.state.lock().expect("not poisoned");
        if state.keeps_back == 0 {
            return false;
        }
        state.keeps_back -= 1;
        state.kept.push((seen.clone(), value.to_vec()));
        true
    }
}

impl Backend for Late {
    odd_records!("late");
}

impl Records for Late {
    fn read<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Result<Snapshot>> {
        records(&*self.inner).read(key)
    }
    fn replace<'a>(
        &'a self,
        key: &'a RecordKey,
        seen: &'a Snapshot,
        value: &'a [u8],
        keep_for: Duration,
    ) -> BoxFuture<'a, Result<Replaced>> {
        if self.keeps(seen, value) {
            return Box::pin(std::future::pending());
        }
        records(&*self.inner).replace(key, seen, value, keep_for)
    }
    fn changed<'a>(&'a self, key: &'a RecordKey, seen: &'a Snapshot) -> BoxFuture<'a, ()> {
        records(&*self.inner).changed(key, seen)
    }
    fn names<'a>(&'a self, kind: RecordKind) -> BoxFuture<'a, Result<Vec<LockName>>> {
        records(&*self.inner).names(kind)
    }
}
