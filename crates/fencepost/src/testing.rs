//! For tests of programs that lock: a clock that moves when told to, and a store that fails when told to.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use fencepost::backend::memory::Memory;
//! use fencepost::testing::FakeClock;
//! use fencepost::{Locker, LostReason};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let clock = FakeClock::new();
//! let store = Arc::new(Memory::with_clock(clock.clone()));
//! let locker = Locker::builder(store).ttl(Duration::from_secs(10)).keep_alive(false).build()?;
//!
//! let guard = locker.acquire("report").await?;
//! clock.advance(Duration::from_secs(10));
//! assert_eq!(guard.lost().await.reason(), LostReason::Expired);
//! # Ok::<(), fencepost::Error>(())
//! # }).unwrap();
//! ```

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::backend::{Backend, Capabilities, Record, Release, Renewal, Wait};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::{BoxFuture, Clock, Moment};
use crate::error::{Effect, Error, ErrorKind, Operation, Result};
use crate::lease::lock;

/// A clock that stands still until it is told to move on.
#[derive(Debug)]
pub struct FakeClock {
    state: Mutex<FakeTime>,
}

#[derive(Debug)]
struct FakeTime {
    now: Moment,
    sleepers: Vec<(Moment, Waker)>,
}

impl FakeClock {
    /// A clock that shows one hour after its zero, as a machine that has been up for a while.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(FakeTime {
                now: Moment::ZERO + Duration::from_secs(3600),
                sleepers: Vec::new(),
            }),
        })
    }

    /// Moves on by `by` at once, and wakes whose time has come.
    pub fn advance(&self, by: Duration) {
        let due: Vec<Waker> = {
            let mut state = lock(&self.state);
            state.now = state.now + by;
            let now = state.now;
            let due = state.sleepers.extract_if(.., |(until, _)| *until <= now);
            due.map(|(_, waker)| waker).collect()
        };
        due.into_iter().for_each(Waker::wake);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Moment {
        lock(&self.state).now
    }

    fn sleep_until(&self, until: Moment) -> BoxFuture<'_, ()> {
        Box::pin(std::future::poll_fn(move |context| {
            let mut state = lock(&self.state);
            if state.now >= until {
                return Poll::Ready(());
            }
            state.sleepers.push((until, context.waker().clone()));
            Poll::Pending
        }))
    }
}

/// What goes wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It never reaches the store; the caller is told so.
    Refuse,
    /// It is carried out, and the answer is lost; the caller gets an error that says «maybe».
    LoseAnswer,
    /// It never reaches the store, and no answer comes.
    Swallow,
    /// It is carried out, and no answer comes.
    SwallowAnswer,
}

/// A store that fails when told to, around one that works.
#[derive(Debug)]
pub struct FlakyStore {
    inner: Arc<dyn Backend>,
    faults: Mutex<Faults>,
}

#[derive(Debug, Default)]
struct Faults {
    next: HashMap<Operation, VecDeque<Fault>>,
    every: HashMap<Operation, Fault>,
}

impl FlakyStore {
    /// Passes everything on to `inner` until told otherwise.
    pub fn new(inner: Arc<dyn Backend>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            faults: Mutex::default(),
        })
    }

    /// The next request of this kind goes wrong; called again, the one after it too.
    pub fn fail_next(&self, operation: Operation, fault: Fault) {
        let mut faults = lock(&self.faults);
        faults.next.entry(operation).or_default().push_back(fault);
    }

    /// Every request of this kind goes wrong, until [`heal`](Self::heal).
    pub fn fail_every(&self, operation: Operation, fault: Fault) {
        lock(&self.faults).every.insert(operation, fault);
    }

    /// Everything works again. Requests that were swallowed stay so.
    pub fn heal(&self) {
        *lock(&self.faults) = Faults::default();
    }

    fn fault(&self, operation: Operation) -> Option<Fault> {
        let mut faults = lock(&self.faults);
        let next = faults
            .next
            .get_mut(&operation)
            .and_then(VecDeque::pop_front);
        next.or_else(|| faults.every.get(&operation).copied())
    }

    /// Carries `request` out as far as the fault lets it.
    async fn meddle<T>(
        &self,
        operation: Operation,
        request: BoxFuture<'_, Result<T>>,
    ) -> Result<T> {
        let error = Error::new(
            ErrorKind::Unavailable,
            self.store(),
            operation,
            "told to fail",
        );
        match self.fault(operation) {
            None => request.await,
            Some(Fault::Refuse) => Err(error),
            Some(Fault::LoseAnswer) => {
                let _lost = request.await;
                Err(error.with_effect(Effect::Maybe))
            }
            Some(Fault::Swallow) => std::future::pending().await,
            Some(Fault::SwallowAnswer) => {
                let _lost = request.await;
                std::future::pending().await
            }
        }
    }
}

impl Backend for FlakyStore {
    fn store(&self) -> &'static str {
        self.inner.store()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock()
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>> {
        Box::pin(self.meddle(Operation::Acquire, self.inner.try_acquire(claim)))
    }

    fn acquire<'a>(&'a self, claim: &'a Claim, wait: &'a Wait) -> BoxFuture<'a, Result<Grant>> {
        Box::pin(self.meddle(Operation::Acquire, self.inner.acquire(claim, wait)))
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(async move {
            let request = Box::pin(async move { Ok(self.inner.renew(claims).await) });
            match self.meddle(Operation::Renew, request).await {
                Ok(answers) => answers,
                Err(error) => claims.iter().map(|_| Err(error.clone())).collect(),
            }
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Release>> {
        Box::pin(self.meddle(Operation::Release, self.inner.release(claim)))
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Record>>> {
        Box::pin(self.meddle(Operation::Inspect, self.inner.inspect(name)))
    }
}
