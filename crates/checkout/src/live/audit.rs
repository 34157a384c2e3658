//! Counts from the orders whether the units of products add up, which no constraint of the database can check.
//!
//! A count reads every reservation, so it runs rarely and in the background.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::id::Id;
use crate::storage::Storage;

/// The minimum pause between two counts.
const PAUSE: Duration = Duration::from_secs(3);
/// After a long count, the pause is this many times as long as the count.
const RESTRAINT: u32 = 20;

struct Count {
    took: Duration,
    /// `None` if the count failed.
    adds_up: Option<HashMap<Id, bool>>,
}

/// The result of the last count.
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

    /// Collects a finished count, and starts the next one when it is time. Does not wait for it.
    pub(super) async fn sample(&mut self) {
        if let Some(ended) = self.under_way.take_if(|count| count.is_finished()) {
            let count = ended.await.ok();
            let took = count.as_ref().map_or(Duration::ZERO, |count| count.took);
            self.next = Instant::now() + PAUSE.max(took * RESTRAINT);
            // If the count failed, the result is unknown.
            self.adds_up = count.and_then(|count| count.adds_up).unwrap_or_default();
        }
        if self.under_way.is_none() && Instant::now() >= self.next {
            self.under_way = Some(tokio::spawn(count(Arc::clone(&self.storage))));
        }
    }

    /// Returns whether the counts of a product add up, or `None` if the product was not counted yet.
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
