//! `reentrant`: a lock in the program's own memory that its holder may acquire again.
//!
//! What is wrong: the same as with `mutex`. Re-entry prevents a thread from deadlocking with itself, but does nothing between
//! processes. Seen as `ReentrantLock` around the purchase of a service that runs in more than one instance.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use crate::protocol::{Claims, Promise, Purchase};
use crate::store::stock::Stock;
use crate::strategy::direct;
use crate::strategy::{Failure, Group, Order, Origin, Remark, Stores, Strategy, read_work_write};

/// The entry in the list of strategies.
pub static STRATEGY: Strategy = Strategy {
    name: "reentrant",
    origin: Origin::Ours,
    group: Group::OneProcess,
    stores: Stores::KeepingStock,
    summary: "as mutex, and its holder may take it again",
    gloss: "in memory",
    flaw: Some(
        "reentrant is a lock in one process's memory: every other process has one of its own.",
    ),
    promise: Promise::Exclusion,
    claims: Claims::PLAIN,
    has_line: false,
    remark: Remark::Broken("the same"),
    open: |setup| direct::buyer(setup, check_out),
    lock: None,
};

/// One lock for the whole process.
static PURCHASE: ReentrantLock = ReentrantLock {
    holder: Mutex::new(None),
    freed: Condvar::new(),
};

/// A lock that the holding thread may acquire again.
struct ReentrantLock {
    holder: Mutex<Option<(ThreadId, u32)>>,
    freed: Condvar,
}

/// Releases one level of the lock when dropped.
struct Entered<'a> {
    lock: &'a ReentrantLock,
    contended: bool,
}

impl ReentrantLock {
    fn enter(&self) -> Entered<'_> {
        let me = thread::current().id();
        let mut contended = false;
        let mut holder = self.state();
        loop {
            match &mut *holder {
                Some((thread, depth)) if *thread == me => *depth += 1,
                Some(_) => {
                    contended = true;
                    let freed = self.freed.wait(holder);
                    holder = freed.unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                free => *free = Some((me, 1)),
            }
            return Entered {
                lock: self,
                contended,
            };
        }
    }

    fn state(&self) -> MutexGuard<'_, Option<(ThreadId, u32)>> {
        self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut holder = self.lock.state();
        match &mut *holder {
            Some((_, depth)) if *depth > 1 => *depth -= 1,
            last => {
                *last = None;
                self.lock.freed.notify_one();
            }
        }
    }
}

fn check_out(stock: &mut dyn Stock, order: &Order) -> Result<Purchase, Failure> {
    let entered = PURCHASE.enter();
    let bought = reserve(stock, order)?;
    Ok(Purchase {
        contended: entered.contended,
        ..bought
    })
}

/// Acquires the lock too, because it can also be called on its own.
fn reserve(stock: &mut dyn Stock, order: &Order) -> Result<Purchase, Failure> {
    let _again = PURCHASE.enter();
    read_work_write(stock, order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_holder_may_enter_again_and_others_wait_for_the_last_to_leave() {
        let lock = ReentrantLock {
            holder: Mutex::new(None),
            freed: Condvar::new(),
        };
        let outer = lock.enter();
        drop(lock.enter());
        thread::scope(|scope| {
            let other = scope.spawn(|| lock.enter().contended);
            while lock.state().is_some_and(|(_, depth)| depth != 1) {}
            assert!(!other.is_finished(), "the outer one is still held");
            thread::sleep(std::time::Duration::from_millis(20));
            assert!(!other.is_finished(), "the outer one is still held");
            drop(outer);
            assert!(other.join().unwrap());
        });
        assert!(lock.state().is_none());
    }
}
