//! One lease at the store, and how long this process may believe that it holds it.
//!
//! The store counts the lease from when it handled the request. We count from *before* the request was sent and subtract a margin for
//! clocks that run at different speeds, so our belief always ends first. Once anybody here has seen a lease as lost, it stays lost, even if
//! the answer to a renewal arrives a moment later.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;

use crate::claim::{Claim, Grant, LockName};
use crate::clock::{Clock, Moment, nanos};
use crate::error::Error;
use crate::mutex::lock;

/// Returns the margin for clocks of different speed and for rounding in the store: a hundredth of the lease plus 2 ms.
pub(crate) fn margin(lease: Duration) -> Duration {
    lease / 100 + Duration::from_millis(2)
}

impl Grant {
    /// Returns until when the owner may believe in this grant.
    pub(crate) fn valid_until(&self) -> Moment {
        believed_end(self.asked_at, self.lease)
    }
}

/// How long holders work under a waiter's short lease before the keeper asks for the full one.
const SHORT_LEASE_GRACE: Duration = Duration::from_millis(20);

/// Why a lock was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// The validity ended before a renewal was answered: keep-alive is off, the store did not answer, or this process or machine slept.
    /// Somebody else may hold the lock now.
    Expired,
    /// The store answered that this owner no longer holds the lock: it was released by force or evicted, or the store lost its data.
    Gone,
    /// The [`Locker`](crate::Locker) was shut down while the guard was alive.
    Shutdown,
    /// The [health check](crate::kinds::election::Election::health_check) of the leader failed.
    Unhealthy,
    /// The run of a job has lasted as long as it [may](crate::kinds::once::Once::at_most).
    OutOfTime,
}

/// The report that a lock was lost while a guard was alive.
#[derive(Debug, Clone)]
pub struct Lost {
    name: LockName,
    reason: LostReason,
    failed_renewals: Option<FailedRenewals>,
}

impl Lost {
    /// Returns the name of the lock. Of several locks that are held together, it is the one whose loss was noticed first.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Returns the reason.
    pub fn reason(&self) -> LostReason {
        self.reason
    }

    /// Returns the renewals that had failed in a row until the loss. Returns `None` if the last renewal had succeeded.
    pub fn failed_renewals(&self) -> Option<&FailedRenewals> {
        self.failed_renewals.as_ref()
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.reason {
            LostReason::Expired => "was lost: its lease ended without renewal",
            LostReason::Gone => "was lost: the store no longer knows this owner",
            LostReason::Shutdown => "was given up: its locker was shut down",
            LostReason::Unhealthy => "was given up: the health check of its holder failed",
            LostReason::OutOfTime => "was given up: it was held for as long as it may be",
        };
        write!(f, "the lock {} {what}", self.name)?;
        match self.failed_renewals.as_ref().map(|failed| failed.count) {
            None => Ok(()),
            Some(1) => f.write_str(" (1 renewal failed)"),
            Some(n) => write!(f, " ({n} renewals failed)"),
        }
    }
}

impl std::error::Error for Lost {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let failed = self.failed_renewals.as_ref();
        failed.map(|failed| &failed.last_error as _)
    }
}

/// The renewals that have failed since the last one that succeeded.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FailedRenewals {
    /// How many there were in a row; at least one.
    pub count: u32,
    /// The error of the last one.
    pub last_error: Error,
}

/// A lease and our belief in it, shared by all holds under the lease and by the keeper.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) claim: Claim,
    pub(crate) epoch: u64,
    /// Nanoseconds of a [`Moment`]; only grows.
    valid_until: AtomicU64,
    /// Nanoseconds of the [`Moment`] at which the hold ends, however often the lease is renewed.
    limit: AtomicU64,
    /// The length that the store granted first.
    granted: Duration,
    /// Nanoseconds of a [`Moment`] at which the keeper renews next.
    renew_at: AtomicU64,
    /// Nanoseconds of the [`Moment`] at which the store was last asked about this lease.
    asked_at: AtomicU64,
    /// Nanoseconds of the longest time for which the store was ever asked to keep this lease.
    longest: AtomicU64,
    being_renewed: AtomicBool,
    failed_renewals: AtomicU32,
    last_error: std::sync::Mutex<Option<Error>>,
    /// Whether the lease was granted for less than the TTL and has not been renewed since.
    cut_short: AtomicBool,
    lost: OnceLock<Lost>,
    told: Notify,
}

impl Lease {
    /// Creates a lease that was just granted.
    pub(crate) fn new(claim: Claim, grant: Grant, now: Moment) -> Self {
        let lease = Self {
            epoch: grant.epoch,
            valid_until: AtomicU64::new(0),
            limit: AtomicU64::new(Moment::FAR.as_nanos()),
            granted: grant.lease,
            renew_at: AtomicU64::new(0),
            asked_at: AtomicU64::new(grant.asked_at.as_nanos()),
            longest: AtomicU64::new(nanos(claim.ttl)),
            being_renewed: AtomicBool::new(false),
            failed_renewals: AtomicU32::new(0),
            last_error: std::sync::Mutex::default(),
            cut_short: AtomicBool::new(grant.lease < claim.ttl),
            lost: OnceLock::new(),
            told: Notify::new(),
            claim,
        };
        lease.believe(grant.asked_at, grant.lease);
        if lease.is_cut_short() {
            // The store granted this lease while its owner waited, and kept it short in case the owner was dead. Most holds end before it
            // pays to ask for the full length.
            let half = lease.valid_until().saturating_sub(grant.lease / 2);
            let renew_at = half.min(now + SHORT_LEASE_GRACE);
            lease.renew_at.store(renew_at.as_nanos(), Ordering::Release);
        }
        lease
    }

    pub(crate) fn valid_until(&self) -> Moment {
        let valid_until = Moment::from_nanos(self.valid_until.load(Ordering::Acquire));
        valid_until.min(self.limit())
    }

    /// Returns when the hold ends, however often the lease is renewed.
    fn limit(&self) -> Moment {
        Moment::from_nanos(self.limit.load(Ordering::Acquire))
    }

    /// Ends the hold at this moment. Nothing renews the lease for longer than that.
    pub(crate) fn limit_to(&self, limit: Moment) {
        self.limit.store(limit.as_nanos(), Ordering::Release);
    }

    pub(crate) fn renew_at(&self) -> Moment {
        Moment::from_nanos(self.renew_at.load(Ordering::Acquire))
    }

    /// Returns the validity left at `now`, or zero if the lease is lost. Once this was zero, it stays zero.
    pub(crate) fn left(&self, now: Moment) -> Duration {
        match self.lost_at(now) {
            Some(_) => Duration::ZERO,
            None => self.valid_until().saturating_duration_since(now),
        }
    }

    /// Returns the loss, if the lease is lost at `now`. The first caller to notice an expiry announces it to all.
    pub(crate) fn lost_at(&self, now: Moment) -> Option<&Lost> {
        if self.lost.get().is_none() && now >= self.valid_until() {
            self.lose(if now >= self.limit() {
                LostReason::OutOfTime
            } else {
                LostReason::Expired
            });
        }
        self.lost.get()
    }

    /// Marks the lease as lost for good, and notifies all listeners. Later reasons change nothing. Returns the reason of the loss, which
    /// is the first one.
    pub(crate) fn lose(&self, reason: LostReason) -> LostReason {
        let mut first = false;
        let lost = self.lost.get_or_init(|| {
            first = true;
            Lost {
                name: self.claim.name.clone(),
                reason,
                failed_renewals: self.failed_renewals(),
            }
        });
        if first {
            self.told.notify_waiters();
        }
        lost.reason
    }

    /// Returns when the store was last asked about this lease.
    pub(crate) fn asked_at(&self) -> Moment {
        Moment::from_nanos(self.asked_at.load(Ordering::Acquire))
    }

    /// Returns whether the keeper is renewing this lease and has no answer yet.
    pub(crate) fn is_being_renewed(&self) -> bool {
        self.being_renewed.load(Ordering::Acquire)
    }

    /// Records that a request to renew this lease was sent at `moment`. What the store doubted before, the answer decides.
    pub(crate) fn record_request_at(&self, moment: Moment) {
        self.asked_at.fetch_max(moment.as_nanos(), Ordering::AcqRel);
    }

    /// Records that the store is about to be asked to keep this lease for `ttl`. Whether it answers or not, the lease may last that long.
    pub(crate) fn record_requested_ttl(&self, ttl: Duration) {
        self.longest.fetch_max(nanos(ttl), Ordering::AcqRel);
    }

    /// Returns the claim with which to release this lease. Its TTL is the longest that was asked for, so that a release is repeated for as
    /// long as the lease may last.
    pub(crate) fn claim_to_release(&self) -> Claim {
        Claim {
            ttl: Duration::from_nanos(self.longest.load(Ordering::Acquire)),
            ..self.claim.clone()
        }
    }

    /// Records that a renewal requested at `asked_at` was granted for `lease`. Returns `false`, and changes nothing, if the validity had
    /// ended when the answer arrived at `now`: what was lost stays lost.
    pub(crate) fn renewed(&self, asked_at: Moment, lease: Duration, now: Moment) -> bool {
        if self.lost_at(now).is_some() {
            return false;
        }
        // In this order: whoever reads an error reads a count that is not zero.
        *lock(&self.last_error) = None;
        self.failed_renewals.store(0, Ordering::Relaxed);
        self.cut_short.store(false, Ordering::Relaxed);
        self.believe(asked_at, lease);
        true
    }

    /// Records a failed renewal. That is not a loss: the lease continues, and the keeper tries again at `again_at`.
    pub(crate) fn renewal_failed(&self, error: Error, again_at: Moment) {
        self.failed_renewals.fetch_add(1, Ordering::Relaxed);
        *lock(&self.last_error) = Some(error);
        self.renew_at.store(again_at.as_nanos(), Ordering::Release);
    }

    /// Returns whether the lease was granted for less than the TTL and has not been renewed since. Most such holds end before they need to
    /// be renewed.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.cut_short.load(Ordering::Relaxed)
    }

    pub(crate) fn failed_renewals(&self) -> Option<FailedRenewals> {
        let last_error = lock(&self.last_error).clone()?;
        let count = self.failed_renewals.load(Ordering::Relaxed).max(1);
        Some(FailedRenewals { count, last_error })
    }

    /// Returns whether the last renewal failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.failed_renewals.load(Ordering::Relaxed) > 0
    }

    /// Returns the TTL or, while the lease is cut short, the length that was granted.
    pub(crate) fn length(&self) -> Duration {
        if self.is_cut_short() {
            self.granted
        } else {
            self.claim.ttl
        }
    }

    /// Records a grant of `lease` requested at `asked_at`. The next renewal is two thirds of a TTL before the end, which leaves time for
    /// several attempts before the lock is lost.
    fn believe(&self, asked_at: Moment, lease: Duration) {
        let end = believed_end(asked_at, lease).as_nanos();
        let end = end.max(self.valid_until.fetch_max(end, Ordering::AcqRel));
        let renew_at = Moment::from_nanos(end).saturating_sub(self.claim.ttl * 2 / 3);
        let renew_at = self.within_limit(renew_at, Moment::from_nanos(end), asked_at);
        self.renew_at.store(renew_at.as_nanos(), Ordering::Release);
    }

    /// Returns when a hold with a limit is renewed next. Its lease may be much longer than its TTL, and a renewal is also how it learns of a
    /// loss, so it is renewed as often as any other, until a renewal would only keep others out for longer than the limit.
    fn within_limit(&self, renew_at: Moment, end: Moment, asked_at: Moment) -> Moment {
        let limit = self.limit();
        if limit == Moment::FAR {
            return renew_at;
        }
        let next = renew_at.min(asked_at + self.claim.ttl / 3);
        let is_long_enough = end >= limit && next + self.claim.ttl > limit;
        if is_long_enough { Moment::FAR } else { next }
    }

    /// Completes when the lease is lost.
    pub(crate) async fn until_lost(&self, clock: &dyn Clock) -> Lost {
        loop {
            let told = self.told.notified();
            tokio::pin!(told);
            // Register before checking, so that a loss in between is not missed.
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

/// Marks a lease as being renewed, until there is an answer or the keeper is gone.
#[derive(Debug)]
pub(crate) struct Renewing {
    pub(crate) lease: Arc<Lease>,
}

impl Renewing {
    pub(crate) fn new(lease: Arc<Lease>) -> Self {
        lease.being_renewed.store(true, Ordering::Release);
        Self { lease }
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        self.lease.being_renewed.store(false, Ordering::Release);
    }
}

/// Returns when belief ends: it starts before the request and lasts for the lease minus the margin.
fn believed_end(asked_at: Moment, lease: Duration) -> Moment {
    asked_at + lease.saturating_sub(margin(lease))
}

#[cfg(test)]
mod simulation;
