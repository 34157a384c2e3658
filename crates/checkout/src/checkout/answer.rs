//! The answer to an order: the order that was made, or why it was refused.

use std::time::Duration;

use crate::id::Id;
use crate::order::{Basket, NotPriced, Order};
use crate::storage::{Placed, StorageError};

/// When a customer who found a product locked should retry.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// An order that was made, now or before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordered {
    /// The order.
    pub order: Order,
    /// Whether the order existed before, because this request is a repetition.
    pub is_replay: bool,
}

/// Why an order was refused. Nothing was reserved, except possibly after [`Database`](Self::Database).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A different order was made with the same idempotency key.
    KeyReused,
    /// These products do not exist.
    Unknown(Vec<Id>),
    /// These products belong to another shop.
    OtherShop(Vec<Id>),
    /// Too few units of these products are left.
    OutOfStock(Vec<Id>),
    /// Other orders kept these products locked; retry after this time.
    Contended(Vec<Id>, Duration),
    /// The lock store is unavailable; retry after this time.
    StoreDown(Duration),
    /// The service is being stopped.
    Closing,
    /// The database file was removed or replaced.
    DatabaseGone,
    /// The database failed, and the order may have been made; the text is for the log.
    Database(String),
}

impl Refusal {
    /// Returns the name of this refusal in metrics and events.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::KeyReused => "key_reused",
            Self::Unknown(_) => "unknown_product",
            Self::OtherShop(_) => "other_shop",
            Self::OutOfStock(_) => "out_of_stock",
            Self::Contended(..) => "contended",
            Self::StoreDown(_) => "store_down",
            Self::Closing => "closing",
            Self::DatabaseGone => "database_gone",
            Self::Database(_) => "database",
        }
    }

    /// Writes a failure of the database to the log. Everything else concerns the customer alone.
    pub(super) fn log(&self) {
        match self {
            Self::DatabaseGone => {
                tracing::error!(error = %StorageError::Displaced, "the database failed")
            }
            Self::Database(error) => tracing::error!(error, "the database failed"),
            _ => {}
        }
    }

    /// Returns the products that caused the refusal.
    pub fn products(&self) -> &[Id] {
        match self {
            Self::Unknown(ids)
            | Self::OtherShop(ids)
            | Self::OutOfStock(ids)
            | Self::Contended(ids, _) => ids,
            _ => &[],
        }
    }
}

impl From<StorageError> for Refusal {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Displaced => Self::DatabaseGone,
            other => Self::Database(other.to_string()),
        }
    }
}

impl From<NotPriced> for Refusal {
    fn from(reason: NotPriced) -> Self {
        match reason {
            NotPriced::Unknown(ids) => Self::Unknown(ids),
            NotPriced::OtherShop(ids) => Self::OtherShop(ids),
        }
    }
}

/// Why an order could not be reviewed. A review changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReviewed {
    /// The order would be refused for this reason.
    Refused(Refusal),
    /// The database failed.
    Storage(StorageError),
}

impl From<StorageError> for NotReviewed {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<NotPriced> for NotReviewed {
    fn from(reason: NotPriced) -> Self {
        Self::Refused(reason.into())
    }
}

/// Returns the answer for what the storage did with this basket.
pub(super) fn answer(placed: Placed, basket: &Basket) -> Result<Ordered, Refusal> {
    let all = || basket.lines().iter().map(|line| line.product_id.clone());
    match placed {
        Placed::Created(order) => Ok(Ordered {
            order,
            is_replay: false,
        }),
        Placed::Replayed(order) => Ok(Ordered {
            order,
            is_replay: true,
        }),
        Placed::KeyReused => Err(Refusal::KeyReused),
        Placed::Unknown(ids) => Err(Refusal::Unknown(ids)),
        Placed::OtherShop(ids) => Err(Refusal::OtherShop(ids)),
        Placed::OutOfStock(ids) => Err(Refusal::OutOfStock(ids)),
        Placed::StaleFence(_) | Placed::Conflict => {
            Err(Refusal::Contended(all().collect(), RETRY_AFTER))
        }
    }
}
