//! What wakes the keeper: the next moment at which something is due, and doubts about leases.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use crate::claim::OwnerId;
use crate::clock::{Clock, Moment};
use crate::lease::{Lease, lock};

/// With more doubts about single leases than this, all leases are in doubt.
const MANY: usize = 4096;

/// The alarm of one locker. Its keeper sleeps until the alarm goes off.
#[derive(Debug)]
pub(crate) struct Alarm {
    clock: Arc<dyn Clock>,
    /// Nanoseconds of a [`Moment`]; the far future while there is nothing to keep.
    next_look: AtomicU64,
    bell: Notify,
    doubts: Mutex<Doubts>,
    /// Whether there may be a doubt: most of the time there is none, and nobody needs the mutex.
    has_doubts: AtomicBool,
}

/// When the store last cast doubt on leases.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    about_all: Option<Moment>,
    about: HashMap<OwnerId, Moment>,
}

impl Doubts {
    /// Whether the store has cast doubt on this lease since the store was last asked about it.
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
            bell: Notify::new(),
            doubts: Mutex::default(),
            has_doubts: AtomicBool::new(false),
        }
    }

    /// Makes the keeper look by `moment`, if it would not anyway.
    pub(crate) fn wake_by(&self, moment: Moment) {
        if moment.as_nanos() < self.next_look.load(Ordering::SeqCst) {
            self.ring();
        }
    }

    pub(crate) fn ring(&self) {
        self.bell.notify_one();
    }

    /// The keeper looks next at `moment`, unless it is woken.
    pub(crate) fn set(&self, moment: Moment) {
        self.next_look.store(moment.as_nanos(), Ordering::SeqCst);
    }

    /// Completes when somebody rings.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }

    /// The store says that every lease may have ended.
    pub(crate) fn doubt_all(&self) {
        let now = self.clock.now();
        self.doubt(|doubts| doubts.about_all = Some(now));
    }

    /// The store says that the leases of these owners may have ended.
    pub(crate) fn doubt_some(&self, owners: &[OwnerId]) {
        let now = self.clock.now();
        self.doubt(|doubts| {
            doubts
                .about
                .extend(owners.iter().map(|owner| (*owner, now)));
            // A locker that nobody uses has no keeper that would forget them.
            if doubts.about.len() > MANY {
                doubts.about.clear();
                doubts.about_all = Some(now);
            }
        });
    }

    fn doubt(&self, note: impl FnOnce(&mut Doubts)) {
        let mut doubts = lock(&self.doubts);
        note(&mut doubts);
        self.has_doubts.store(true, Ordering::SeqCst);
        drop(doubts);
        self.ring();
    }

    /// Rings if there is doubt about a lease that has just been granted: the keeper may have looked before it was there.
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
        doubts.forget_before(self.clock.now().back(age));
        if doubts.is_empty() {
            self.has_doubts.store(false, Ordering::SeqCst);
        }
        look(&doubts)
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
        for _ in 0..3 * MANY {
            alarm.doubt_some(&[OwnerId::random(&SystemRandom)]);
        }
        let doubts = lock(&alarm.doubts);
        assert!(doubts.about.len() <= MANY);
        assert!(doubts.about_all.is_some(), "none of them is forgotten");
    }
}
