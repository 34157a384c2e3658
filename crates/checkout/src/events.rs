//! The events of the checkout, and the channel that distributes them to watchers.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use tokio::sync::broadcast;
use utoipa::ToSchema;

use crate::id::Id;
use crate::order::OrderStatus;

/// How many events are buffered for a slow watcher.
const EVENT_BUFFER: usize = 1_024;

/// An event of the checkout.
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
    /// An order released its locks.
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
    /// The database refused a stale lock: another order has held it since.
    FenceRefused {
        /// The product.
        product: Id,
    },
    /// An order was made, or has ended.
    OrderChanged {
        /// The end of the order's id. Everybody may watch, but whoever knows the whole id may see the order.
        #[serde(serialize_with = "public_suffix_of")]
        #[schema(value_type = String, example = "9f3c1a")]
        order: Id,
        /// Its new status.
        status: OrderStatus,
    },
    /// An order was not made.
    OrderRefused {
        /// Why, in a word.
        reason: &'static str,
        /// The products that were the reason.
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
    /// The circuit breaker around the lock store opened or closed.
    Breaker {
        /// `open` or `closed`.
        state: BreakerChange,
    },
}

/// What the circuit breaker did. Letting a probe through is not an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BreakerChange {
    /// It opened.
    Open,
    /// It closed.
    Closed,
}

impl BreakerChange {
    /// Returns the name of the new state, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

/// A lock that was granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Fenced {
    /// The product.
    pub product: Id,
    /// The fence of its lock.
    pub fence: String,
    /// Whether another order held it when it was requested.
    pub was_contended: bool,
}

fn public_suffix_of<S: Serializer>(id: &Id, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(id.public_suffix())
}

impl Event {
    /// Returns the type of the event, as in JSON.
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

/// The sender of events. Cheap to clone, and without cost while nobody watches.
#[derive(Debug, Clone)]
pub struct Events(broadcast::Sender<Arc<Event>>);

impl Default for Events {
    fn default() -> Self {
        Self(broadcast::Sender::new(EVENT_BUFFER))
    }
}

impl Events {
    /// Sends an event to all watchers. `event` is not called if there are none.
    pub fn tell(&self, event: impl FnOnce() -> Event) {
        if self.is_watched() {
            // The last watcher may have left just now.
            let _ = self.0.send(Arc::new(event()));
        }
    }

    /// Returns whether anybody watches.
    pub fn is_watched(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Subscribes to all events from now on.
    pub fn watch(&self) -> broadcast::Receiver<Arc<Event>> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_granted_lock_says_whether_it_was_contended() {
        let event = Event::LockGranted {
            locks: vec![Fenced {
                product: Id::new("lamp").unwrap(),
                fence: "7.0".into(),
                was_contended: true,
            }],
            waited_ms: 3,
        };
        let expected = serde_json::json!({
            "type": "lock_granted",
            "locks": [{ "product": "lamp", "fence": "7.0", "was_contended": true }],
            "waited_ms": 3,
        });
        assert_eq!(serde_json::to_value(event).unwrap(), expected);
    }
}
