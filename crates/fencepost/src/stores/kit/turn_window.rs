//! The turn window: who may take a free lock, and from when on, so that dead waiters do not block the line.

use std::time::Duration;

#[cfg(any(feature = "memory", feature = "sqlite"))]
use crate::clock::Moment;

/// For how long only the first waiter may take a lock that became free. A live waiter needs one round trip, or some
/// milliseconds.
pub(crate) const FIRST: Duration = Duration::from_millis(500);
/// How much later than the waiter ahead of it each further waiter may take the lock.
pub(crate) const NEXT: Duration = Duration::from_nanos(FIRST.as_nanos() as u64 / 8);

/// Returns how long a waiter leaves a free lock to those ahead of it. Counts at least one, because its caller knows that somebody is ahead.
#[cfg(any(feature = "memory", feature = "sqlite", feature = "postgres"))]
pub(crate) fn length(ahead: u32) -> Duration {
    FIRST + NEXT.saturating_mul(ahead.max(1) - 1)
}

/// Returns from when on a waiter with `ahead` live tickets ahead of it may take a lock that became free at `free_at`.
#[cfg(any(feature = "memory", feature = "sqlite"))]
pub(crate) fn opens_at(free_at: Moment, ahead: u32) -> Moment {
    match ahead {
        0 => free_at,
        ahead => free_at + length(ahead),
    }
}

#[cfg(all(test, any(feature = "memory", feature = "sqlite")))]
mod tests {
    use super::*;

    #[test]
    fn the_first_goes_at_once_and_the_others_one_after_another() {
        let ms = |ms: u64| Moment::from_nanos(ms * 1_000_000);
        assert_eq!(opens_at(ms(1_000), 0), ms(1_000));
        assert_eq!(opens_at(ms(1_000), 1), ms(1_500));
        assert_eq!(opens_at(ms(1_000), 3), Moment::from_nanos(1_625_000_000));
        assert!(opens_at(ms(1_000), u32::MAX) > ms(1_000_000));
        assert_eq!(opens_at(Moment::FAR, 7), Moment::FAR);
    }
}
