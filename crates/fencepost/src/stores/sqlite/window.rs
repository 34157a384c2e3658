//! Who may take a free lock, and from when on: the rule that keeps dead waiters from blocking the line.

use std::time::Duration;

use crate::clock::Moment;

/// How long the first waiter alone may take a lock that became free. An awake one needs some milliseconds.
const FIRST: Duration = Duration::from_millis(500);
/// How much later than the one before it each further waiter may.
const NEXT: Duration = Duration::from_nanos(FIRST.as_nanos() as u64 / 8);

/// From when on a lock that became free at `free_at` may be taken by one with `ahead` living tickets before it.
pub(super) fn opens_at(free_at: Moment, ahead: u32) -> Moment {
    match ahead.checked_sub(1) {
        None => free_at,
        Some(further) => free_at + FIRST + NEXT.saturating_mul(further),
    }
}

#[cfg(test)]
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
