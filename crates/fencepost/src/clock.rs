//! [`Clock`]: time behind a small trait, on a clock that never goes back and keeps running while the machine sleeps.
//!
//! Leases end whether or not the holder's machine is awake. On Linux, `std::time::Instant` stops while the machine is suspended, so a
//! holder that measured its lease with it would wake up and believe in a lock that ended long ago. The wall clock can be set back.
//! `CLOCK_BOOTTIME` has neither problem.

use std::fmt;
use std::future::Future;
use std::ops::Add;
use std::pin::Pin;
use std::time::Duration;
use std::time::SystemTime;

/// A boxed future, as the dyn-safe traits of this crate return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A point in time on a [`Clock`]: nanoseconds since the zero of that clock. Do not compare points of different clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The clock's zero.
    pub const ZERO: Self = Self(0);
    /// A moment that is later than all others.
    pub const FAR: Self = Self(u64::MAX);

    /// Creates the moment `ns` nanoseconds after the clock's zero.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Returns the nanoseconds since the clock's zero.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to this moment, or zero if `earlier` is not earlier.
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns this moment moved back by `by`, at most to the clock's zero.
    #[must_use]
    pub fn saturating_sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(by)))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    /// Stops at [`Moment::FAR`] instead of overflowing.
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos(by)))
    }
}

/// Returns the nanoseconds of a duration, or the largest number if there are more.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A source of time.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Returns the present moment. It is never earlier than a moment that was returned before.
    fn now(&self) -> Moment;

    /// Completes when `now() >= until`. If the machine slept in between, it completes at most half a second late.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    fn sleep_until(&self, until: Moment) -> BoxFuture<'_, ()>;
}

/// The time since boot, including sleep (`CLOCK_BOOTTIME`, or `CLOCK_MONOTONIC` on systems without it). Sleeps on Tokio's timer.
///
/// # Panics
/// The future of [`sleep_until`](Clock::sleep_until) panics if it has to wait outside a Tokio runtime with time enabled.
#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

/// The longest single sleep. Tokio's timer stands still while the machine sleeps, so longer sleeps are split.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

impl Clock for BootClock {
    fn now(&self) -> Moment {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        const ID: nix::time::ClockId = nix::time::ClockId::CLOCK_BOOTTIME;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        const ID: nix::time::ClockId = nix::time::ClockId::CLOCK_MONOTONIC;
        // Every supported kernel has this clock, so the call cannot fail.
        let now = nix::time::clock_gettime(ID).expect("the kernel has a boot clock");
        Moment::ZERO + Duration::from(now)
    }

    fn sleep_until(&self, until: Moment) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            loop {
                let left = until.saturating_duration_since(self.now());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
            }
        })
    }
}

/// Returns the milliseconds since 1970 by the wall clock of this machine. Stores write it beside a lock, so that people see since when it
/// is held. The record of a job forgets old slots by it, and refuses what it forgot. Redlock's stamps begin at it and always grow. The wall
/// clock can be set, so nothing else may depend on it.
pub(crate) fn unix_millis() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

/// Returns the output of the future, or `None` if `until` comes first.
pub(crate) async fn within<F: Future>(
    clock: &dyn Clock,
    until: Moment,
    future: F,
) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        // The async block avoids creating a timer for a future that is ready at once.
        () = async { clock.sleep_until(until).await } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_do_not_overflow() {
        assert_eq!(Moment::FAR + Duration::MAX, Moment::FAR);
        assert_eq!(
            Moment::ZERO.saturating_duration_since(Moment::FAR),
            Duration::ZERO
        );
        assert_eq!(Moment::ZERO.saturating_sub(Duration::MAX), Moment::ZERO);
    }

    #[tokio::test]
    async fn a_sleep_ends_at_its_moment_and_not_before() {
        let clock = BootClock;
        let until = clock.now() + Duration::from_millis(20);
        clock.sleep_until(until).await;
        assert!(clock.now() >= until);
        clock.sleep_until(Moment::ZERO).await;
    }
}
