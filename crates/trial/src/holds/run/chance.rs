//! The choices of a lock trial that its seed decides.
//!
//! The seed varies only what leaves the meaning of a scenario as it is: who is asked first if several are ready, and short lengths of
//! time. With the same seed, the lab makes the same choices.

use std::time::Duration;

use fencepost::random::{Random, SeededRandom};

use crate::processes::shuffled;

/// The choices that belong to a seed, one after the other.
#[derive(Debug)]
pub(in crate::holds) struct Chance(SeededRandom);

impl Chance {
    pub(in crate::holds) fn new(seed: u64) -> Self {
        Self(SeededRandom::new(seed))
    }

    /// Returns a length of time between the two, in whole milliseconds.
    pub(in crate::holds) fn between(&self, least: Duration, most: Duration) -> Duration {
        let chosen = least + self.0.up_to(most.saturating_sub(least));
        Duration::from_millis(milliseconds(chosen))
    }

    /// Returns a number below this bound; zero if the bound is zero.
    pub(in crate::holds) fn below(&self, bound: usize) -> usize {
        let bound = bound.max(1) as u64;
        usize::try_from(self.0.next_u64() % bound).unwrap_or(0)
    }

    /// Returns about this length of time: half as long at least, and half as long again at most.
    pub(super) fn about(&self, time: Duration) -> Duration {
        self.between(time / 2, time + time / 2)
    }
}

/// Returns a length of time in whole milliseconds.
pub(in crate::holds) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the order in which processes are asked if several are ready after this many acts. It depends on nothing else, because how
/// often the lab looks is a matter of timing.
pub(super) fn order(seed: u64, acts: usize, processes: usize) -> Vec<usize> {
    let random = SeededRandom::new(seed.wrapping_add(SeededRandom::new(acts as u64).next_u64()));
    shuffled(&random, processes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_comes_up_and_a_seed_repeats_its_own() {
        let mut orders: Vec<Vec<usize>> = (0..60).map(|seed| order(2 * seed, 4, 3)).collect();
        assert_eq!(orders[7], order(14, 4, 3));
        orders.sort();
        orders.dedup();
        assert_eq!(orders.len(), 6);
        let with_one_seed = (0..20).map(|acts| order(7, acts, 2)[0]);
        assert_eq!(with_one_seed.clone().min(), Some(0));
        assert_eq!(with_one_seed.max(), Some(1));
    }
}
