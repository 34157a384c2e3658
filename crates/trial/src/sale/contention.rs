//! The contention that the lab itself saw in a sale, by its own clock.
//!
//! A subject may say that it found the lock taken; for an external lock this is no witness, because a program without any lock
//! can say it too. The lab sees two things. A buyer was refused while another's purchase was under way. Or a buyer was asked at
//! least one work time before another one was done, and was answered only after it: if nothing had kept it out, it would have
//! been done first. A process may also start late, by chance; several that do so one after the other are not chance.

use super::Sale;
use super::facts::{Attempt, Facts};
use crate::protocol::PurchaseOutcome;

/// How many buyers must have been kept waiting, if nobody was refused.
const ENOUGH_WAITERS: usize = 3;
/// How long the work must take for a buyer to be kept waiting. If it takes less, processes that nothing keeps out are served one after the
/// other as well, in the order in which the machine lets them run.
const WORK_MIN_NS: u64 = Sale::DELAY_US * 1_000;

/// The buyers that the lab saw being kept out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Contention {
    /// Buyers that were refused while another's purchase was under way.
    pub refused: usize,
    /// Buyers that were served only after another one, although they had been asked in time to be done before.
    pub waited: usize,
}

impl Contention {
    /// Returns whether this shows that the lock was contended.
    pub fn is_seen(self) -> bool {
        self.refused > 0 || self.waited >= ENOUGH_WAITERS
    }
}

impl Facts {
    /// Returns the contention that the lab saw. `work_ns` is the time between reading and writing the stock.
    pub fn contention(&self, work_ns: u64) -> Contention {
        let mut sold: Vec<u64> = self.orders().map(|order| order.answered_ns).collect();
        sold.sort_unstable();
        let waited = |attempt: &&Attempt| {
            let ready_ns = attempt.asked_ns.saturating_add(work_ns);
            let next = sold.partition_point(|answered_ns| *answered_ns <= ready_ns);
            let is_served = matches!(
                attempt.outcome(),
                Some(PurchaseOutcome::Sold | PurchaseOutcome::NoStock)
            );
            let earlier = sold.get(next);
            is_served
                && work_ns >= WORK_MIN_NS
                && earlier.is_some_and(|ns| *ns < attempt.answered_ns)
        };
        let mut open: Vec<(u64, u64)> = self
            .attempts
            .iter()
            .filter(|attempt| attempt.sold())
            .map(|order| (order.asked_ns, order.answered_ns))
            .collect();
        open.sort_unstable();
        // The latest answer among the orders asked up to each one.
        let mut latest_ns = 0;
        for (_, answered_ns) in &mut open {
            latest_ns = latest_ns.max(*answered_ns);
            *answered_ns = latest_ns;
        }
        let refused = |attempt: &&Attempt| {
            let before = open.partition_point(|(asked_ns, _)| *asked_ns < attempt.answered_ns);
            let is_open = before > 0 && open[before - 1].1 > attempt.answered_ns;
            attempt.outcome() == Some(PurchaseOutcome::Busy) && is_open
        };
        Contention {
            refused: self.attempts.iter().filter(refused).count(),
            waited: self.attempts.iter().filter(waited).count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sale::by_hand::SaleBuilder;

    const MS: u64 = 1_000_000;

    #[test]
    fn who_is_refused_while_another_buys_is_seen() {
        let facts = SaleBuilder::with_stock(1, 2)
            .busy(0)
            .sold(1, 1)
            .left(0)
            .facts();
        let contention = facts.contention(5 * MS);
        assert_eq!((contention.refused, contention.waited), (1, 0));
        assert!(contention.is_seen());
        let nobody_buys = SaleBuilder::with_stock(1, 2)
            .sold(1, 1)
            .busy(0)
            .left(0)
            .facts();
        assert_eq!(nobody_buys.contention(5 * MS), Contention::default());
    }

    /// Twelve are asked at 2 to 13 ms, and answered at 14 to 25 ms.
    fn in_turn() -> Facts {
        let story = SaleBuilder::with_stock(12, 12);
        let story = (0..12_u64).fold(story, |story, op| story.sold(op, 12 - op as i64));
        story.left(0).facts()
    }

    #[test]
    fn who_is_served_after_another_although_it_had_the_time_waited() {
        let facts = in_turn();
        assert_eq!(facts.contention(5 * MS).waited, 11);
        assert!(facts.contention(5 * MS).is_seen());
        assert_eq!(facts.contention(12 * MS).waited, 0, "asked too late");
        assert_eq!(
            facts.contention(0).waited,
            0,
            "without work nobody is in the way"
        );
        let story = SaleBuilder::with_stock(2, 7).sold(0, 2).sold(1, 1);
        let two = (2..7).fold(story, |story, op| story.failed(op, true));
        let two = two.left(0).facts().contention(5 * MS);
        assert_eq!(two.waited, 1);
        assert!(!two.is_seen(), "one alone may have started late");
    }

    /// The scheduler lets processes run one after the other, for as long as it takes to buy without any lock.
    #[test]
    fn work_that_is_shorter_than_a_turn_of_the_scheduler_makes_nobody_wait() {
        for work_ns in [1_000, MS, 5 * MS - 1] {
            assert_eq!(in_turn().contention(work_ns).waited, 0, "{work_ns}");
        }
    }
}
