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
    /// The names of all refusals.
    pub const REASONS: [&'static str; 9] = [
        "key_reused",
        "unknown_product",
        "other_shop",
        "out_of_stock",
        "contended",
        "store_down",
        "closing",
        "database_gone",
        "database",
    ];

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
                tracing::error!(error = %StorageError::DatabaseGone, "the database failed")
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
            StorageError::DatabaseGone => Self::DatabaseGone,
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

#[cfg(test)]
mod tests {
    use super::*;

    const ACTIVITY: &str = include_str!("../page/activity.js");
    const PAGE: &str = include_str!("../../../../docs/checkout.md");

    /// Returns one refusal of each kind.
    fn all() -> Vec<Refusal> {
        let time = Duration::from_secs(1);
        let first = Refusal::KeyReused;
        std::iter::successors(Some(first), |refusal| {
            // Exhaustive, so that a new kind must be added.
            Some(match refusal {
                Refusal::KeyReused => Refusal::Unknown(vec![]),
                Refusal::Unknown(_) => Refusal::OtherShop(vec![]),
                Refusal::OtherShop(_) => Refusal::OutOfStock(vec![]),
                Refusal::OutOfStock(_) => Refusal::Contended(vec![], time),
                Refusal::Contended(..) => Refusal::StoreDown(time),
                Refusal::StoreDown(_) => Refusal::Closing,
                Refusal::Closing => Refusal::DatabaseGone,
                Refusal::DatabaseGone => Refusal::Database(String::new()),
                Refusal::Database(_) => return None,
            })
        })
        .collect()
    }

    #[test]
    fn every_reason_has_its_words_on_the_live_page_and_in_the_docs() {
        let names: Vec<&str> = all().iter().map(Refusal::as_str).collect();
        assert_eq!(names, Refusal::REASONS);
        let (_, below) = ACTIVITY.split_once("const REASONS = {\n").unwrap();
        let (reasons, _) = below.split_once("};").unwrap();
        let mut shown: Vec<&str> = reasons
            .lines()
            .map(|line| line.trim().split_once(": ").unwrap().0)
            .collect();
        // The other kinds of entries: a lost lock, a stale one, and the breaker.
        shown.retain(|name| !["lost", "stale", "open", "closed"].contains(name));
        let mut expected = names.clone();
        shown.sort_unstable();
        expected.sort_unstable();
        assert_eq!(shown, expected);
        let (_, below) = PAGE
            .split_once("\nThe reasons why an order is not made")
            .unwrap();
        let (table, _) = below.split_once("\n### ").unwrap();
        for name in names {
            assert!(table.contains(&format!("\n| `{name}` | ")), "{name}");
        }
    }
}
