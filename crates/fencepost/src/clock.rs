//! Time behind a small trait, on a clock that never goes back and keeps running while the machine sleeps.
//!
//! Leases end whether or not the holder's machine is awake. `std::time::Instant` stops during suspend on
//! Linux, so a holder that measured its lease with it would wake up believing in a lock long gone. Wall time
//! can be set back. `CLOCK_BOOTTIME` does neither.

use std::fmt;
use std::future::Future;
use std::ops::Add;
use std::pin::Pin;
use std::time::Duration;

/// A boxed future, as the dyn-safe traits of this crate return them.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A point in time on a [`Clock`]: nanoseconds since that clock's zero. Points of different clocks do not compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The clock's zero.
    pub const ZERO: Self = Self(0);
    /// Later than every moment that comes.
    pub const FAR: Self = Self(u64::MAX);

    /// `ns` nanoseconds after the clock's zero.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the clock's zero.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this moment; zero when it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// This moment moved back, at most to the clock's zero.
    #[must_use]
    pub fn back(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(by)))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    /// Ends at [`Moment::FAR`] instead of overflowing.
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos(by)))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Where time comes from.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The present moment. Never earlier than a moment returned before.
    fn now(&self) -> Moment;

    /// Completes when `now() >= until`, and within half a second of it also when the machine slept meanwhile.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    fn sleep_until(&self, until: Moment) -> BoxFuture<'_, ()>;
}

/// The time since boot, sleep included (`CLOCK_BOOTTIME`; on systems without it, `CLOCK_MONOTONIC`). Sleeps on Tokio's timer.
#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

/// Tokio's timer stands still while the machine sleeps, so no single sleep is longer than this.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

impl Clock for BootClock {
    fn now(&self) -> Moment {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        const ID: nix::time::ClockId = nix::time::ClockId::CLOCK_BOOTTIME;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        const ID: nix::time::ClockId = nix::time::ClockId::CLOCK_MONOTONIC;
        // Every supported kernel has this clock: the call cannot fail.
        let now = nix::time::clock_gettime(ID).expect("the kernel has a boot clock");
        Moment::ZERO + Duration::from(now)
    }

    fn sleep_until(&self, until: Moment) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            loop {
                let left = until.since(self.now());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
            }
        })
    }
}

/// The future's output, or `None` when `until` comes first.
pub(crate) async fn within<F: Future>(
    clock: &dyn Clock,
    until: Moment,
    future: F,
) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        // In a block of its own: no timer is made for a future that is ready at once.
        () = async { clock.sleep_until(until).await } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_do_not_overflow() {
        assert_eq!(Moment::FAR + Duration::MAX, Moment::FAR);
        assert_eq!(Moment::ZERO.since(Moment::FAR), Duration::ZERO);
        assert_eq!(Moment::ZERO.back(Duration::MAX), Moment::ZERO);
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
