//! Tracks which orders of *this process* wait for and hold the locks of products, with totals since the start.
//!
//! The store sees only one request of this process for each lock. Orders that queue behind it are known only here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::id::Id;

/// The lock of one product, as seen by this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LockState {
    /// Orders of this process that wait.
    pub(crate) waiting: u32,
    /// The fence of the order of this process that holds it, and since when.
    pub(crate) held: Option<(String, Instant)>,
}

/// Totals since the start, and what is held and waited for now.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct LockCounts {
    /// Orders that asked for locks and have an answer.
    pub(crate) attempts: u64,
    /// How many of these did not get their locks.
    pub(crate) failures: u64,
    /// How long the successful ones waited in total.
    pub(crate) waited: Duration,
    /// Locks held now.
    pub(crate) active: u64,
    /// Orders that wait now.
    pub(crate) waiting: u64,
}

/// The waiting and holding orders of this process. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct LockUse(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    seen: Mutex<HashMap<Id, LockState>>,
    attempts: AtomicU64,
    failures: AtomicU64,
    waited_us: AtomicU64,
    waiting_orders: AtomicU64,
}

/// A waiting order; removed from [`LockUse`] on drop.
#[derive(Debug)]
pub(crate) struct Waiting {
    lock_use: LockUse,
    products: Vec<Id>,
    since: Instant,
}

/// A holding order; removed from [`LockUse`] on drop.
#[derive(Debug)]
pub(crate) struct Holding {
    lock_use: LockUse,
    products: Vec<Id>,
    /// When the hold began.
    pub(crate) since: Instant,
}

impl LockUse {
    /// Enters an order that begins to wait.
    pub(crate) fn wait(&self, products: Vec<Id>) -> Waiting {
        self.change(&products, |seen| seen.waiting += 1);
        self.0.waiting_orders.fetch_add(1, Ordering::Relaxed);
        Waiting {
            lock_use: self.clone(),
            products,
            since: Instant::now(),
        }
    }

    /// Returns every lock that an order of this process holds or waits for.
    pub(crate) fn seen(&self) -> HashMap<Id, LockState> {
        let seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clone()
    }

    /// Returns the counts.
    pub(crate) fn counts(&self) -> LockCounts {
        let inner = &*self.0;
        let seen = inner.seen.lock().unwrap_or_else(PoisonError::into_inner);
        LockCounts {
            attempts: inner.attempts.load(Ordering::Relaxed),
            failures: inner.failures.load(Ordering::Relaxed),
            waited: Duration::from_micros(inner.waited_us.load(Ordering::Relaxed)),
            active: seen.values().filter(|seen| seen.held.is_some()).count() as u64,
            waiting: inner.waiting_orders.load(Ordering::Relaxed),
        }
    }

    fn change(&self, products: &[Id], change: impl Fn(&mut LockState)) {
        let mut seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for product in products {
            let entry = seen.entry(product.clone()).or_default();
            change(entry);
            if *entry == LockState::default() {
                seen.remove(product);
            }
        }
    }
}

impl Waiting {
    /// Returns how long the order has waited.
    pub(crate) fn waited(&self) -> Duration {
        self.since.elapsed()
    }

    /// Enters that the order got its locks, with a fence for each product.
    pub(crate) fn granted(self, fences: &[String]) -> Holding {
        let (lock_use, now) = (self.lock_use.clone(), Instant::now());
        lock_use.0.attempts.fetch_add(1, Ordering::Relaxed);
        let waited = u64::try_from(self.waited().as_micros()).unwrap_or(u64::MAX);
        lock_use.0.waited_us.fetch_add(waited, Ordering::Relaxed);
        let products = self.products.clone();
        for (product, fence) in products.iter().zip(fences) {
            lock_use.change(std::slice::from_ref(product), |seen| {
                seen.held = Some((fence.clone(), now));
            });
        }
        drop(self);
        Holding {
            lock_use,
            products,
            since: now,
        }
    }

    /// Enters that the order did not get its locks.
    pub(crate) fn refused(self) {
        self.lock_use.0.attempts.fetch_add(1, Ordering::Relaxed);
        self.lock_use.0.failures.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.lock_use.change(&self.products, |seen| {
            seen.waiting = seen.waiting.saturating_sub(1)
        });
        self.lock_use
            .0
            .waiting_orders
            .fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let since = self.since;
        // The next order in the queue may already hold the lock.
        self.lock_use.change(&self.products, |seen| {
            seen.held.take_if(|(_, held_since)| *held_since == since);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_is_gone_is_not_counted() {
        let lock_use = LockUse::default();
        let products = vec![Id::new("a").unwrap(), Id::new("b").unwrap()];
        let first = lock_use.wait(products.clone());
        let second = lock_use.wait(products);
        assert_eq!(lock_use.counts().waiting, 2);
        let held = first.granted(&["7.0".into(), "8.0".into()]);
        let seen = lock_use.seen();
        let seen = &seen[&Id::new("b").unwrap()];
        assert_eq!((seen.waiting, &*seen.held.as_ref().unwrap().0), (1, "8.0"));
        assert_eq!(lock_use.counts().active, 2);
        second.refused();
        drop(held);
        assert!(lock_use.seen().is_empty());
        let counts = lock_use.counts();
        assert_eq!((counts.attempts, counts.failures, counts.active), (2, 1, 0));
    }
}
