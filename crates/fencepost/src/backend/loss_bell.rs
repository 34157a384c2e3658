//! [`LossBell`]: how a backend tells its lockers that leases may have ended early.

use std::sync::{Arc, Mutex, Weak};

use crate::claim::OwnerId;
use crate::mutex::lock;

/// What listens to a bell: the locker's part that renews leases.
pub(crate) trait LossListener: Send + Sync {
    /// Records that every lease may have ended.
    fn doubt_all(&self);

    /// Records that the leases of these owners may have ended.
    fn doubt_some(&self, owners: &[OwnerId]);
}

/// The bell that a backend rings when it learns that leases may have ended early: the connection or session that held
/// them is gone, or the server said that they were taken away.
///
/// A backend owns one bell and returns it from [`Backend::loss_bell`](super::Backend::loss_bell). Every [`Locker`](crate::Locker) that uses
/// the backend listens to it. When the bell rings, the locker renews the leases in question at once, and the answer decides: after
/// [`Renewal::Lost`](super::Renewal::Lost) the holder is told, after an extension the lease continues, and after a failed renewal the lock
/// is not lost until the lease ends.
///
/// Ringing too often does no harm. A locker renews one lease at most every 100 ms (or tenth of its TTL) because of the
/// bell, and a lease whose last renewal failed waits for its next attempt as usual. A locker without keep-alive renews
/// nothing, so it does not react.
#[derive(Debug, Default)]
pub struct LossBell {
    listeners: Mutex<Vec<Weak<dyn LossListener>>>,
}

impl LossBell {
    /// Creates a bell that nobody listens to yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reports that the leases of `owners` may have ended. Owners that hold nothing are ignored.
    ///
    /// Does not block and needs no runtime, so it may be called in `Drop`. Update your own state first: a locker may
    /// call [`renew`](super::Backend::renew) before this returns.
    pub fn ring(&self, owners: &[OwnerId]) {
        for listener in self.listeners() {
            listener.doubt_some(owners);
        }
    }

    /// Reports that every lease held through this backend may have ended. Otherwise it behaves like [`ring`](Self::ring).
    pub fn ring_all(&self) {
        for listener in self.listeners() {
            listener.doubt_all();
        }
    }

    /// Connects the bell to this listener, for as long as the listener lives.
    pub(crate) fn listen<L: LossListener + 'static>(&self, listener: &Arc<L>) {
        let listener: Weak<L> = Arc::downgrade(listener);
        let mut listeners = lock(&self.listeners);
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(listener);
    }

    fn listeners(&self) -> Vec<Arc<dyn LossListener>> {
        let listeners = lock(&self.listeners);
        listeners.iter().filter_map(Weak::upgrade).collect()
    }
}
