//! A buyer that retries with the requested pauses when the lock is taken, and reports the cost.

use std::time::{Duration, Instant};

use fencepost::random::SeededRandom;

use crate::protocol::{Effort, Purchase, PurchaseOutcome, Retry};
use crate::strategy::{Buyer, Failure, Order};

/// Buys, retries while the lock is taken, and reports the cost.
///
/// # Cancel safety
/// Same as for [`Buyer::purchase`].
pub(crate) async fn buy(
    buyer: &mut dyn Buyer,
    order: &Order,
    retry: Retry,
) -> Result<Purchase, Failure> {
    let asked = Instant::now();
    let budget = Duration::from_millis(retry.budget_ms);
    let Some(schedule) = retry.pauses.schedule() else {
        let order = Order {
            wait: budget,
            in_line: true,
            ..order.clone()
        };
        return in_line(buyer, &order).await;
    };
    let random = SeededRandom::new(retry.seed);
    let once = Order {
        wait: Duration::ZERO,
        ..order.clone()
    };
    let before = buyer.lock_commands(&once);
    let mut contended = false;
    let mut retries = 0;
    loop {
        let tried = Instant::now();
        let purchase = buyer.purchase(&once).await?;
        contended |= purchase.contended;
        let busy = purchase.outcome == PurchaseOutcome::Busy;
        let pause = schedule.delay(retries, &random);
        let left = budget.saturating_sub(asked.elapsed());
        if busy && retries < retry.max_retries && left > Duration::ZERO {
            tokio::time::sleep(pause.min(left)).await;
            if pause < left {
                retries += 1;
                continue;
            }
        }
        let held = (!busy).then_some(tried);
        let requests = retries + 1 + u32::from(held.is_some());
        let ops = lock_ops(before, buyer.lock_commands(&once), requests);
        return Ok(Purchase {
            contended,
            waited_ms: ms(tried.duration_since(asked)),
            effort: Some(effort(retries, ops, held)),
            ..purchase
        });
    }
}

/// Makes one request that waits in line. If the lock was contended, a first try had already found it taken.
async fn in_line(buyer: &mut dyn Buyer, order: &Order) -> Result<Purchase, Failure> {
    let asked = Instant::now();
    let before = buyer.lock_commands(order);
    let purchase = buyer.purchase(order).await?;
    let waited = Duration::try_from_secs_f64(purchase.waited_ms / 1e3).unwrap_or_default();
    let held = (purchase.outcome != PurchaseOutcome::Busy).then(|| asked + waited);
    let requests = 1 + u32::from(purchase.contended) + u32::from(held.is_some());
    let ops = lock_ops(before, buyer.lock_commands(order), requests);
    Ok(Purchase {
        effort: Some(effort(0, ops, held)),
        ..purchase
    })
}

/// Returns the number of commands that the lock sent to the store, or the number of requests if commands are not counted.
fn lock_ops(before: Option<u64>, after: Option<u64>, requests: u32) -> u32 {
    let Some((before, after)) = before.zip(after) else {
        return requests;
    };
    u32::try_from(after.saturating_sub(before)).unwrap_or(u32::MAX)
}

/// Assumes that the lock was held from its request until now. This includes round trips, so the actual hold may be shorter.
fn effort(retries: u32, lock_ops: u32, held_from: Option<Instant>) -> Effort {
    Effort {
        retries,
        lock_ops,
        held_ms_ago: held_from.map(|from| (ms(from.elapsed()), 0.0)),
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use fencepost::clock::BoxFuture;

    use super::*;
    use crate::protocol::Pauses;

    /// Finds the lock taken a given number of times.
    struct Unlucky {
        refusals: u32,
        tries: u32,
    }

    impl Buyer for Unlucky {
        fn purchase<'a>(
            &'a mut self,
            order: &'a Order,
        ) -> BoxFuture<'a, Result<Purchase, Failure>> {
            self.tries += 1;
            let taken = self.tries <= self.refusals;
            let gets_it = !taken || order.wait > Duration::ZERO;
            Box::pin(async move {
                let outcome = if gets_it {
                    PurchaseOutcome::Sold
                } else {
                    PurchaseOutcome::Busy
                };
                Ok(Purchase {
                    outcome,
                    before: None,
                    after: None,
                    contended: taken,
                    waited_ms: 0.0,
                    fence: None,
                    effort: None,
                })
            })
        }
    }

    fn buy_after(refusals: u32, pauses: Pauses, budget_ms: u64) -> (Purchase, u32) {
        let mut buyer = Unlucky { refusals, tries: 0 };
        let order = Order {
            product: "product_A".into(),
            quantity: 1,
            wait: Duration::ZERO,
            in_line: false,
            delay: Duration::ZERO,
        };
        let retry = Retry {
            pauses,
            max_retries: 3,
            budget_ms,
            seed: 1,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let bought = runtime.block_on(buy(&mut buyer, &order, retry));
        (bought.unwrap(), buyer.tries)
    }

    const SOON: Pauses = Pauses::Fixed { pause_ms: 1 };
    const LONG: u64 = 600_000;

    fn summary((purchase, tries): (Purchase, u32)) -> (PurchaseOutcome, bool, u32, u32, u32, bool) {
        let effort = purchase.effort.unwrap();
        (
            purchase.outcome,
            purchase.contended,
            effort.retries,
            effort.lock_ops,
            tries,
            effort.held_ms_ago.is_some(),
        )
    }

    #[test]
    fn tries_are_counted_until_the_lock_is_had_or_given_up() {
        let (sold, busy) = (PurchaseOutcome::Sold, PurchaseOutcome::Busy);
        assert_eq!(
            summary(buy_after(0, SOON, LONG)),
            (sold, false, 0, 2, 1, true)
        );
        assert_eq!(
            summary(buy_after(2, SOON, LONG)),
            (sold, true, 2, 4, 3, true)
        );
        assert_eq!(
            summary(buy_after(3, SOON, LONG)),
            (sold, true, 3, 5, 4, true)
        );
        assert_eq!(
            summary(buy_after(9, SOON, LONG)),
            (busy, true, 3, 4, 4, false)
        );
    }

    #[test]
    fn the_budget_ends_a_pause_and_nobody_tries_after_it() {
        let pauses = Pauses::Fixed { pause_ms: LONG };
        let started = Instant::now();
        let last = summary(buy_after(9, pauses, 30));
        assert_eq!(last, (PurchaseOutcome::Busy, true, 0, 1, 1, false));
        assert!(started.elapsed() >= Duration::from_millis(30));
    }

    #[test]
    fn in_line_nobody_retries() {
        let sold = PurchaseOutcome::Sold;
        assert_eq!(
            summary(buy_after(0, Pauses::Line, LONG)),
            (sold, false, 0, 2, 1, true)
        );
        assert_eq!(
            summary(buy_after(9, Pauses::Line, LONG)),
            (sold, true, 0, 3, 1, true)
        );
    }
}
