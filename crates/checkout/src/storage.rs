//! The interface to the database of products, orders and reservations.
//!
//! Each operation is one transaction, which is committed when the operation returns. If the future of an operation is dropped, the
//! operation still completes.

use std::time::Duration;

use fencepost::clock::BoxFuture;
use fencepost::resource::Credential;

use crate::id::{Id, NoRandomness};
use crate::order::{Basket, NotPriced, Order, OrderStatus, PricedBasket, rfc3339};
use crate::product::{Balance, NewProduct, Product};

#[cfg(feature = "postgres")]
pub mod postgres;
mod sql;
pub mod sqlite;

/// The future of a database operation.
pub type StorageFuture<'a, T> = BoxFuture<'a, Result<T, StorageError>>;

/// The database failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// The database cannot be reached or is too busy; a retry may succeed. The operation may have taken effect.
    #[error("{0}")]
    Unavailable(String),
    /// The database gave an unexpected answer, which an operator should look into.
    #[error("{0}")]
    Broken(String),
    /// The file that was opened was removed or replaced, so writes to it would be lost. Nothing was changed.
    #[error("the file of the database was removed or replaced while it was open")]
    DatabaseGone,
}

/// The system cannot make up an id for something new, so nothing was changed.
impl From<NoRandomness> for StorageError {
    fn from(error: NoRandomness) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// A database of products and orders.
///
/// # Cancel safety
/// An operation that changes something completes even if its future is dropped.
pub trait Storage: Send + Sync + 'static {
    /// Adds a product. `None` if a product with this id exists already.
    fn add_product(&self, product: NewProduct, id: Id) -> StorageFuture<'_, Option<Product>>;

    /// Returns the product with this id.
    fn product<'a>(&'a self, id: &'a Id) -> StorageFuture<'a, Option<Product>>;

    /// Returns up to `limit` products whose ids sort after `after`, sorted by id.
    fn products(&self, after: Option<Id>, limit: i64) -> StorageFuture<'_, Vec<Product>>;

    /// Returns the existing products of a basket, in its order.
    fn products_of<'a>(&'a self, basket: &'a Basket) -> StorageFuture<'a, Vec<Product>>;

    /// Reserves everything in the basket and makes the order, or does neither.
    fn place(&self, placement: Placement) -> StorageFuture<'_, Placed>;

    /// Returns the order that was made with this idempotency key, if any, as it was when it was made.
    fn replay<'a>(&'a self, key: &'a Key) -> StorageFuture<'a, Replay>;

    /// Returns the order with this id.
    fn order<'a>(&'a self, id: &'a Id) -> StorageFuture<'a, Option<Order>>;

    /// Confirms, cancels or expires a pending order. Of several concurrent calls, one succeeds.
    fn settle(&self, id: Id, ending: Ending) -> StorageFuture<'_, Settled>;

    /// Ids of pending orders that are past their time, oldest first.
    fn overdue(&self, limit: i64) -> StorageFuture<'_, Vec<Id>>;

    /// Deletes up to `limit` idempotency keys that are older than this and whose orders have ended, and returns their number. The
    /// credential is the sweeper's. `None` if another instance has swept since; then nothing was changed.
    fn forget_keys(
        &self,
        older_than: Duration,
        limit: i64,
        credential: Credential,
    ) -> StorageFuture<'_, Option<u64>>;

    /// Returns the balance of every product, read in one snapshot.
    fn balances(&self) -> StorageFuture<'_, Vec<Balance>>;

    /// Returns how many products there are, and how many open reservations.
    fn counts(&self) -> StorageFuture<'_, (i64, i64)>;

    /// Checks that the database answers and, as far as can be seen without a write, accepts writes.
    fn ping(&self) -> StorageFuture<'_, ()>;

    /// Moves all data into the database file, so that a copy of that file alone is complete; the last step of an orderly shutdown. `false`
    /// if another program kept part of the data in the log beside the file; nothing is lost then. Does nothing on a server.
    fn checkpoint(&self) -> StorageFuture<'_, bool> {
        Box::pin(async { Ok(true) })
    }
}

/// How a transaction makes sure that no other order takes the same units.
#[derive(Debug, Clone)]
pub enum Guarding {
    /// Locks, one for each line: the database refuses a stale credential.
    Fenced(Vec<Credential>),
    /// The versions that were read, one for each line: the database refuses the order if one has changed.
    Versions(Vec<i64>),
    /// The database's own row locks.
    Rows,
}

impl Guarding {
    /// Checks that every line of the basket is guarded: a line without its credential would be written unfenced.
    fn covers(&self, basket: &Basket) -> Result<(), StorageError> {
        let guarded = match self {
            Self::Fenced(credentials) => credentials.len(),
            Self::Versions(versions) => versions.len(),
            Self::Rows => return Ok(()),
        };
        let lines = basket.lines().len();
        if guarded == lines {
            return Ok(());
        }
        let words = format!("a basket of {lines} lines came with {guarded} locks or versions");
        Err(StorageError::Broken(words))
    }
}

/// An idempotency key: a repeated request with the same key does not make a second order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The key.
    pub key: String,
    /// A digest of the request that the key belongs to.
    pub fingerprint: String,
}

/// An order to be made.
#[derive(Debug, Clone)]
pub struct Placement {
    /// Its id.
    pub order_id: Id,
    /// Its idempotency key.
    pub key: Option<Key>,
    /// What is in it.
    pub basket: Basket,
    /// How long its units are reserved.
    pub reserve_for: Duration,
    /// How other orders are kept out.
    pub guarding: Guarding,
}

/// The outcome of placing an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    /// The order was made.
    Created(Order),
    /// The order was made before with the same key; contains the order as it was then.
    Replayed(Order),
    /// A different order was made with the same key.
    KeyReused,
    /// These products do not exist.
    Unknown(Vec<Id>),
    /// These products belong to another shop.
    OtherShop(Vec<Id>),
    /// Too few units of these products are left.
    OutOfStock(Vec<Id>),
    /// The lock of this product is stale: another order has held it since. Nothing was changed.
    StaleFence(Id),
    /// Another order changed a product between reading and writing. Nothing was changed.
    Conflict,
}

impl From<NotPriced> for Placed {
    fn from(reason: NotPriced) -> Self {
        match reason {
            NotPriced::Unknown(ids) => Self::Unknown(ids),
            NotPriced::OtherShop(ids) => Self::OtherShop(ids),
        }
    }
}

/// What is known of an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replay {
    /// The key was not used before.
    New,
    /// This order was made with it.
    Made(Box<Order>),
    /// A different order was made with it.
    Reused,
}

/// How a pending order ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Its units are sold.
    Confirm,
    /// Its units return to stock.
    Cancel,
    /// Its units return to stock if the order is past its time; the credential is the sweeper's.
    Expire(Credential),
}

impl Ending {
    /// Returns the status of the order after this ending.
    fn status(self) -> OrderStatus {
        match self {
            Self::Confirm => OrderStatus::Confirmed,
            Self::Cancel => OrderStatus::Cancelled,
            Self::Expire(_) => OrderStatus::Expired,
        }
    }
}

/// The outcome of ending a pending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// The order was ended by this call.
    Done(Order),
    /// This call did not end the order: it had ended already, or it is not overdue yet.
    Unchanged(Order),
    /// The order was expired by this call, but its stored document cannot be read. Returning its units does not need the document.
    Unread,
    /// There is no such order.
    Unknown,
    /// Another instance is the sweeper now. Nothing was changed.
    StaleFence,
}

impl Settled {
    /// Returns the outcome for an order; `is_done` says whether this call ended it.
    fn of(order: Order, is_done: bool) -> Self {
        if is_done {
            Self::Done(order)
        } else {
            Self::Unchanged(order)
        }
    }
}

/// The result of a transaction, and whether to keep what it wrote.
enum Decision<T> {
    Commit(T),
    RollBack(T),
}

/// An order as stored in the database.
struct OrderRow {
    id: String,
    status: String,
    document: String,
    created_ms: i64,
    expires_ms: i64,
}

impl OrderRow {
    fn order(self) -> Result<Order, StorageError> {
        let broken = |what: &str| StorageError::Broken(format!("order {}: {what}", self.id));
        let order_status = OrderStatus::of(&self.status).ok_or_else(|| broken("no such status"))?;
        let order_checkout =
            serde_json::from_str(&self.document).map_err(|_| broken("not a checkout"))?;
        let order_id = Id::new(&*self.id).map_err(|_| broken("not an id"))?;
        Ok(Order {
            order_id,
            order_status,
            order_checkout,
            created_at: rfc3339(self.created_ms),
            reserved_until: rfc3339(self.expires_ms),
        })
    }
}

/// Parses a stored id, which was valid when it was stored.
fn stored_id(text: String) -> Result<Id, StorageError> {
    Id::new(text).map_err(|_| StorageError::Broken("a stored id is invalid".into()))
}

/// Returns an order that was just made.
fn pending_order(order_id: Id, checkout: PricedBasket, created_ms: i64, expires_ms: i64) -> Order {
    Order {
        order_id,
        order_status: OrderStatus::Pending,
        order_checkout: checkout,
        created_at: rfc3339(created_ms),
        reserved_until: rfc3339(expires_ms),
    }
}

/// Returns the statement that moves reserved units, and the new status of their reservation.
fn unit_movement(ending: Ending) -> (&'static str, &'static str) {
    match ending {
        Ending::Confirm => (sql::SELL, "sold"),
        Ending::Cancel | Ending::Expire(_) => (sql::RETURN, "returned"),
    }
}

fn later(ms: i64, by: Duration) -> i64 {
    ms.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX))
}

fn earlier(ms: i64, by: Duration) -> i64 {
    ms.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX))
}

fn document(checkout: &PricedBasket) -> Result<String, StorageError> {
    serde_json::to_string(checkout).map_err(|error| StorageError::Broken(error.to_string()))
}

/// Returns the order as it was when it was made, so that a repeated request gets the same answer even if the order has ended since.
fn replay_of(row: OrderRow, fingerprint: &str, key: &Key) -> Result<Replay, StorageError> {
    if fingerprint != key.fingerprint {
        return Ok(Replay::Reused);
    }
    let order = row.order()?;
    Ok(Replay::Made(Box::new(Order {
        order_status: OrderStatus::Pending,
        ..order
    })))
}
