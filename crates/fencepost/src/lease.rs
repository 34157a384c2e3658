//! One lease at the store, as this process may honestly believe in it.
//!
//! The store counts the lease from when it handled the request; we count from *before* the request was sent and
//! subtract a margin for clocks that run at different speeds. So our belief always ends first. Once anybody here has
//! seen a lease as lost it stays lost, even if a renewal is answered a moment later.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::claim::{Claim, Grant};
use crate::clock::{Clock, Moment};
use crate::error::Error;

/// What clocks of different speed, and the rounding of a store, may cost: a hundredth of the lease and 2 ms.
pub(crate) fn margin(lease: Duration) -> Duration {
    lease / 100 + Duration::from_millis(2)
}

/// How long holders work under the short lease of a waiter before the full one is asked for.
const CLAIMED_FOR: Duration = Duration::from_millis(20);

/// Why a lock was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// The validity ended before a renewal was answered: keep-alive is off, the store was silent, or this process or
    /// machine slept. Somebody else may hold the lock now.
    Expired,
    /// The store answered that this owner holds the lock no longer: it was released by force, evicted, or the store
    /// lost its data.
    Gone,
    /// The [`Locker`](crate::Locker) was shut down while the guard was alive.
    Shutdown,
}

/// The lock was lost while a guard was alive.
#[derive(Debug, Clone)]
pub struct Lost {
    reason: LostReason,
    failed_renewals: u32,
    last_error: Option<Error>,
}

impl Lost {
    /// Why.
    pub fn reason(&self) -> LostReason {
        self.reason
    }

    /// How many renewals in a row had failed.
    pub fn failed_renewals(&self) -> u32 {
        self.failed_renewals
    }

    /// What the last failed renewal said.
    pub fn last_error(&self) -> Option<&Error> {
        self.last_error.as_ref()
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.reason {
            LostReason::Expired => "the lock was lost: its lease ended without renewal",
            LostReason::Gone => "the lock was lost: the store no longer knows this owner",
            LostReason::Shutdown => "the lock was given up: its locker was shut down",
        })?;
        if self.failed_renewals > 0 {
            write!(f, " ({} renewals failed)", self.failed_renewals)?;
        }
        Ok(())
    }
}

impl std::error::Error for Lost {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.last_error.as_ref().map(|error| error as _)
    }
}

/// A lease and our belief in it, shared by every hold under it and by the keeper.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) claim: Claim,
    pub(crate) epoch: u64,
    /// Nanoseconds of a [`Moment`]; only grows.
    valid_until: AtomicU64,
    /// What the store granted at first.
    granted: Duration,
    /// Nanoseconds of a [`Moment`] at which the keeper renews next.
    renew_at: AtomicU64,
    /// Nanoseconds of the [`Moment`] at which the store was last asked about this lease.
    asked_at: AtomicU64,
    failed_renewals: AtomicU32,
    last_error: std::sync::Mutex<Option<Error>>,
    /// Granted for less than the TTL, and not renewed since.
    cut_short: AtomicBool,
    lost: OnceLock<Lost>,
    told: Notify,
}

impl Lease {
    /// A lease granted just now.
    pub(crate) fn new(claim: Claim, grant: Grant, now: Moment) -> Self {
        let lease = Self {
            epoch: grant.epoch,
            valid_until: AtomicU64::new(0),
            granted: grant.lease,
            renew_at: AtomicU64::new(0),
            asked_at: AtomicU64::new(grant.asked_at.as_nanos()),
            failed_renewals: AtomicU32::new(0),
            last_error: std::sync::Mutex::default(),
            cut_short: AtomicBool::new(grant.lease < claim.ttl),
            lost: OnceLock::new(),
            told: Notify::new(),
            claim,
        };
        lease.believe(grant.asked_at, grant.lease);
        if lease.is_cut_short() {
            // Granted while it waited, for a time that is short in case it were dead. Most are given back before it
            // pays to ask for the rest.
            let half = lease.valid_until().back(grant.lease / 2);
            let renew_at = half.min(now + CLAIMED_FOR);
            lease.renew_at.store(renew_at.as_nanos(), Ordering::Release);
        }
        lease
    }

    pub(crate) fn valid_until(&self) -> Moment {
        Moment::from_nanos(self.valid_until.load(Ordering::Acquire))
    }

    pub(crate) fn renew_at(&self) -> Moment {
        Moment::from_nanos(self.renew_at.load(Ordering::Acquire))
    }

    /// The validity left at `now`; zero once lost.
    pub(crate) fn left(&self, now: Moment) -> Duration {
        match self.lost.get() {
            Some(_) => Duration::ZERO,
            None => self.valid_until().since(now),
        }
    }

    /// The loss, if there is one at `now`. The first to notice an expiry makes it known to all.
    pub(crate) fn lost_at(&self, now: Moment) -> Option<&Lost> {
        if self.lost.get().is_none() && now >= self.valid_until() {
            self.lose(LostReason::Expired);
        }
        self.lost.get()
    }

    /// Ends the belief for good, and tells everybody who listens. Later reasons change nothing.
    pub(crate) fn lose(&self, reason: LostReason) -> bool {
        let mut first = false;
        self.lost.get_or_init(|| {
            first = true;
            Lost {
                reason,
                failed_renewals: self.failed_renewals.load(Ordering::Relaxed),
                last_error: lock(&self.last_error).clone(),
            }
        });
        if first {
            self.told.notify_waiters();
        }
        first
    }

    /// When the store was last asked about this lease.
    pub(crate) fn asked_at(&self) -> Moment {
        Moment::from_nanos(self.asked_at.load(Ordering::Acquire))
    }

    /// The store is asked to renew it.
    pub(crate) fn asking(&self, now: Moment) {
        self.asked_at.store(now.as_nanos(), Ordering::Release);
    }

    /// A renewal asked for at `asked_at` was granted for `lease`. Comes too late for a lease already lost.
    pub(crate) fn renewed(&self, asked_at: Moment, lease: Duration) {
        self.failed_renewals.store(0, Ordering::Relaxed);
        *lock(&self.last_error) = None;
        self.cut_short.store(false, Ordering::Relaxed);
        self.believe(asked_at, lease);
    }

    /// A renewal failed: not a loss, the lease runs on. The keeper tries again at `again_at`.
    pub(crate) fn renewal_failed(&self, error: Error, again_at: Moment) {
        self.failed_renewals.fetch_add(1, Ordering::Relaxed);
        *lock(&self.last_error) = Some(error);
        self.renew_at.store(again_at.as_nanos(), Ordering::Release);
    }

    /// Granted for less than the TTL, and not renewed since: most such holds are over before they need to be.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.cut_short.load(Ordering::Relaxed)
    }

    /// How many renewals in a row have failed, and why the last one did.
    pub(crate) fn trouble(&self) -> Option<(u32, Error)> {
        let error = lock(&self.last_error).clone()?;
        Some((self.failed_renewals.load(Ordering::Relaxed), error))
    }

    /// The last renewal failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.failed_renewals.load(Ordering::Relaxed) > 0
    }

    /// The TTL; while it is cut short, what was granted.
    pub(crate) fn length(&self) -> Duration {
        match self.is_cut_short() {
            true => self.granted,
            false => self.claim.ttl,
        }
    }

    /// Granted for `lease`, asked for at `asked_at`. Renewed two thirds of a TTL before the end: time for several attempts before the
    /// lock is lost.
    fn believe(&self, asked_at: Moment, lease: Duration) {
        let end = believed_end(asked_at, lease).as_nanos();
        let end = end.max(self.valid_until.fetch_max(end, Ordering::AcqRel));
        let renew_at = Moment::from_nanos(end).back(self.claim.ttl * 2 / 3);
        self.renew_at.store(renew_at.as_nanos(), Ordering::Release);
    }

    /// Completes with the loss.
    pub(crate) async fn until_lost(&self, clock: &dyn Clock) -> Lost {
        loop {
            let told = self.told.notified();
            tokio::pin!(told);
            // Registered before looking, so that a loss in between is not missed.
            told.as_mut().enable();
            if let Some(lost) = self.lost_at(clock.now()) {
                return lost.clone();
            }
            tokio::select! {
                () = told => {}
                () = clock.sleep_until(self.valid_until()) => {}
            }
        }
    }
}

/// A holder believes from before it asked, for the lease less the margin.
fn believed_end(asked_at: Moment, lease: Duration) -> Moment {
    asked_at + lease.saturating_sub(margin(lease))
}

/// Nothing panics while holding one of this crate's mutexes, and if it did, the data would still be whole.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod simulation;
