//! The alarm that wakes the keeper: when something is due, or when a store doubts that leases still exist.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use crate::backend::LossListener;
use crate::claim::OwnerId;
use crate::clock::{Clock, Moment};
use crate::lease::Lease;
use crate::mutex::lock;

/// If there are doubts about more single leases than this, all leases are in doubt.
const MAX_SINGLE_DOUBTS: usize = 4096;

/// The alarm of one locker. Its keeper sleeps until the alarm goes off.
#[derive(Debug)]
pub(crate) struct Alarm {
    clock: Arc<dyn Clock>,
    /// Nanoseconds of a [`Moment`]; the far future if there is nothing to keep.
    next_look: AtomicU64,
    wake: Notify,
    doubts: Mutex<Doubts>,
    /// Whether there may be a doubt. Usually there is none, and readers skip the mutex.
    has_doubts: AtomicBool,
}

/// The leases that a store doubts, and since when.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    about_all: Option<Moment>,
    about: HashMap<OwnerId, Moment>,
}

impl Doubts {
    /// Returns whether the store has doubted this lease since the store was last asked about it.
    pub(crate) fn concern(&self, lease: &Lease) -> bool {
        let about_it = self.about.get(&lease.claim.owner).copied();
        self.about_all.max(about_it) >= Some(lease.asked_at())
    }

    fn forget_before(&mut self, moment: Moment) {
        self.about_all = self.about_all.filter(|at| *at >= moment);
        self.about.retain(|_, at| *at >= moment);
    }

    fn is_empty(&self) -> bool {
        self.about_all.is_none() && self.about.is_empty()
    }
}

impl Alarm {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            next_look: AtomicU64::new(Moment::FAR.as_nanos()),
            wake: Notify::new(),
            doubts: Mutex::default(),
            has_doubts: AtomicBool::new(false),
        }
    }

    /// Makes the keeper look at `moment` at the latest.
    pub(crate) fn wake_by(&self, moment: Moment) {
        if moment.as_nanos() < self.next_look.load(Ordering::SeqCst) {
            self.ring();
        }
    }

    pub(crate) fn ring(&self) {
        self.wake.notify_one();
    }

    /// Sets the moment at which the keeper looks next unless it is woken earlier.
    pub(crate) fn set(&self, moment: Moment) {
        self.next_look.store(moment.as_nanos(), Ordering::SeqCst);
    }

    /// Completes when the alarm rings.
    pub(crate) async fn rung(&self) {
        self.wake.notified().await;
    }

    fn doubt(&self, note: impl FnOnce(&mut Doubts)) {
        let mut doubts = lock(&self.doubts);
        note(&mut doubts);
        self.has_doubts.store(true, Ordering::SeqCst);
        drop(doubts);
        self.ring();
    }

    /// Rings if there is a doubt about a lease that has just been granted, because the keeper may have looked before the lease existed.
    pub(crate) fn ring_if_doubted(&self, lease: &Lease) {
        if self.has_doubts.load(Ordering::SeqCst) && lock(&self.doubts).concern(lease) {
            self.ring();
        }
    }

    /// Calls `look` with the doubts that are not older than `age`.
    pub(crate) fn with_doubts<T>(&self, age: Duration, look: impl FnOnce(&Doubts) -> T) -> T {
        if !self.has_doubts.load(Ordering::SeqCst) {
            return look(&Doubts::default());
        }
        let mut doubts = lock(&self.doubts);
        doubts.forget_before(self.clock.now().saturating_sub(age));
        if doubts.is_empty() {
            self.has_doubts.store(false, Ordering::SeqCst);
        }
        look(&doubts)
    }
}

impl LossListener for Alarm {
    fn doubt_all(&self) {
        let now = self.clock.now();
        self.doubt(|doubts| doubts.about_all = Some(now));
    }

    fn doubt_some(&self, owners: &[OwnerId]) {
        let now = self.clock.now();
        self.doubt(|doubts| {
            doubts
                .about
                .extend(owners.iter().map(|owner| (*owner, now)));
            // A locker that is not in use has no keeper that would clear the doubts.
            if doubts.about.len() > MAX_SINGLE_DOUBTS {
                doubts.about.clear();
                doubts.about_all = Some(now);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::BootClock;
    use crate::random::SystemRandom;

    #[test]
    fn doubts_do_not_pile_up_where_no_keeper_forgets_them() {
        let alarm = Alarm::new(Arc::new(BootClock));
        for _ in 0..3 * MAX_SINGLE_DOUBTS {
            alarm.doubt_some(&[OwnerId::random(&SystemRandom)]);
        }
        let doubts = lock(&alarm.doubts);
        assert!(doubts.about.len() <= MAX_SINGLE_DOUBTS);
        assert!(doubts.about_all.is_some(), "none of them is forgotten");
    }
}
