//! What happens, as it happens, for those who watch.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use tokio::sync::broadcast;
use utoipa::ToSchema;

use crate::id::Id;
use crate::order::OrderStatus;

/// How many events are kept for somebody who reads slowly.
const KEPT: usize = 1_024;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// An order waits for the locks of these products.
    LockWanted {
        /// The products.
        products: Vec<Id>,
    },
    /// An order has the locks of these products.
    LockGranted {
        /// The products, and the fence of each lock.
        locks: Vec<Fenced>,
        /// How long it waited.
        waited_ms: u64,
    },
    /// An order gave its locks back.
    LockReleased {
        /// The products.
        products: Vec<Id>,
        /// How long it held them.
        held_ms: u64,
        /// Whether one of them was lost before that.
        lost: bool,
    },
    /// An order did not get its locks in time.
    LockRefused {
        /// The products.
        products: Vec<Id>,
    },
    /// The database refused a lock that had been somebody else's since.
    FenceRefused {
        /// The product.
        product: Id,
    },
    /// An order was made, or has ended.
    OrderChanged {
        /// The end of the order's id: whoever knows all of it may see the whole order, and everybody may watch.
        #[serde(serialize_with = "end_of")]
        #[schema(value_type = String, example = "9f3c1a")]
        order: Id,
        /// What it is now.
        status: OrderStatus,
    },
    /// An order was not made.
    OrderRefused {
        /// Why, in a word.
        reason: &'static str,
        /// Because of these products.
        products: Vec<Id>,
    },
    /// The units of a product, after a change.
    Stock {
        /// The product.
        product: Id,
        /// Units that can be ordered.
        stock: i64,
        /// Units in open orders.
        reserved: i64,
        /// Units in confirmed orders.
        sold: i64,
    },
    /// The lock store failed so often that it is left alone for a while; or is asked again.
    Breaker {
        /// `open` or `closed`.
        state: &'static str,
    },
}

/// A lock that was granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Fenced {
    /// The product.
    pub product: Id,
    /// The fence of its lock.
    pub fence: String,
    /// Whether somebody else had it when it was asked for.
    pub was_taken: bool,
}

fn end_of<S: Serializer>(id: &Id, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(id.end())
}

impl Event {
    /// Its type, as in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::LockWanted { .. } => "lock_wanted",
            Self::LockGranted { .. } => "lock_granted",
            Self::LockReleased { .. } => "lock_released",
            Self::LockRefused { .. } => "lock_refused",
            Self::FenceRefused { .. } => "fence_refused",
            Self::OrderChanged { .. } => "order_changed",
            Self::OrderRefused { .. } => "order_refused",
            Self::Stock { .. } => "stock",
            Self::Breaker { .. } => "breaker",
        }
    }
}

/// Where events are told. Cheap to clone; free when nobody watches.
#[derive(Debug, Clone)]
pub struct Events(broadcast::Sender<Arc<Event>>);

impl Default for Events {
    fn default() -> Self {
        Self(broadcast::Sender::new(KEPT))
    }
}

impl Events {
    /// Tells those who watch; `event` is not even made when nobody does.
    pub fn tell(&self, event: impl FnOnce() -> Event) {
        if self.is_watched() {
            // The last one may have left just now.
            let _ = self.0.send(Arc::new(event()));
        }
    }

    /// Whether anybody watches.
    pub fn is_watched(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Everything from now on.
    pub fn watch(&self) -> broadcast::Receiver<Arc<Event>> {
        self.0.subscribe()
    }
}
