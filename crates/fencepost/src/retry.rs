//! [`Schedule`]: how long to pause between attempts, as an iterator of delays.
//!
//! A schedule neither sleeps nor decides whether to try again; it only returns the length of the next pause. Schedules never end: use
//! [`Iterator::take`] to limit the number of retries.

use std::time::Duration;

use crate::random::Random;

/// How long to pause between attempts.
///
/// ```
/// use std::time::Duration;
/// use fencepost::random::SeededRandom;
/// use fencepost::retry::Schedule;
///
/// let ms = Duration::from_millis;
/// let schedule = Schedule::exponential(ms(100), ms(5_000));
/// let delays: Vec<_> = schedule.delays(&SeededRandom::new(1)).take(7).collect();
/// assert_eq!(delays, [100, 200, 400, 800, 1_600, 3_200, 5_000].map(ms));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule(Kind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Fixed(Duration),
    Exponential { base: Duration, cap: Duration },
    FullJitter { base: Duration, cap: Duration },
    List(Vec<Duration>),
}

impl Schedule {
    /// Creates a schedule with the same pause each time. Clients that started together stay in step.
    pub fn fixed(pause: Duration) -> Self {
        Self(Kind::Fixed(pause))
    }

    /// Creates a schedule with doubling pauses: `base · 2ⁿ`, at most `cap`. It causes little load, but clients that started together sleep
    /// and wake in step.
    pub fn exponential(base: Duration, cap: Duration) -> Self {
        Self(Kind::Exponential { base, cap })
    }

    /// Creates a schedule with random pauses between zero and the pause of [`exponential`](Self::exponential), which spreads clients out.
    pub fn full_jitter(base: Duration, cap: Duration) -> Self {
        Self(Kind::FullJitter { base, cap })
    }

    /// Creates a schedule of these pauses in turn, and then the last one repeatedly. If there are no pauses in the list, the schedule never
    /// pauses.
    pub fn list(pauses: impl IntoIterator<Item = Duration>) -> Self {
        Self(Kind::List(pauses.into_iter().collect()))
    }

    /// Returns the pauses, starting with the first retry. The iterator never ends.
    pub fn delays<'a>(&'a self, random: &'a dyn Random) -> impl Iterator<Item = Duration> + 'a {
        (0u32..).map(move |retry| self.delay(retry, random))
    }

    /// Returns the pause before retry number `retry`, counted from zero.
    pub fn delay(&self, retry: u32, random: &dyn Random) -> Duration {
        match &self.0 {
            Kind::Fixed(pause) => *pause,
            Kind::Exponential { base, cap } => doubled(*base, *cap, retry),
            Kind::FullJitter { base, cap } => random.up_to(doubled(*base, *cap, retry)),
            Kind::List(pauses) => {
                let last = pauses.len().saturating_sub(1);
                let at = usize::try_from(retry).unwrap_or(last).min(last);
                pauses.get(at).copied().unwrap_or_default()
            }
        }
    }
}

/// Returns `base · 2^retry`, at most `cap`, without overflow for any `retry`.
fn doubled(base: Duration, cap: Duration, retry: u32) -> Duration {
    match 1u32.checked_shl(retry) {
        Some(factor) => base.checked_mul(factor).map_or(cap, |pause| pause.min(cap)),
        // Beyond 2^31, only a pause of zero has not reached its cap.
        None if base.is_zero() => Duration::ZERO,
        None => cap,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;
    use proptest::prelude::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_list_ends_with_its_last_pause_repeated() {
        let random = SeededRandom::new(1);
        let schedule = Schedule::list([10, 20, 50].map(ms));
        let delays: Vec<_> = schedule.delays(&random).take(5).collect();
        assert_eq!(delays, [10, 20, 50, 50, 50].map(ms));
        assert_eq!(Schedule::list([]).delay(3, &random), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn no_schedule_exceeds_its_cap(base in 0u64..10_000, cap in 0u64..100_000, retry: u32, seed: u64) {
            let random = SeededRandom::new(seed);
            let doubling = Schedule::exponential(ms(base), ms(cap)).delay(retry, &random);
            let jitter = Schedule::full_jitter(ms(base), ms(cap)).delay(retry, &random);
            prop_assert!(doubling <= ms(cap));
            prop_assert!(jitter <= doubling);
        }

        #[test]
        fn exponential_never_shrinks(base in 0u64..10_000, cap in 0u64..100_000, retry in 0u32..100) {
            let random = SeededRandom::new(1);
            let schedule = Schedule::exponential(ms(base), ms(cap));
            prop_assert!(schedule.delay(retry, &random) <= schedule.delay(retry + 1, &random));
        }
    }
}
