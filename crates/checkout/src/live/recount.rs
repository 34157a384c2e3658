//! Keeps the count of all units new while somebody watches, without waiting for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::audit::{Audit, Count};
use crate::id::Id;
use crate::storage::StorageError;

/// The minimum pause between two counts.
const PAUSE: Duration = Duration::from_secs(3);
/// After a long count, the pause is this many times as long as the count.
const RESTRAINT: u32 = 20;

/// The newest count since somebody watches.
pub(super) struct Recount {
    audit: Audit,
    under_way: Option<JoinHandle<Result<Arc<Count>, StorageError>>>,
    next: Instant,
    count: Option<Arc<Count>>,
}

impl Recount {
    pub(super) fn of(audit: &Audit) -> Self {
        Self {
            audit: audit.clone(),
            under_way: None,
            next: Instant::now(),
            count: None,
        }
    }

    /// Collects a finished count, and starts the next one when it is time. Does not wait for it.
    pub(super) async fn sample(&mut self) {
        if let Some(ended) = self.under_way.take_if(|count| count.is_finished()) {
            // If the count failed, the result is unknown.
            self.count = ended.await.ok().and_then(Result::ok);
            let took = self.count.as_ref().map(|count| count.took);
            self.next = Instant::now() + PAUSE.max(took.unwrap_or_default() * RESTRAINT);
        }
        if let (Some(ours), Some(last)) = (&self.count, self.audit.last())
            && last.ended > ours.ended
        {
            // The sweeper counted in the pause.
            self.count = Some(last);
        }
        if self.under_way.is_none() && Instant::now() >= self.next {
            let audit = self.audit.clone();
            let work = async move { audit.no_older_than(PAUSE).await };
            self.under_way = Some(tokio::spawn(work));
        }
    }

    /// Returns whether the counts of a product add up, or `None` if the product was not counted yet.
    pub(super) fn adds_up(&self, product: &Id) -> Option<bool> {
        self.count.as_ref()?.adds_up(product)
    }
}
