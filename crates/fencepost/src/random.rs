//! [`Random`]: randomness behind a small trait, so that a test can repeat every choice.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A source of random bits.
pub trait Random: fmt::Debug + Send + Sync + 'static {
    /// Returns 64 uniformly distributed bits. [`OwnerId::random`](crate::OwnerId::random) makes owners of such bits. In production, give it
    /// [`SystemRandom`], as a locker does: its bits cannot be predicted, and a forked process does not draw the same ones.
    fn next_u64(&self) -> u64;

    /// Returns 128 uniformly distributed bits, for a new owner.
    fn next_u128(&self) -> u128 {
        u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())
    }

    /// Returns a duration chosen uniformly between zero and `most`, inclusive.
    fn up_to(&self, most: Duration) -> Duration {
        let most_ns = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX - 1);
        // The bias of a 128-bit multiplication is below 2^-64 per value.
        let choice_ns = (u128::from(self.next_u64()) * (u128::from(most_ns) + 1)) >> 64;
        Duration::from_nanos(choice_ns as u64)
    }
}

/// The random numbers of the operating system, read anew each time, so that there is no state that a fork could copy.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        // This fails only on a system without any source of randomness, where nothing safe can be done.
        getrandom::u64().expect("the operating system gives random numbers")
    }

    fn next_u128(&self) -> u128 {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system gives random numbers");
        u128::from_ne_bytes(bytes)
    }
}

/// A repeatable sequence (SplitMix64) for tests. Never use it in production: owners could be guessed and could repeat.
#[derive(Debug)]
pub struct SeededRandom(AtomicU64);

impl SeededRandom {
    /// Creates the sequence that belongs to `seed`.
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_sequence_and_others_differ() {
        let draw = |seed| {
            let random = SeededRandom::new(seed);
            [random.next_u64(), random.next_u64(), random.next_u64()]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn a_choice_stays_within_its_bound_and_reaches_both_halves() {
        let random = SeededRandom::new(1);
        let most = Duration::from_millis(10);
        let draws: Vec<_> = (0..1000).map(|_| random.up_to(most)).collect();
        assert!(draws.iter().all(|d| *d <= most));
        assert!(draws.iter().any(|d| *d < most / 4) && draws.iter().any(|d| *d > most * 3 / 4));
        assert_eq!(random.up_to(Duration::ZERO), Duration::ZERO);
        random.up_to(Duration::MAX);
    }
}
