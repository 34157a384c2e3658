//! Whether the units of products add up, counted from the orders: what no constraint of the database sees.
//!
//! A count reads every reservation there is, so it runs beside the frames, and seldom.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::id::Id;
use crate::storage::Storage;

/// Between the end of a count and the next, at least.
const PAUSE: Duration = Duration::from_secs(3);
/// A count that takes long is followed by a pause that is so many times as long.
const RESTRAINT: u32 = 20;

struct Count {
    took: Duration,
    /// `None`: it failed.
    adds_up: Option<HashMap<Id, bool>>,
}

/// What the last count came to.
pub(super) struct Audit {
    storage: Arc<dyn Storage>,
    under_way: Option<JoinHandle<Count>>,
    next: Instant,
    adds_up: HashMap<Id, bool>,
}

impl Audit {
    pub(super) fn of(storage: &Arc<dyn Storage>) -> Self {
        Self {
            storage: Arc::clone(storage),
            under_way: None,
            next: Instant::now(),
            adds_up: HashMap::new(),
        }
    }

    /// Takes in a count that has ended, and begins one when it is time. Does not wait for it.
    pub(super) async fn look(&mut self) {
        if let Some(ended) = self.under_way.take_if(|count| count.is_finished()) {
            let count = ended.await.ok();
            let took = count.as_ref().map_or(Duration::ZERO, |count| count.took);
            self.next = Instant::now() + PAUSE.max(took * RESTRAINT);
            // What could not be counted is not known.
            self.adds_up = count.and_then(|count| count.adds_up).unwrap_or_default();
        }
        if self.under_way.is_none() && Instant::now() >= self.next {
            self.under_way = Some(tokio::spawn(count(Arc::clone(&self.storage))));
        }
    }

    /// `None`: it was not counted yet.
    pub(super) fn adds_up(&self, product: &Id) -> Option<bool> {
        self.adds_up.get(product).copied()
    }
}

async fn count(storage: Arc<dyn Storage>) -> Count {
    let began = Instant::now();
    let balances = storage.balances().await.ok();
    let adds_up = balances.map(|balances| {
        let of_each = balances.into_iter().map(|balance| {
            let holds = balance.holds();
            (balance.product_id, holds)
        });
        of_each.collect()
    });
    Count {
        adds_up,
        took: began.elapsed(),
    }
}
