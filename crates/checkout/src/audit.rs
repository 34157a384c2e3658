//! Counts from the orders whether the units of products add up, which no constraint of the database can check.
//!
//! A count reads every reservation. The sweeper and the live page therefore share the last one, and agree about it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::id::Id;
use crate::product::Balance;
use crate::storage::{Storage, StorageError};

/// The result of counting every unit.
#[derive(Debug)]
pub(crate) struct Count {
    /// When it was complete.
    pub(crate) ended: Instant,
    pub(crate) took: Duration,
    /// The products whose units do not add up.
    pub(crate) violations: Vec<Balance>,
    adds_up: HashMap<Id, bool>,
}

impl Count {
    fn new(began: Instant, balances: Vec<Balance>) -> Self {
        let adds_up = balances.iter().map(|balance| {
            let product = balance.product_id.clone();
            (product, balance.holds())
        });
        let adds_up = adds_up.collect();
        let violations = balances.into_iter().filter(|balance| !balance.holds());
        Self {
            violations: violations.collect(),
            adds_up,
            ended: Instant::now(),
            took: began.elapsed(),
        }
    }

    /// Returns whether the units of a product add up, or `None` if the product did not exist yet.
    pub(crate) fn adds_up(&self, product: &Id) -> Option<bool> {
        self.adds_up.get(product).copied()
    }
}

/// The last count, a shared handle. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Audit(Arc<Inner>);

struct Inner {
    storage: Arc<dyn Storage>,
    last: Mutex<Option<Arc<Count>>>,
    /// Held while somebody counts.
    counting: tokio::sync::Mutex<()>,
}

impl Audit {
    pub(crate) fn new(storage: Arc<dyn Storage>) -> Self {
        Self(Arc::new(Inner {
            storage,
            last: Mutex::default(),
            counting: tokio::sync::Mutex::default(),
        }))
    }

    /// Returns the last count. `None` if nobody has counted yet, or if the last attempt failed.
    pub(crate) fn last(&self) -> Option<Arc<Count>> {
        let last = self.0.last.lock();
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the last count if it is not older than `age`, and otherwise counts. Of several callers, one counts for all.
    ///
    /// # Errors
    /// Returns an error if the database fails; the result is unknown then.
    ///
    /// # Cancel safety
    /// Changes nothing but the last count.
    pub(crate) async fn no_older_than(&self, age: Duration) -> Result<Arc<Count>, StorageError> {
        let asked = Instant::now();
        let recent = || {
            // One that ended while we waited for our turn is recent, whatever the age.
            let is_recent =
                |count: &Arc<Count>| count.ended >= asked || count.ended.elapsed() < age;
            self.last().filter(is_recent)
        };
        if let Some(count) = recent() {
            return Ok(count);
        }
        let _turn = self.0.counting.lock().await;
        if let Some(count) = recent() {
            return Ok(count);
        }
        let began = Instant::now();
        let balances = self.0.storage.balances().await;
        let counted = balances.map(|balances| Arc::new(Count::new(began, balances)));
        let mut last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = counted.as_ref().ok().cloned();
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::sqlite::SqliteStorage;

    const LONG: Duration = Duration::from_secs(3_600);

    #[tokio::test]
    async fn a_count_is_made_once_for_all_who_want_it() {
        let folder = tempfile::tempdir().unwrap();
        let storage = SqliteStorage::open(&folder.path().join("shop.db")).unwrap();
        let audit = Audit::new(Arc::new(storage));
        assert!(audit.last().is_none());
        // Both have asked before the first of them can count.
        let turn = audit.0.counting.lock().await;
        let (first, second, ()) = tokio::join!(
            audit.no_older_than(Duration::ZERO),
            audit.no_older_than(Duration::ZERO),
            async { drop(turn) }
        );
        let (first, second) = (first.unwrap(), second.unwrap());
        assert!(Arc::ptr_eq(&first, &second), "counted twice at once");
        let third = audit.no_older_than(LONG).await.unwrap();
        assert!(Arc::ptr_eq(&first, &third), "counted although it was new");
        let fourth = audit.no_older_than(Duration::ZERO).await.unwrap();
        assert!(!Arc::ptr_eq(&first, &fourth), "not counted");
        assert!(Arc::ptr_eq(&fourth, &audit.last().unwrap()));
    }
}
