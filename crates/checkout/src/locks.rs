//! Takes the locks of an order, all or none, through a circuit breaker and with a limit on waiting.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use fencepost::random::{Random, SystemRandom};
use fencepost::resource::Credential;
use fencepost::retry::Schedule;
use fencepost::{ErrorKind, Guard, Locker, MultiGuard};
use metrics::counter;

use crate::breaker::{Breaker, BreakerSettings, BreakerState, Permit};
use crate::events::{BreakerChange, Event, Events, Fenced};
use crate::id::Id;
use crate::order::Basket;

mod in_use;
pub(crate) mod names;
pub(crate) mod view;

use in_use::{Holding, LockUse, Waiting};
use names::lock_name;

/// How to wait for locks that are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitMode {
    /// Queue for as long as all pauses of the schedule together: first come, first served, notified when the lock is free.
    Line,
    /// Ask again after each pause.
    Poll,
}

/// How long to wait for locks that are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitPolicy {
    /// The pauses.
    pub schedule: Schedule,
    /// How many of them.
    pub retries: u32,
    /// What to do between tries.
    pub mode: WaitMode,
}

impl Default for WaitPolicy {
    fn default() -> Self {
        Self {
            schedule: Schedule::fixed(Duration::from_millis(50)),
            retries: 10,
            mode: WaitMode::Line,
        }
    }
}

impl WaitPolicy {
    /// Returns the pauses of one order.
    pub fn pauses(&self) -> Vec<Duration> {
        let random: &dyn Random = &SystemRandom;
        let count = usize::try_from(self.retries).unwrap_or(usize::MAX);
        self.schedule.delays(random).take(count).collect()
    }

    /// Returns the sum of the pauses at most. Those of a schedule with jitter may be shorter.
    pub fn longest_wait(&self) -> Duration {
        let pauses = (0..self.retries).map(|retry| self.schedule.delay(retry, &Highest));
        pauses.fold(Duration::ZERO, Duration::saturating_add)
    }
}

/// A source of randomness that always chooses the longest pause.
#[derive(Debug)]
struct Highest;

impl Random for Highest {
    fn next_u64(&self) -> u64 {
        u64::MAX
    }
}

/// Why an order has no locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotGranted {
    /// Another order holds one of them, or one was lost while the others were awaited.
    Busy,
    /// The lock store is unavailable; retry after this time.
    StoreDown(Duration),
}

/// If an order gives up within this time after the store's last answer, other orders were the reason, not the store.
const RECENT_ANSWER: Duration = Duration::from_secs(1);

/// The locks of all orders.
pub struct Locks {
    locker: Locker,
    /// When the store last answered an order.
    answered: Mutex<Option<Instant>>,
    breaker: Breaker,
    open_for: Duration,
    wait_policy: WaitPolicy,
    lock_use: LockUse,
    events: Events,
}

/// The locks of one order. Release them with [`release`](Self::release).
#[must_use]
pub struct OrderLocks {
    // Declared before the guards, so that it is dropped while nobody else can hold the locks.
    holding: Holding,
    guards: MultiGuard,
    products: Vec<Id>,
}

impl Locks {
    /// Creates locks that use this locker.
    pub fn new(
        locker: Locker,
        breaker: BreakerSettings,
        wait_policy: WaitPolicy,
        events: Events,
    ) -> Self {
        Self {
            locker,
            answered: Mutex::new(None),
            breaker: Breaker::new(breaker),
            open_for: breaker.open_for,
            wait_policy,
            lock_use: LockUse::default(),
            events,
        }
    }

    /// Returns the locker underneath.
    pub fn locker(&self) -> &Locker {
        &self.locker
    }

    /// Returns the orders of this process that wait for and hold locks.
    pub(crate) fn lock_use(&self) -> &LockUse {
        &self.lock_use
    }

    /// Returns the state of the breaker around the lock store.
    pub fn breaker_state(&self) -> BreakerState {
        self.breaker.state(Instant::now())
    }

    /// Returns how long to wait for locks, and how.
    pub fn wait_policy(&self) -> &WaitPolicy {
        &self.wait_policy
    }

    /// Takes the locks of all products of a basket. Waits until the deadline at most.
    ///
    /// # Errors
    /// Returns [`NotGranted`]; then no lock is held.
    ///
    /// # Cancel safety
    /// If the future is dropped, no lock is held: locks that were taken are released in the background.
    pub async fn take(&self, basket: &Basket, until: Instant) -> Result<OrderLocks, NotGranted> {
        let products = basket.lines().iter().map(|line| line.product_id.clone());
        let products: Vec<Id> = products.collect();
        let permit = self.breaker.try_pass(Instant::now());
        let permit = permit.map_err(NotGranted::StoreDown)?;
        self.events.tell(|| Event::LockWanted {
            products: products.clone(),
        });
        let names: Vec<String> = products.iter().map(lock_name).collect();
        let mut wait = pin!(self.wait(&names, until));
        // Poll once first, so that an order that is counted as waiting is already in the queue.
        let first = poll_fn(|context| Poll::Ready(wait.as_mut().poll(context))).await;
        let waiting = self.lock_use.wait(products.clone());
        let answer = match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => wait.await,
        };
        match answer {
            Ok(Some(granted)) => {
                self.store_answered(permit);
                Ok(self.granted(granted, products, waiting))
            }
            Ok(None) => {
                self.store_answered(permit);
                waiting.refused();
                self.events.tell(|| Event::LockRefused { products });
                Err(NotGranted::Busy)
            }
            Err(error) => {
                waiting.refused();
                // A lock that was lost while the others were awaited, or a timeout while the store answers others, is no failure of the store.
                let is_contention = error.kind() == ErrorKind::Timeout && self.answered_recently();
                if is_contention || error.kind() == ErrorKind::Lost {
                    self.events.tell(|| Event::LockRefused { products });
                    return Err(NotGranted::Busy);
                }
                self.store_failed(permit, &error);
                Err(NotGranted::StoreDown(self.open_for))
            }
        }
    }

    /// Reports that the locks were granted, and counts the order as their holder.
    fn granted(&self, granted: Granted, products: Vec<Id>, waiting: Waiting) -> OrderLocks {
        let Granted { guards, is_retry } = granted;
        let locks: Vec<Fenced> = products
            .iter()
            .zip(guards.guards())
            .map(|(product, guard)| Fenced {
                product: product.clone(),
                fence: guard.fence().to_string(),
                was_contended: is_retry || guard.was_contended(),
            })
            .collect();
        let fences: Vec<String> = locks.iter().map(|lock| lock.fence.clone()).collect();
        let waited_ms = u64::try_from(waiting.waited().as_millis()).unwrap_or(u64::MAX);
        self.events.tell(|| Event::LockGranted { locks, waited_ms });
        let holding = waiting.granted(&fences);
        OrderLocks {
            guards,
            holding,
            products,
        }
    }

    /// Reports a failure of the lock store to the breaker, and says so if that opens it.
    fn store_failed(&self, permit: Permit<'_>, error: &fencepost::Error) {
        tracing::warn!(store = error.store(), kind = ?error.kind(), "no lock");
        if permit.failed(Instant::now()) {
            tracing::warn!(
                "the lock store failed repeatedly; requests to it are suspended for a while"
            );
            counter!("checkout_breaker_opened_total").increment(1);
            self.events.tell(|| Event::Breaker {
                state: BreakerChange::Open,
            });
        }
    }

    fn store_answered(&self, permit: Permit<'_>) {
        if permit.answered() {
            tracing::warn!("the lock store answers again");
            self.events.tell(|| Event::Breaker {
                state: BreakerChange::Closed,
            });
        }
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        *answered = Some(Instant::now());
    }

    fn answered_recently(&self) -> bool {
        let answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered.is_some_and(|at| at.elapsed() < RECENT_ANSWER)
    }

    async fn wait(&self, names: &[String], until: Instant) -> fencepost::Result<Option<Granted>> {
        let left = || until.saturating_duration_since(Instant::now());
        let pauses = self.wait_policy.pauses();
        if self.wait_policy.mode == WaitMode::Line {
            let timeout = pauses.iter().sum::<Duration>().min(left());
            let names = names.iter().map(String::as_str);
            let granted = self.locker.acquire_all_within(names, timeout).await?;
            return Ok(granted.map(|guards| Granted::new(guards, false)));
        }
        let all = || names.iter().map(String::as_str);
        let mut is_retry = false;
        for pause in pauses {
            let granted = self.locker.try_acquire_all(all()).await?;
            if granted.is_some() || left() <= pause {
                return Ok(granted.map(|guards| Granted::new(guards, is_retry)));
            }
            is_retry = true;
            counter!("checkout_lock_retries_total").increment(1);
            tokio::time::sleep(pause).await;
        }
        let granted = self.locker.try_acquire_all(all()).await?;
        Ok(granted.map(|guards| Granted::new(guards, is_retry)))
    }
}

/// Locks that were granted.
struct Granted {
    guards: MultiGuard,
    /// Whether the first try failed. It is unknown which of the locks was held then.
    is_retry: bool,
}

impl Granted {
    fn new(guards: MultiGuard, is_retry: bool) -> Self {
        Self { guards, is_retry }
    }
}

impl OrderLocks {
    /// Returns the credentials that the database checks, in the order of the basket's lines.
    pub fn credentials(&self) -> Vec<Credential> {
        self.guards.guards().iter().map(Guard::credential).collect()
    }

    /// Returns whether one of the locks is lost.
    pub fn is_lost(&self) -> bool {
        self.guards.is_lost()
    }

    /// Releases all locks.
    ///
    /// # Cancel safety
    /// If the future is dropped, they are released in the background.
    pub async fn release(self, events: &Events) {
        let held = self.holding.since.elapsed();
        let lost = self.is_lost();
        let products = self.products;
        // Leave `lock_use` first: as soon as the lock is free, the next order enters itself there.
        drop(self.holding);
        self.guards.release().await;
        events.tell(|| Event::LockReleased {
            products,
            held_ms: u64::try_from(held.as_millis()).unwrap_or(u64::MAX),
            lost,
        });
    }
}
