//! `mutex`: a lock in the program's own memory.
//!
//! What is wrong: it excludes the threads of one process and knows nothing about other processes. Seen as `synchronized` or a
//! mutex around the purchase, correct until a second instance of the service is started.

use std::sync::{Mutex, PoisonError};

use crate::protocol::{Claims, Promise, Purchase};
use crate::store::stock::Stock;
use crate::strategy::direct;
use crate::strategy::{Failure, Group, Order, Origin, Remark, Stores, Strategy, read_work_write};

/// The entry in the list of strategies.
pub static STRATEGY: Strategy = Strategy {
    name: "mutex",
    origin: Origin::Ours,
    group: Group::OneProcess,
    stores: Stores::KeepingStock,
    summary: "a lock in memory: excludes the threads of a process, not other processes",
    gloss: "in memory",
    flaw: Some("mutex is a lock in one process's memory: every other process has one of its own."),
    promise: Promise::Exclusion,
    claims: Claims::PLAIN,
    has_line: false,
    remark: Remark::Broken("excludes threads, not processes"),
    open: |setup| direct::buyer(setup, buy),
    lock: None,
};

/// One lock for the whole process.
static PURCHASE: Mutex<()> = Mutex::new(());

fn buy(stock: &mut dyn Stock, order: &Order) -> Result<Purchase, Failure> {
    let at_once = PURCHASE.try_lock();
    let contended = at_once.is_err();
    let _held = at_once.unwrap_or_else(|_| PURCHASE.lock().unwrap_or_else(PoisonError::into_inner));
    let bought = read_work_write(stock, order)?;
    Ok(Purchase {
        contended,
        ..bought
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use crate::protocol;
    use crate::store::Ground;

    #[test]
    fn the_threads_of_one_process_are_kept_apart() {
        let folder = tempfile::tempdir().unwrap();
        let ground = Ground::Sqlite(folder.path().join("run.db"));
        ground.prepare().unwrap();
        ground.stock().unwrap().write("product_A", 1).unwrap();
        let order = Order {
            product: "product_A".into(),
            quantity: 1,
            in_line: false,
            wait: Duration::ZERO,
            delay: Duration::from_millis(5),
        };
        let buy = || {
            let mut stock = ground.stock().unwrap();
            buy(&mut *stock, &order).unwrap().outcome
        };
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(buy)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let sold =
            |outcome: &&protocol::PurchaseOutcome| **outcome == protocol::PurchaseOutcome::Sold;
        assert_eq!(outcomes.iter().filter(sold).count(), 1);
    }
}
