//! Where products, orders and reservations are kept: what every database must do alike.
//!
//! Each operation is one transaction: it happens as a whole or not at all, and has happened when it returns. The future of an
//! operation may be dropped; the operation then goes on to its end all the same.

use std::time::Duration;

use fencepost::BoxFuture;
use fencepost::resource::Credential;

use crate::id::Id;
use crate::order::{Basket, Order};
use crate::product::{Balance, NewProduct, Product};

#[cfg(feature = "postgres")]
pub mod postgres;
mod sql;
pub mod sqlite;

/// What an operation of a database comes to.
pub type Outcome<'a, T> = BoxFuture<'a, Result<T, StorageError>>;

/// The database failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StorageError {
    /// It cannot be reached, or is too busy: later it may work. Whether the operation took effect is not known.
    #[error("{0}")]
    Unavailable(String),
    /// It answers, and not as it should: somebody has to look.
    #[error("{0}")]
    Broken(String),
    /// The file that was opened is no longer at its place: what is written there, nobody would see again. Nothing was changed.
    #[error("the file of the database was removed or replaced while it was open")]
    Displaced,
}

/// A database of products and orders.
pub trait Storage: Send + Sync + 'static {
    /// A short name, such as `"sqlite"`.
    fn name(&self) -> &'static str;

    /// Puts a product up for sale. `None`: there is one of this id.
    ///
    /// # Cancel safety
    /// Goes on to its end when dropped, as all operations here.
    fn add_product(&self, product: NewProduct, id: Id) -> Outcome<'_, Option<Product>>;

    /// The product of this id.
    ///
    /// # Cancel safety
    /// Changes nothing.
    fn product<'a>(&'a self, id: &'a Id) -> Outcome<'a, Option<Product>>;

    /// Up to `limit` products in the order of their ids, after this one.
    ///
    /// # Cancel safety
    /// Changes nothing.
    fn products(&self, after: Option<Id>, limit: i64) -> Outcome<'_, Vec<Product>>;

    /// Those products of a basket that there are, in its order.
    ///
    /// # Cancel safety
    /// Changes nothing.
    fn products_of<'a>(&'a self, basket: &'a Basket) -> Outcome<'a, Vec<Product>>;

    /// Reserves everything in the basket and makes the order, or does neither.
    ///
    /// # Cancel safety
    /// Goes on to its end when dropped.
    fn place(&self, placement: Placement) -> Outcome<'_, Placed>;

    /// The order that was made under this idempotency key, if any, as it was when it was made.
    ///
    /// # Cancel safety
    /// Changes nothing.
    fn replay<'a>(&'a self, key: &'a Key) -> Outcome<'a, Replay>;

    /// The order of this id.
    ///
    /// # Cancel safety
    /// Changes nothing.
    fn order<'a>(&'a self, id: &'a Id) -> Outcome<'a, Option<Order>>;

    /// Ends a pending order one way or the other. Of several who try at once, one does it.
    ///
    /// # Cancel safety
    /// Goes on to its end when dropped.
    fn settle(&self, id: Id, ending: Ending) -> Outcome<'_, Settled>;

    /// Ids of pending orders whose time is over, the oldest first.
    ///
    /// # Cancel safety
    /// Changes nothing.
    fn overdue(&self, limit: i64) -> Outcome<'_, Vec<Id>>;

    /// Removes up to `limit` idempotency keys that are older than this, and whose orders have ended; says how many. The credential is that of the one who
    /// sweeps. `None`: somebody else has swept since, and nothing was changed.
    ///
    /// # Cancel safety
    /// Goes on to its end when dropped.
    fn forget_keys(
        &self,
        older_than: Duration,
        limit: i64,
        credential: Credential,
    ) -> Outcome<'_, Option<u64>>;

    /// Where every unit is: one reading of everything, at one moment.
    ///
    /// # Cancel safety
    /// Changes nothing.
    fn balances(&self) -> Outcome<'_, Vec<Balance>>;

    /// How many products there are, and how many open reservations.
    ///
    /// # Cancel safety
    /// Changes nothing.
    fn counts(&self) -> Outcome<'_, (i64, i64)>;

    /// Whether it answers, and takes writes as far as that is known without one.
    ///
    /// # Cancel safety
    /// Changes nothing.
    fn ping(&self) -> Outcome<'_, ()>;

    /// The last step of an orderly end: leaves the data so that a copy of the database's file alone is complete. `false`: another
    /// program kept part of it in the log beside the file, and nothing is lost by that. A server has nothing to do here.
    ///
    /// # Cancel safety
    /// It goes on when the future is dropped.
    fn checkpoint(&self) -> Outcome<'_, bool> {
        Box::pin(async { Ok(true) })
    }
}

/// What keeps others from the same units while an order is made.
#[derive(Debug, Clone)]
pub enum Guarding {
    /// Locks, one per line: the database refuses a credential that is late.
    Fenced(Vec<Credential>),
    /// The versions that were read, one per line: the database refuses when one has changed.
    Versions(Vec<i64>),
    /// The database's own row locks.
    Rows,
}

/// A customer's name for one order, so that asking twice makes it once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The name.
    pub key: String,
    /// What was asked for under it.
    pub fingerprint: String,
}

/// An order to be made.
#[derive(Debug, Clone)]
pub struct Placement {
    /// Its id.
    pub order_id: Id,
    /// The customer's name for it.
    pub key: Option<Key>,
    /// What is in it.
    pub basket: Basket,
    /// How long its units are reserved.
    pub reserve_for: Duration,
    /// What keeps others out meanwhile.
    pub guarding: Guarding,
}

/// What became of an order to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    /// It is made.
    Created(Order),
    /// It was made before under the same key; as it was then.
    Replayed(Order),
    /// Something else was ordered under the same key.
    KeyReused,
    /// These are not for sale.
    Unknown(Vec<Id>),
    /// These are another shop's.
    OtherShop(Vec<Id>),
    /// There is too little of these.
    OutOfStock(Vec<Id>),
    /// The lock of this product has been somebody else's since. Nothing was changed.
    LateFence(Id),
    /// Somebody else was there between reading and writing. Nothing was changed.
    Conflict,
}

/// What is known of an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replay {
    /// Nothing.
    New,
    /// This order was made under it.
    Made(Box<Order>),
    /// Something else was ordered under it.
    Reused,
}

/// How a pending order ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Its units are sold.
    Confirm,
    /// Its units go back.
    Cancel,
    /// Its units go back if its time is over; the credential is that of the one who sweeps.
    Expire(Credential),
}

impl Ending {
    /// The status it leads to.
    fn status(self) -> crate::order::OrderStatus {
        match self {
            Self::Confirm => crate::order::OrderStatus::Confirmed,
            Self::Cancel => crate::order::OrderStatus::Cancelled,
            Self::Expire(_) => crate::order::OrderStatus::Expired,
        }
    }
}

/// What became of a pending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// It has ended so, now.
    Done(Order),
    /// It had ended before, in the way that its status says; or its time is not over.
    Before(Order),
    /// It has expired, now; what was ordered cannot be read any more, which its units do not need.
    Unread,
    /// There is no such order.
    Unknown,
    /// Somebody else sweeps now. Nothing was changed.
    LateFence,
}

/// The gate of the one who sweeps.
pub const SWEEP: &str = "checkout:sweep";

/// How the locks of products begin.
pub const PRODUCT_LOCK: &str = "lock:product:";

/// The gate of a product, and the name of its lock.
pub fn lock_name(product: &Id) -> String {
    format!("{PRODUCT_LOCK}{product}")
}

/// An order as the database keeps it.
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
        let order_status =
            crate::order::OrderStatus::of(&self.status).ok_or_else(|| broken("no such status"))?;
        let order_checkout =
            serde_json::from_str(&self.document).map_err(|_| broken("not a checkout"))?;
        let order_id = Id::new(&*self.id).map_err(|_| broken("not an id"))?;
        Ok(Order {
            order_id,
            order_status,
            order_checkout,
            created_at: crate::order::rfc3339(self.created_ms),
            reserved_until: crate::order::rfc3339(self.expires_ms),
        })
    }
}

/// An id that was checked before it was stored.
fn stored_id(text: String) -> Result<Id, StorageError> {
    Id::new(text).map_err(|_| StorageError::Broken("a stored id is none".into()))
}

/// The products of which there are fewer than are wanted.
fn too_little(basket: &Basket, products: &[Product]) -> Vec<Id> {
    let lines = basket.lines().iter().zip(products);
    let short = lines.filter(|(line, product)| product.stock < line.quantity);
    short.map(|(line, _)| line.product_id.clone()).collect()
}

/// The statement that moves reserved units, and what their reservation is called then.
fn movement(ending: Ending) -> (&'static str, &'static str) {
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

fn document(checkout: &crate::order::Checkout) -> Result<String, StorageError> {
    serde_json::to_string(checkout).map_err(|error| StorageError::Broken(error.to_string()))
}

/// The order as it was when it was made: asking again brings the same answer, whatever became of it since.
fn replay_of(row: OrderRow, fingerprint: &str, key: &Key) -> Result<Replay, StorageError> {
    if fingerprint != key.fingerprint {
        return Ok(Replay::Reused);
    }
    let order = row.order()?;
    Ok(Replay::Made(Box::new(Order {
        order_status: crate::order::OrderStatus::Pending,
        ..order
    })))
}
