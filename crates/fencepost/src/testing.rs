//! For tests of programs that use locks: a clock that the test moves, a store that fails on demand, and futures that are dropped after a
//! number of polls.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use fencepost::stores::memory::Memory;
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
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::backend::leaders::Leaders;
use crate::backend::records::Records;
use crate::backend::{Backend, Capabilities, Listed, LossBell, Record, Release, Renewal, Wait};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::{BoxFuture, Clock, Moment};
use crate::error::{Effect, Error, ErrorKind, Operation, Result};
use crate::mutex::lock;

mod leaders;
mod records;

/// A clock that stands still until the test moves it.
#[derive(Debug)]
pub struct FakeClock {
    state: Mutex<FakeTime>,
}

#[derive(Debug)]
struct FakeTime {
    now: Moment,
    timers: Vec<Weak<Timer>>,
}

/// How often [`FakeClock::advance_in_steps`] yields after each step, which lets the tasks that the step has woken, and those that they wake, act.
const YIELDS: u32 = 50;

/// One pending sleep.
#[derive(Debug)]
struct Timer {
    until: Moment,
    state: Mutex<TimerState>,
}

#[derive(Debug, Default)]
struct TimerState {
    fired: bool,
    waker: Option<Waker>,
}

impl Timer {
    fn fire(&self) {
        let waker = {
            let mut state = lock(&self.state);
            state.fired = true;
            state.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl FakeClock {
    /// Creates a clock that shows one hour after its zero, like a machine that has been up for a while.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(FakeTime {
                now: Moment::ZERO + Duration::from_secs(3600),
                timers: Vec::new(),
            }),
        })
    }

    /// Moves the clock forward by `by`, and wakes the sleeps that are due.
    pub fn advance(&self, by: Duration) {
        self.jump(by);
        let due: Vec<Arc<Timer>> = {
            let mut state = lock(&self.state);
            let now = state.now;
            let mut due = Vec::new();
            state.timers.retain(|timer| match timer.upgrade() {
                Some(timer) if timer.until <= now => {
                    due.push(timer);
                    false
                }
                Some(_) => true,
                None => false,
            });
            due
        };
        due.iter().for_each(|timer| timer.fire());
    }

    /// Moves the clock forward by `by` in steps of at most `step`, and lets the other tasks of this thread act after each step. For a
    /// current-thread runtime: on other runtimes, tasks of other threads may see several steps at once.
    ///
    /// After each step, the other tasks are polled 50 times. A task that needs more polls for what it does in one step lags behind the clock.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use fencepost::{Locker, stores::memory::Memory, testing::FakeClock};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let clock = FakeClock::new();
    /// let store = Arc::new(Memory::with_clock(clock.clone()));
    /// let locker = Locker::builder(store).ttl(Duration::from_secs(10)).build()?;
    ///
    /// let guard = locker.acquire("report").await?;
    /// clock.advance_in_steps(Duration::from_secs(60), Duration::from_millis(100)).await;
    /// assert!(!guard.is_lost()); // Renewals have kept it.
    /// # Ok::<(), fencepost::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Panics
    /// Panics if `step` is zero.
    ///
    /// # Cancel safety
    /// If the future is dropped, the rest of the steps is left out.
    pub async fn advance_in_steps(&self, by: Duration, step: Duration) {
        assert!(!step.is_zero(), "a step takes some time");
        let mut left = by;
        while !left.is_zero() {
            let next = step.min(left);
            self.advance(next);
            for _ in 0..YIELDS {
                tokio::task::yield_now().await;
            }
            left -= next;
        }
    }

    /// Moves the clock forward by `by` without waking any sleep, as on a machine that was suspended, where timers fire late. The sleeps
    /// wake at the next [`advance`](Self::advance).
    pub fn jump(&self, by: Duration) {
        let mut state = lock(&self.state);
        state.now = state.now + by;
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Moment {
        lock(&self.state).now
    }

    fn sleep_until(&self, until: Moment) -> BoxFuture<'_, ()> {
        let mut started: Option<Arc<Timer>> = None;
        Box::pin(std::future::poll_fn(move |context| {
            let timer = match &started {
                Some(timer) => timer,
                None => {
                    let mut state = lock(&self.state);
                    if state.now >= until {
                        return Poll::Ready(());
                    }
                    let timer = Arc::new(Timer {
                        until,
                        state: Mutex::default(),
                    });
                    state.timers.push(Arc::downgrade(&timer));
                    started.insert(timer)
                }
            };
            let mut state = lock(&timer.state);
            if state.fired {
                return Poll::Ready(());
            }
            state.waker = Some(context.waker().clone());
            Poll::Pending
        }))
    }
}

/// Polls `future` at most `polls` times, whenever the task around it is polled, and then drops it. Returns `None` if it was not ready.
/// For tests of what a dropped future leaves behind.
///
/// The future is dropped within the last poll, so nothing has to wake it once more.
///
/// ```
/// # use std::sync::Arc;
/// # use fencepost::{Locker, stores::memory::Memory, testing::poll_at_most};
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let locker = Locker::new(Arc::new(Memory::new()));
/// let held = locker.acquire("report").await?;
/// assert!(poll_at_most(1, locker.acquire("report")).await.is_none());
/// assert!(held.release().await.is_released());
/// assert!(locker.try_acquire("report").await?.is_some()); // The dropped call left nothing.
/// # Ok::<(), fencepost::Error>(())
/// # }).unwrap();
/// ```
///
/// # Cancel safety
/// Dropping this drops `future`.
pub async fn poll_at_most<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// How a request to a [`FlakyStore`] fails.
///
/// The variants are complete on purpose, so that a test can try each of them: a new variant would be a breaking change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The request never reaches the store, and the caller gets an error that says so.
    Refuse,
    /// The store executes the request, but the answer is lost. The caller gets an error with [`Effect::Maybe`].
    LoseAnswer,
    /// The request never reaches the store, and no answer comes.
    Swallow,
    /// The store executes the request, and no answer comes.
    SwallowAnswer,
}

/// A store that fails on demand, wrapped around a store that works.
#[derive(Debug)]
pub struct FlakyStore {
    inner: Arc<dyn Backend>,
    faults: Mutex<Faults>,
    requests: Mutex<Requests>,
}

#[derive(Debug, Default)]
struct Faults {
    next: HashMap<Operation, VecDeque<Fault>>,
    every: HashMap<Operation, Fault>,
}

/// How many requests of each kind were made.
type Requests = HashMap<Operation, u64>;

impl FlakyStore {
    /// Creates a store that passes everything on to `inner` until a fault is set.
    pub fn new(inner: Arc<dyn Backend>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            faults: Mutex::default(),
            requests: Mutex::default(),
        })
    }

    /// Makes the next request of this kind fail. If called again, the request after that fails too.
    pub fn fail_next(&self, operation: Operation, fault: Fault) {
        let mut faults = lock(&self.faults);
        faults.next.entry(operation).or_default().push_back(fault);
    }

    /// Makes every request of this kind fail, until [`heal`](Self::heal).
    pub fn fail_every(&self, operation: Operation, fault: Fault) {
        lock(&self.faults).every.insert(operation, fault);
    }

    /// Removes all faults. Requests that were swallowed stay unanswered.
    pub fn heal(&self) {
        *lock(&self.faults) = Faults::default();
    }

    /// Returns how many requests of this kind were made so far, including failed ones.
    pub fn requests(&self, operation: Operation) -> u64 {
        lock(&self.requests).get(&operation).copied().unwrap_or(0)
    }

    fn fault(&self, operation: Operation) -> Option<Fault> {
        *lock(&self.requests).entry(operation).or_default() += 1;
        let mut faults = lock(&self.faults);
        let next = faults
            .next
            .get_mut(&operation)
            .and_then(VecDeque::pop_front);
        next.or_else(|| faults.every.get(&operation).copied())
    }

    /// Executes `request` as far as the fault allows.
    async fn meddle<T>(
        &self,
        operation: Operation,
        request: BoxFuture<'_, Result<T>>,
    ) -> Result<T> {
        let error = Error::new(
            ErrorKind::Unavailable,
            self.store_name(),
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
    fn store_name(&self) -> &'static str {
        self.inner.store_name()
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

    fn list<'a>(&'a self, pattern: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Listed>>> {
        Box::pin(self.meddle(Operation::Inspect, self.inner.list(pattern)))
    }

    fn renew_batch_size(&self) -> usize {
        self.inner.renew_batch_size()
    }

    fn max_outage(&self) -> Duration {
        self.inner.max_outage()
    }

    fn loss_bell(&self) -> Option<&LossBell> {
        self.inner.loss_bell()
    }

    fn records(&self) -> Option<&dyn Records> {
        self.inner.records().map(|_| self as &dyn Records)
    }

    fn leaders(&self) -> Option<&dyn Leaders> {
        self.inner.leaders().map(|_| self as &dyn Leaders)
    }
}
